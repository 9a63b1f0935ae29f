"""Score weights that come without a run: what others released, or what `mate export` wrote."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.utils import instantiate

from mate_cli.errors import DataError
from mate_cli.files.safe_load import to_yaml
from mate_cli.lit_modules.base import TableTask
from mate_cli.lit_modules.entailment import Entailment
from mate_cli.lit_modules.table_qa import TableQA
from mate_cli.pipelines.assembly import Parts
from mate_cli.pipelines.evaluation.evaluation import describe_questions, evaluate, save_result
from mate_cli.pipelines.inference.checkpoint import open_checkpoint
from mate_cli.pipelines.machine import RuntimeOverrides
from mate_cli.pipelines.run import Run, broadcast_folder, peak_memory_mb, record_outcome
from mate_cli.pipelines.summary import results_table
from mate_cli.runs import ranks
from mate_cli.runs.configuration import ModelConfig
from mate_cli.runs.devices import find_accelerator
from mate_cli.runs.folders import new_folder
from mate_cli.runs.record import RunFolder, RunRecord
from mate_cli.tables.example import TableExample


def evaluate_checkpoint(
    name: str, data: Mapping[str, Any], splits: Sequence[str], runtime: RuntimeOverrides
) -> RunFolder:
    """Score a checkpoint on splits of a dataset, and leave a record as a run does.

    Args:
        name: see `open_checkpoint`.
        data: the dataset, as `conf/data` names it.
        splits: of the dataset.
        runtime: the machine and the folders of now.

    Returns:
        The folder below outputs/evaluate with record, metrics and predictions, which `mate compare` reads.

    Raises:
        CheckpointError: there is no such checkpoint, or it is damaged.
        DataError: a split is missing, or its questions are not what the checkpoint answers.
    """
    dataset = instantiate(data)
    # Quicker than weights, and may be missing: the first process fetches.
    examples = ranks.rank_zero_first(lambda: {split: dataset.examples(split) for split in splits})
    parts, config = open_checkpoint(name, runtime, dataset)
    for split in splits:
        check_answers(parts.task, examples[split], f"{data.get('name', type(dataset).__name__)} {split}", name)
    record = _record(name, data, splits, parts, config)
    outputs = Path(runtime.paths.outputs)
    run = Run.of(broadcast_folder(lambda: new_folder(outputs, "evaluate", record.experiment, 0)), record)
    with record_outcome(run):
        run.folder.write_text("config.yaml", to_yaml({**config.model_dump(), "data": dict(data), "checkpoint": name}))
        for split in splits:
            result = evaluate(parts, config, split)
            save_result(run.folder, split, result)
            record.questions |= describe_questions(split, result.examples.values())
            record.metrics |= {f"{split}/{metric}": value for metric, value in result.metrics.items()}
        record.peak_memory_mb = ranks.all_reduce_sum([peak_memory_mb()])[0]
    run.console.print(results_table(record.metrics, f"{name} on {record.dataset}"))
    for fact, text in record.facts.items():
        run.console.print(f"{fact}: {text}")
    run.console.print(f"run folder: {run.folder.path}", soft_wrap=True)
    return run.folder


def check_answers(task: TableTask[Any, Any], examples: Sequence[TableExample], split: str, checkpoint: str) -> None:
    """Refuse questions whose answers are of another kind than those of a task.

    Raises:
        DataError: all of them are, or none has an answer.
    """
    answers = [example.answer for example in examples if example.answer]
    if not answers:
        raise DataError("this split has no answers to score", where=split, remedy="Choose another split")
    judges = isinstance(task, Entailment)
    if isinstance(task, (Entailment, TableQA)) and all((answer.label is not None) != judges for answer in answers):
        kinds = ("statements to judge", "questions that cells answer")
        problem = f"has {kinds[judges]}, {checkpoint} was trained for {kinds[not judges]}"
        raise DataError(problem, where=split, remedy=f"Use data={'tabfact' if judges else 'wtq, sqa or wikisql'}")


def _record(name: str, data: Mapping[str, Any], splits: Sequence[str], parts: Parts, config: ModelConfig) -> RunRecord:
    dataset = str(data.get("name") or data["_target_"].rpartition(".")[2])
    record = RunRecord(
        command="evaluate",
        experiment=re.sub(r"[^\w.@-]+", "_", Path(name).name) or "checkpoint",
        overrides=[f"checkpoint={name}", f"data={dataset}", f"split={','.join(splits)}"],
        settings=[],
        dataset=dataset,
        model=_last(config.model),
        attention=_last(config.attention),
        init=name,
        task=_last(config.task),
        seed=config.seed,
    )
    record.parameters = sum(parameter.numel() for parameter in parts.task.parameters())
    record.device = find_accelerator(config.hardware)
    record.facts = {**parts.data.facts}
    return record


def _last(part: Mapping[str, Any]) -> str:
    """Name a part as its group has it: `table_qa` for `mate_cli.lit_modules.table_qa.TableQA`."""
    return str(part["_target_"]).split(".")[-2]
