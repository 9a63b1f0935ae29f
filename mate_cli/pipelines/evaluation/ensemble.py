"""Several runs of a task, evaluated as one: the mean of their scores, at the cost of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mate_cli.errors import ConfigError
from mate_cli.files.safe_load import to_yaml
from mate_cli.pipelines.assembly import load_best
from mate_cli.pipelines.evaluation.evaluate_run import open_stages
from mate_cli.pipelines.evaluation.evaluation import describe_questions, judge, save_result
from mate_cli.pipelines.machine import RuntimeOverrides
from mate_cli.pipelines.run import Run, broadcast_folder, peak_memory_mb, record_outcome
from mate_cli.pipelines.summary import results_table
from mate_cli.pipelines.systems.base import System, TrainedStage, answer_split, joint_throughput
from mate_cli.runs import ranks
from mate_cli.runs.configuration import read_parts
from mate_cli.runs.folders import new_folder, open_run
from mate_cli.runs.identity import Names
from mate_cli.runs.record import RunFolder, RunRecord


@dataclass(frozen=True)
class Ensemble(TrainedStage):
    """Finished stages of one kind that predict together; the first one stands for all in everything else."""

    members: Sequence[TrainedStage] = ()

    @classmethod
    def of(cls, members: Sequence[TrainedStage]) -> Ensemble:
        """Join members to one.

        Raises:
            ConfigError: they do not read the same, so that their spans are of different tokens.
        """
        first = members[0]
        by_token = first.parts.task.spec.label == "span"  # cells are the table's own, whatever is read of it
        if by_token and any(_reading(member) != _reading(first) for member in members):
            raise ConfigError(
                "these runs encode inputs differently", where="run", remedy="Use runs that differ only in the seed"
            )
        return cls(first.name, first.parts, first.config, members)

    def predict(self, examples: Sequence[Any], name: str) -> list[Any]:
        """Return the mean of the members' predictions, see `TableTask.join_members`."""
        return self.parts.task.join_members([member.predict(examples, name) for member in self.members])


def _reading(member: TrainedStage) -> tuple[Mapping[str, Any], str]:
    """Return the encoding of a stage; each may rank rows by a run of its own."""
    return {**member.config.encoding, "ranked_by": None}, member.config.tokenizer


def evaluate_together(runs: Sequence[str], split: str, runtime: RuntimeOverrides) -> RunFolder:
    """Score several finished runs of one task as one, and leave a record with what all of them cost.

    Returns:
        The folder below outputs/evaluate with record, metrics and predictions, which `mate compare` reads.

    Raises:
        ConfigError: they are different tasks or datasets, read spans of different tokens, or cannot be joined.
        RunError: one is not finished.
        DataError: the split is missing.
    """
    folders = [open_run(run) for run in runs]
    records = [folder.read_record() for folder in folders]
    if len({(record.task, record.dataset, tuple(record.stages)) for record in records}) > 1:
        raise ConfigError(
            "these runs have different tasks or datasets", where="run", remedy="Use runs of one experiment"
        )
    outputs = Path(runtime.paths.outputs)
    joint_folder = broadcast_folder(lambda: new_folder(outputs, "evaluate", records[0].experiment, 0))
    run = Run.of(joint_folder, joint_record(records, split))
    members = [str(folder.path) for folder in folders]
    with record_outcome(run):
        answer = _of_systems if records[0].stages else _of_runs
        metrics, config = answer(folders, run, split, runtime)
        run.folder.write_text("config.yaml", to_yaml({**config, "members": members}))
        run.record.metrics = {f"{split}/{name}": value for name, value in metrics.items()}
        run.record.peak_memory_mb = ranks.all_reduce_sum([peak_memory_mb()])[0]
    cost = f"{len(members)} runs as one: {run.record.parameters:,} parameters"
    run.console.print(results_table(run.record.metrics, f"{cost}, mean of their scores"))
    run.console.print(f"run folder: {run.folder.path}", soft_wrap=True)
    return run.folder


def joint_record(records: Sequence[RunRecord], split: str) -> RunRecord:
    """Make a record of runs as one: what they have in common, and what all of them together cost."""
    first = records[0]
    every = {field: dict.fromkeys(getattr(record, field) for record in records) for field in Names.__dataclass_fields__}
    names = Names(**{field: " + ".join(values) for field, values in every.items()})
    overrides = [f"run=[{len(records)} runs]", f"split={split}"]
    joint = RunRecord(command="evaluate", overrides=overrides, seed=first.seed, **asdict(names))
    joint.parameters = sum(record.parameters for record in records)
    joint.wall_seconds = sum(record.wall_seconds for record in records)
    joint.throughput = joint_throughput([record.throughput for record in records])
    joint.data, joint.device = dict(first.data), first.device
    joint.facts = {"ensemble": f"{len(records)} runs, seeds {', '.join(str(record.seed) for record in records)}"}
    return joint


def _of_runs(
    folders: Sequence[RunFolder], run: Run, split: str, runtime: RuntimeOverrides
) -> tuple[Mapping[str, float], Mapping[str, Any]]:
    configs = [runtime.config(folder) for folder in folders]
    pairs = zip(folders, configs, strict=True)
    joint = Ensemble.of([TrainedStage("", load_best(config, folder), config) for folder, config in pairs])
    examples = joint.parts.data.examples(split)
    result = judge(joint.parts.task, examples, joint.predict(examples, split))
    save_result(run.folder, split, result)
    run.record.questions |= describe_questions(split, result.examples.values())
    return result.metrics, configs[0].model_dump()


def _of_systems(
    folders: Sequence[RunFolder], run: Run, split: str, runtime: RuntimeOverrides
) -> tuple[Mapping[str, float], Mapping[str, Any]]:
    opened = [open_stages(folder, runtime) for folder in folders]
    system = with_mean([system for system, _ in opened])
    stages = {name: Ensemble.of([stages[name] for _, stages in opened]) for name in system.stages}
    run.record.questions |= describe_questions(split, stages[system.stages[0]].parts.data.questions(split))
    return answer_split(system, stages, split, run.folder), read_parts(folders[0].path, runtime.trust)


def with_mean(systems: Sequence[System]) -> System:
    """Return a system with the mean of the numbers that several have learnt.

    Raises:
        ConfigError: they have not learnt the same things.
    """
    keys = systems[0].parameters
    if any(system.parameters.keys() != keys.keys() for system in systems):
        raise ConfigError(
            "these runs answer in different forms", where="run", remedy="Use runs that differ only in the seed"
        )
    return systems[0].with_parameters(
        {key: sum(system.parameters[key] for system in systems) / len(systems) for key in keys}
    )
