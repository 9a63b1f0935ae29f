"""A chain: runs one after the other, and a module that makes answers of them all.

`stages` of the configuration names the runs, `chain` the module of this package that has STAGES and `answer`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from hydra import compose
from omegaconf import DictConfig, OmegaConf, open_dict
from rich.console import Console

import mate_cli.pipelines
from mate_cli.errors import ConfigError, RunError
from mate_cli.lit_modules.span_reading import score_answers
from mate_cli.pipelines.assembly import Parts, load_best
from mate_cli.pipelines.evaluation import predict
from mate_cli.pipelines.predictions import save_predictions
from mate_cli.pipelines.summary import print_results
from mate_cli.pipelines.training import Run, begin, open_trackers, recorded, train
from mate_cli.runs import ranks
from mate_cli.runs.clock import Clock
from mate_cli.runs.folders import open_run
from mate_cli.runs.names import Names
from mate_cli.runs.record import RunFolder, RunRecord
from mate_cli.runs.tracking import Trackers
from mate_cli.tables.example import TableExample


@dataclass(frozen=True)
class Trained:
    """A finished stage with its best weights."""

    parts: Parts
    cfg: DictConfig

    def predict(self, examples: Sequence[TableExample], name: str) -> list[Any]:
        """Its predictions of any examples; `name` is what the progress bar calls them."""
        loader = ranks.first_then_all(lambda: self.parts.data.loader_of(examples, name))
        return predict(self.parts.task, loader, self.cfg)


@dataclass(frozen=True)
class Answered:
    """What a chain makes of questions.

    Args:
        texts: answer by question; one without an answer is missing.
        metrics: what else is known of the questions whose answers are known, such as hits@1; fractions by name.
    """

    texts: Mapping[str, str]
    metrics: Mapping[str, float] = field(default_factory=dict)

    def score(self, examples: Sequence[TableExample]) -> dict[str, float]:
        """All metrics, with exact match and F1; none where no answer is known."""
        if not any(example.answer for example in examples):
            return {}
        return {**self.metrics, **score_answers(self.texts, {example.example_id: example for example in examples})}


class Chain(Protocol):
    """A module that makes answers of finished stages."""

    STAGES: tuple[str, ...]
    """The names of the stages that it asks for."""

    def answer(self, stages: Mapping[str, Trained], examples: Sequence[TableExample], name: str) -> Answered:
        """Answer questions; `name` is what progress bars call them."""


@dataclass(frozen=True)
class Stage:
    """One stage of a chain: a training run of its own in a folder below the chain's.

    Args:
        finished: a run to take instead of training, or None.
    """

    name: str
    cfg: DictConfig
    names: Names
    overrides: list[str]
    finished: str | None


def find_chain(name: str | None) -> Chain:
    """The chain of this name.

    Raises:
        ConfigError: there is none.
    """
    chain = _chain_in(name) if name in _modules() else None
    if chain is None:
        chains = ", ".join(one for one in _modules() if _chain_in(one))
        raise ConfigError(f"no chain is called {name!r}", where="chain", remedy=f"Choose from {chains}")
    return chain


def _modules() -> list[str]:
    return [module.name for module in pkgutil.iter_modules(mate_cli.pipelines.__path__)]


def _chain_in(name: str | None) -> Chain | None:
    found: Any = importlib.import_module(f"{mate_cli.pipelines.__name__}.{name}")
    return found if hasattr(found, "answer") and hasattr(found, "STAGES") else None


def train_stages(cfg: DictConfig, names: Names, overrides: list[str], *, job: int = 0) -> float:
    """Train all stages, or skip those that are finished, then answer the questions of every split.

    Args:
        cfg: the configuration, whose `stages` name an experiment and overrides for each stage.
        names: the choices it was composed from.
        overrides: what the user typed; all but the experiment holds for every stage.
        job: number of the job in a sweep.

    Returns:
        F1 on the development split.

    Raises:
        MateError: something the user can mend; the records say so too.
    """
    console = Console(highlight=False)
    chain = _fitting_chain(cfg)
    config: dict[str, Any] = OmegaConf.to_container(cfg, resolve=True)  # type: ignore[assignment]
    folder, record = begin(cfg, names.of_chain(cfg.chain), overrides, job=job)
    if record.status == "finished":
        console.print(f"{folder.path} is finished already: nothing to do")
        return record.metrics["dev/f1"]
    clock = Clock(record.wall_seconds)
    record.monitor = "dev/f1"
    folder.write_text("config.yaml", OmegaConf.to_yaml(cfg, resolve=True))
    folder.write_record(record)
    with recorded(folder, record, clock) as close_with:
        runs = {stage.name: run_stage(stage, folder, console, job) for stage in compose_stages(cfg, overrides)}
        record.stages = {name: str(run.folder.path) for name, run in runs.items()}
        trackers = open_trackers(cfg, folder, record, config, None)
        close_with(trackers)
        _collect(record, runs)
        _answer_all(Run(cfg, folder, record, clock, trackers, console), chain, runs)
        print_results(console, folder, record)
    return record.metrics["dev/f1"]


def _fitting_chain(cfg: DictConfig) -> Chain:
    """The chain of a configuration.

    Raises:
        ConfigError: there is none, or its stages are others.
    """
    chain = find_chain(cfg.chain)
    named = [str(name) for name, stage in (cfg.stages or {}).items() if stage]
    if set(named) != set(chain.STAGES):
        raise ConfigError(
            f"the stages are {', '.join(named)}, those of {cfg.chain} are {', '.join(chain.STAGES)}",
            where="stages",
            remedy="Rename them, or name another chain",
        )
    return chain


def compose_stages(cfg: DictConfig, overrides: list[str]) -> list[Stage]:
    """Compose each stage from its experiment, what the user typed, and its own overrides."""
    own_keys = ("experiment=", "chain=", "stages.", "resume=")
    typed = [item for item in overrides if not item.lstrip("+~").startswith(own_keys)]
    return [compose_stage(str(name), stage, typed) for name, stage in cfg.stages.items()]


def compose_stage(name: str, options: DictConfig, typed: Sequence[str]) -> Stage:
    """Compose a stage.

    Args:
        name: of the stage.
        options: its experiment, its own overrides, and a run to take instead.
        typed: what the user typed for it among others.
    """
    own = [f"experiment={options.experiment}", *typed, *options.get("overrides", [])]
    composed = compose(config_name="train", overrides=own, return_hydra_config=True)
    choices = composed.hydra.runtime.choices
    with open_dict(composed):
        del composed["hydra"]
    return Stage(name, composed, Names.of(choices), own, options.get("run"))


def run_stage(stage: Stage, folder: RunFolder, console: Console, job: int) -> Run:
    """Train a stage in a folder below another run's, or take the finished run that stands in for it.

    Raises:
        RunError: what is to stand in is not finished, or is of another task.
        MateError: something else the user can mend; the stage's record says so too.
    """
    console.rule(f"[bold]{stage.name.replace('_', ' ')}")
    if stage.finished:
        return _take(stage, console)
    below = RunFolder(folder.path / stage.name)
    return train(stage.cfg, stage.names, stage.overrides, folder=below, job=job)


def _take(stage: Stage, console: Console) -> Run:
    folder = open_run(str(stage.finished))
    record = folder.read_record()
    if record.status != "finished" or record.task != stage.names.task:
        raise RunError(
            f"a {record.status} run of {record.task} cannot stand in for {stage.name}",
            where=str(folder.path),
            remedy=f"Give a finished run of {stage.names.task}",
        )
    console.print(f"taking the finished run {folder.path}", soft_wrap=True)
    saved = OmegaConf.load(folder.path / "config.yaml")
    assert isinstance(saved, DictConfig)
    return Run(saved, folder, record, Clock(record.wall_seconds), Trackers([]), console)


def _collect(record: RunRecord, runs: Mapping[str, Run]) -> None:
    for name, run in runs.items():
        record.parameters += run.record.parameters
        record.data |= {f"{name}/{key}": value for key, value in run.record.data.items()}
        record.device = run.record.device
    record.throughput = joint_throughput([run.record.throughput for run in runs.values()])


def joint_throughput(stages: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """What an example costs that passes through all stages: seconds and operations add up.

    Args:
        stages: the throughput of each; an entry that one of them lacks is left out.
    """
    joint: dict[str, float] = {}
    if all(stage.get("examples_per_second") for stage in stages):
        joint["examples_per_second"] = 1 / sum(1 / stage["examples_per_second"] for stage in stages)
    if all("training_flops_per_example" in stage for stage in stages):
        joint["training_flops_per_example"] = sum(stage["training_flops_per_example"] for stage in stages)
    return joint


def _answer_all(run: Run, chain: Chain, runs: Mapping[str, Run]) -> None:
    stages = {name: Trained(load_best(done.cfg, done.folder), done.cfg) for name, done in runs.items()}
    run.console.rule("[bold]answers")
    data = next(iter(stages.values())).parts.data
    for split in ("dev", "test"):
        if split in data.dataset.splits:
            examples = data.questions(split)
            answered = chain.answer(stages, examples, split)
            run.record.metrics |= {f"{split}/{name}": value for name, value in answered.score(examples).items()}
            save_answers(run.folder, split, examples, answered)


def save_answers(folder: RunFolder, split: str, examples: Sequence[TableExample], answered: Answered) -> None:
    """Write predictions/<split>.json."""

    def score(example: TableExample) -> dict[str, float]:
        return score_answers(answered.texts, {example.example_id: example})

    save_predictions(folder, split, examples, answered.texts, score)
