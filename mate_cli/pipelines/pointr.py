"""PointR: select a cell, then read the answer in it and its passages.

Source: MATE paper, section 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hydra import compose
from omegaconf import DictConfig, OmegaConf, open_dict
from rich.console import Console

from mate_cli.data.reading import reading_example
from mate_cli.errors import RunError
from mate_cli.lit_modules.cell_selection import CellRanking
from mate_cli.lit_modules.span_reading import SpanReading, score_answers
from mate_cli.pipelines.assembly import Parts, load_best
from mate_cli.pipelines.evaluation import predict
from mate_cli.pipelines.summary import print_results
from mate_cli.pipelines.training import Run, open_record, open_trackers, recorded, train
from mate_cli.runs.clock import Clock
from mate_cli.runs.folders import choose_folder, open_run
from mate_cli.runs.names import Names
from mate_cli.runs.record import RunFolder, RunRecord
from mate_cli.runs.tracking import Trackers
from mate_cli.tables.example import TableExample

SELECT, READ = "cell_selection", "span_reading"


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


def train_stages(cfg: DictConfig, names: Names, overrides: list[str], *, job: int = 0) -> float:
    """Train both stages, or skip those that are finished, then answer the questions of every split.

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
    config: dict[str, Any] = OmegaConf.to_container(cfg, resolve=True)  # type: ignore[assignment]
    folder = choose_folder(cfg.resume, Path(cfg.paths.outputs), "train", names.experiment, config, job)
    record = open_record(folder, cfg, replace(names, task="pointr"), overrides)
    if record.status == "finished":
        console.print(f"{folder.path} is finished already: nothing to do")
        return record.metrics["dev/f1"]
    clock = Clock(record.wall_seconds)
    folder.write_text("config.yaml", OmegaConf.to_yaml(cfg, resolve=True))
    folder.write_record(record)
    with recorded(folder, record, clock) as close_with:
        runs = {stage.name: _run_stage(stage, folder, console, job) for stage in compose_stages(cfg, overrides)}
        record.stages = {name: str(run.folder.path) for name, run in runs.items()}
        trackers = open_trackers(cfg, folder, record, config, None)
        close_with(trackers)
        _collect(record, runs)
        run = Run(cfg, folder, record, clock, trackers, console)
        _answer_all(run, runs)
        hits = {key: value for key, value in runs[SELECT].record.metrics.items() if "hits@" in key}
        print_results(console, folder, replace(record, metrics={**hits, **record.metrics}))
    return record.metrics["dev/f1"]


def compose_stages(cfg: DictConfig, overrides: list[str]) -> list[Stage]:
    """Compose each stage from its experiment, its own overrides, and what the user typed."""
    typed = [item for item in overrides if not item.startswith(("experiment=", "stages.", "resume=", "+stages."))]
    stages = []
    for name in (SELECT, READ):
        own = [f"experiment={cfg.stages[name].experiment}", *typed, *cfg.stages[name].overrides]
        composed = compose(config_name="train", overrides=own, return_hydra_config=True)
        choices = composed.hydra.runtime.choices
        with open_dict(composed):
            del composed["hydra"]
        stages.append(Stage(str(name), composed, Names.of(choices), own, cfg.stages[name].get("run")))
    return stages


def _run_stage(stage: Stage, folder: RunFolder, console: Console, job: int) -> Run:
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
    record.device, record.throughput = runs[READ].record.device, runs[READ].record.throughput


def _answer_all(run: Run, runs: Mapping[str, Run]) -> None:
    selector, reader = (load_best(runs[name].cfg, runs[name].folder) for name in (SELECT, READ))
    run.console.rule("[bold]answers")
    for split in ("dev", "test"):
        if split not in selector.data.dataset.splits:
            continue
        rankings = predict(selector.task, selector.data.loader(split), runs[SELECT].cfg)
        examples = {example.example_id: example for example in selector.data.examples(split)}
        answers = read_best_cells(reader, runs[READ].cfg, rankings, examples)
        if any(example.answer for example in examples.values()):
            scores = score_answers(answers, examples)
            run.record.metrics |= {f"{split}/{name}": value for name, value in scores.items()}
        rows = [{"question_id": name, "pred": answers.get(name, "")} for name in examples]
        run.folder.write_json(f"predictions/{split}.json", rows)


def read_best_cells(
    reader: Parts, cfg: DictConfig, rankings: list[CellRanking], examples: Mapping[str, TableExample]
) -> dict[str, str]:
    """Read the answer in the best cell of each ranking.

    Args:
        reader: the second stage.
        cfg: its configuration.
        rankings: of the first stage; a question without one gets no answer.
        examples: the questions, by name.

    Returns:
        Answer text by question.
    """
    assert isinstance(reader.task, SpanReading)
    chosen = {r.example_id: reading_example(examples[r.example_id], *r.cells[0]) for r in rankings if r.cells}
    spans = predict(reader.task, reader.data.loader_of(list(chosen.values()), "selected cells"), cfg)
    return reader.task.answers(spans, chosen)
