"""What can be done with a finished run: score it again, answer new questions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hydra.errors import InstantiationException
from hydra.utils import instantiate

from mate_cli.errors import RunError
from mate_cli.files.plain import read_object
from mate_cli.pipelines.assembly import Parts, load_best
from mate_cli.pipelines.evaluation import evaluate, judge, predict, save_result
from mate_cli.pipelines.stages import LEARNT, save_answers
from mate_cli.pipelines.summary import results_table
from mate_cli.pipelines.systems.base import System, Trained
from mate_cli.runs.configuration import Hardware, Paths, RunConfig, load_config, read_parts
from mate_cli.runs.folders import open_run
from mate_cli.runs.record import RunFolder
from mate_cli.tables.example import TableExample
from mate_cli.terminal.console import Console


@dataclass(frozen=True)
class Here:
    """Where a finished run is used now.

    Args:
        hardware: the machine.
        paths: its folders.
        data_root: where the dataset is; None for where it was.
        whole: also what `trainer.limit_dev` left out.
        trust: modules of the user's own that the run's parts may come from.
    """

    hardware: Hardware
    paths: Paths
    data_root: str | None = None
    whole: bool = False
    trust: Sequence[str] = ()

    def config(self, folder: RunFolder) -> RunConfig:
        """What a run was trained with, on the hardware and paths of now."""
        config = load_config(folder.path, self.trust).on_machine(self.hardware, self.paths)
        if self.data_root:
            place = "datasets" if "datasets" in config.data else "root"
            config = config.model_copy(update={"data": {**config.data, place: self.data_root}})
        if self.whole:
            config = config.model_copy(update={"trainer": config.trainer.model_copy(update={"limit_dev": None})})
        return config


def evaluate_run(run: str, split: str, here: Here) -> dict[str, float]:
    """Re-compute the metrics of a finished run on a split, with its best weights.

    Args:
        run: its folder.
        split: to predict and score.
        here: the machine and the folders of now.

    Returns:
        Metrics named <split>/<metric>, as in the run's record.

    Raises:
        RunError: there is no finished run.
        DataError: the split is missing.
    """
    folder = open_run(run)
    record = folder.read_record()
    if record.stages:
        metrics = _evaluate_system(folder, split, here)
    else:
        config = here.config(folder)
        result = evaluate(load_best(config, folder), config, split)
        save_result(folder, split, result)
        metrics = result.metrics
    named = {f"{split}/{name}": value for name, value in metrics.items()}
    Console(highlight=False).print(results_table(named, f"{record.experiment}, best weights, {folder.path}"))
    folder.write_json(f"evaluation/{split}.json", named)
    return named


def predict_file(run: str, questions: str, output: Path, here: Here) -> Path:
    """Answer the questions of a file, whether or not their answers are known.

    Args:
        run: a finished run's folder.
        questions: a list of {question_id, question, table_id}.
        output: where predictions go.
        here: the machine and the folders of now.

    Returns:
        The file of predictions, [{question_id, pred}].

    Raises:
        RunError: there is no finished run.
        DataError: the file or one of its tables is missing or damaged.
    """
    folder = open_run(run)
    if folder.read_record().stages:
        system, stages = open_stages(folder, here)
        examples = _questions(stages[system.stages[0]].parts, questions)
        answers = system.answer(stages, examples, "questions").texts
    else:
        config = here.config(folder)
        parts = load_best(config, folder)
        examples = _questions(parts, questions)
        loader = parts.data.loader_of(examples, "questions")
        answers = judge(parts.task, examples, predict(parts.task, loader, config)).answers
    rows = [{"question_id": example.example_id, "pred": answers.get(example.example_id, "")} for example in examples]
    RunFolder(output.parent).write_text(output.name, json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    Console(highlight=False).print(f"{len(rows)} predictions: {output}", soft_wrap=True)
    return output


def open_system(folder: RunFolder, trust: Sequence[str] = ()) -> System:
    """The system that a run says it is.

    Raises:
        RunError: it names none that this version has.
        TrustError: it is neither ours nor of a trusted module.
    """
    path = folder.path / "config.yaml"
    try:
        system = instantiate(read_parts(folder.path, trust).get("system"))
    except InstantiationException as error:
        raise RunError("its system cannot be built", where=str(path), remedy="Train the run again") from error
    if not isinstance(system, System):
        raise RunError("names no system", where=str(path), remedy="Give a folder below outputs/")
    file = folder.path / LEARNT
    return system.with_learnt(read_object(file, RunError, "Train the run again")) if file.is_file() else system


def open_stages(folder: RunFolder, here: Here) -> tuple[System, dict[str, Trained]]:
    """A system and its stages, found also right after the whole run was moved."""
    system, stages = open_system(folder, here.trust), folder.read_record().stages
    found = {}
    for name in system.stages:
        below = folder.path / name
        own = open_run(str(below) if below.exists() else stages[name])
        config = here.config(own)
        found[name] = Trained(name, load_best(config, own), config)
    return system, found


def _questions(parts: Parts, path: str) -> list[TableExample]:
    read = getattr(parts.data.dataset, "examples_from_file", None)
    if read is None:
        raise RunError("this dataset cannot read questions from a file", remedy="Use a run trained on data=hybridqa")
    return list(read(path))


def _evaluate_system(folder: RunFolder, split: str, here: Here) -> dict[str, float]:
    system, stages = open_stages(folder, here)
    examples = stages[system.stages[0]].parts.data.questions(split)
    answered = system.answer(stages, examples, split)
    save_answers(folder, split, system, examples, answered)
    return system.score(answered, examples)
