"""Evaluation of a finished run, and predictions for a file of questions."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from hydra.errors import InstantiationException
from hydra.utils import instantiate

from mate_cli.data.datasets.labelled.sources import LabelledFiles
from mate_cli.data.perturbation import PerturbedDataset, perturb_dataset
from mate_cli.errors import RunError
from mate_cli.files.atomic import number_names, write_text
from mate_cli.files.safe_load import read_object, to_json
from mate_cli.metrics.specs import Score
from mate_cli.pipelines.assembly import Parts, load_best
from mate_cli.pipelines.evaluation.evaluation import evaluate, judge, predict, save_result
from mate_cli.pipelines.inference.predict_request import find_questions
from mate_cli.pipelines.machine import RuntimeOverrides
from mate_cli.pipelines.run import broadcast_folder, describe_unscored, record_digest, results_table
from mate_cli.pipelines.systems.base import PARAMETERS, System, TrainedStage, answer_split
from mate_cli.runs.configuration import read_parts
from mate_cli.runs.folders import open_run
from mate_cli.runs.record import RunFolder
from mate_cli.tables.example import TableExample
from mate_cli.tables.formats.cell_text import count_noun
from mate_cli.terminal.console import Console
from mate_cli.tokenization.fitting.truncation import describe_cuts

Scorer = Callable[[str, RunFolder], tuple[dict[str, float], Collection[TableExample]]]
"""Function that scores a split, writes predictions to a folder, and returns the scores and the questions."""


def evaluate_run(
    run: str,
    splits: Sequence[str],
    runtime: RuntimeOverrides,
    perturbations: Sequence[str] = (),
    seeds: Sequence[int] = (1,),
) -> RunFolder:
    """Score the best checkpoint of a finished run on dataset splits.

    Metrics are written to evaluation/<split>.json, predictions to predictions/<split>.json. If the questions differ
    from the questions of training, both are written below a separate folder evaluation/<name of the changes>, and the
    files of training are kept. If the run folder cannot be written, results are in a temporary folder.

    Args:
        run: run folder.
        splits: splits to evaluate.
        runtime: hardware and folders of the current machine, and changes of the data.
        perturbations: perturbations of the questions that are also evaluated, each into a subfolder.
        seeds: seeds of each perturbation.

    Returns:
        The folder that contains predictions/.

    Raises:
        RunError: the run is missing or not finished.
        DataError: a split is missing.
    """
    folder = broadcast_folder(lambda: open_run(run))
    record = folder.read_record()
    is_writable = os.access(folder.path, os.W_OK)
    if record.stages:
        system, trained_stages = open_stages(folder, runtime)
        score: Scorer = partial(answer_split, system, trained_stages)
        stages = {name: stage.parts for name, stage in trained_stages.items()}
    else:
        score, stages = _scorer(folder, runtime)
    to = broadcast_folder(lambda: _results_folder(folder, runtime) if is_writable else _temporary_folder(folder))
    all_scores: dict[str, float] = {}
    notes: dict[str, str] = {}
    questions: dict[str, set[str]] = {}
    for split in splits:
        metrics, examples = score(split, to)
        questions[split] = {example.example_id for example in examples}
        notes |= describe_unscored(split, examples)
        scores = {f"{split}/{name}": value for name, value in metrics.items()}
        to.write_json(f"evaluation/{split}.json" if to is folder else f"{split}.json", scores)
        all_scores |= scores
    modules = [parts.data for parts in stages.values()]
    perturbed_notes: dict[str, str] = {}
    for perturbed in perturb_dataset(modules[0].dataset, perturbations, seeds):
        perturbed.only.update(questions)
        for module in modules:
            module.read_from(perturbed)
        for split in splits:
            metrics, _ = score(split, to.below(perturbed.folder))
            perturbed_notes |= save_perturbed(to.below(perturbed.folder), split, metrics, perturbed)
            if not record.stages and (cuts := modules[0].encodings(split).cuts).any():
                perturbed_notes[f"cut, {split}, {perturbed.name}"] = describe_cuts(cuts)
    pairs = [(name, *fact) for name, parts in stages.items() for fact in parts.facts.items()]
    facts = {", ".join(filter(None, (name, key))): fact for name, key, fact in pairs}
    facts |= perturbed_notes if to is folder else {}
    if facts and is_writable:
        record.facts |= facts
        folder.write_record(record)
    console = Console()
    counts = {key: score.questions for key, score in all_scores.items() if isinstance(score, Score) and score.questions}
    console.print(results_table(all_scores, f"{record.experiment}, best weights", counts))
    for name, fact in (notes | perturbed_notes).items():
        console.print(f"{name}: {fact}", soft_wrap=True)
    console.print(f"run folder: {folder.path}", soft_wrap=True)
    if to is not folder and is_writable:
        console.print(f"results: {to.path}", soft_wrap=True)
    return to


def save_perturbed(
    folder: RunFolder, split: str, metrics: Mapping[str, float], perturbed: PerturbedDataset
) -> dict[str, str]:
    """Write the metrics of a perturbed split to a JSON file.

    The numbers of excluded questions are included, by reason.

    Args:
        folder: folder of the perturbation and its seed.
        split: name of the split.
        metrics: metrics of the perturbed questions, by name.
        perturbed: perturbed dataset.

    Returns:
        {title: note} about the excluded questions, or {} if none is excluded.
    """
    scores = {f"{split}/{name}": value for name, value in metrics.items()}
    folder.write_json(f"{split}.json", {"metrics": scores, "excluded": perturbed.excluded[split]})
    text = perturbed.describe_excluded(split)
    return {f"excluded, {split}, {perturbed.name}": text} if text else {}


def _temporary_folder(folder: RunFolder) -> RunFolder:
    """Create a temporary folder for results, because the run folder is not writable."""
    print(f"{folder.path} cannot be written, so these results are not saved", flush=True)
    _temporary_folders.append(TemporaryDirectory(prefix="mate_results_"))
    return RunFolder(Path(_temporary_folders[-1].name))


_temporary_folders: list[TemporaryDirectory[str]] = []


def _results_folder(folder: RunFolder, runtime: RuntimeOverrides) -> RunFolder:
    """Return the folder in which the results of an evaluation are stored.

    It is the run folder, or a subfolder of the run folder if other questions are scored than in training.
    """
    if not runtime.changes:
        return folder
    parts = [Path(str(value)).name if isinstance(value, str) else key for key, value in runtime.changes.items()]
    name = "_".join(filter(None, parts)) or "here"
    for path in number_names(Path("evaluation", name)):
        subfolder = folder.below(str(path))
        settings = subfolder.path / "settings.json"
        if not settings.is_file():
            subfolder.write_json("settings.json", runtime.changes)
        if read_object(settings, RunError, "Remove it") == runtime.changes:
            return subfolder
    raise AssertionError


def _scorer(folder: RunFolder, runtime: RuntimeOverrides) -> tuple[Scorer, dict[str, Parts]]:
    """Load a run without stages, and return a function that evaluates the run on a split.

    Returns:
        The function, and the network, task and data of the run under the key "".
    """
    config = runtime.config(folder)
    parts = load_best(config, folder)

    def score(split: str, to: RunFolder) -> tuple[dict[str, float], Collection[TableExample]]:
        result = evaluate(parts, config, split)
        if not runtime.changes and not isinstance(parts.data.dataset, PerturbedDataset):
            record_digest(folder.read_record(), split, parts.data.encodings(split, training=split == "train"))
        save_result(to, split, result)
        return result.metrics, result.examples.values()

    return score, {"": parts}


def predict_file(run: str, questions: str, output: Path, runtime: RuntimeOverrides) -> Path:
    """Answer the questions of a file, and write the predictions to another file.

    The questions may lack gold answers. The file is a list of {question_id, question, table_id} about tables of the
    run's dataset, or has rows with separate tables in a format of `LabelledFiles`.

    Args:
        run: run folder.
        questions: path of the question file.
        output: path of the prediction file.
        runtime: hardware and folders of the current machine.

    Returns:
        The path of the prediction file, [{question_id, pred}].

    Raises:
        RunError: the run is missing or not finished.
        DataError: the file or one of its tables is missing or damaged.
    """
    folder = open_run(run)
    if folder.read_record().stages:
        system, stages = open_stages(folder, runtime)
        examples = questions_in_file(stages[system.stages[0]].parts, questions)
        answers = system.answer(stages, examples, "questions").texts
    else:
        config = runtime.config(folder)
        parts = load_best(config, folder)
        examples = questions_in_file(parts, questions)
        loader = parts.data.build_eval_loader(examples, "questions")
        answers = judge(parts.task, examples, predict(parts.task, loader, config)).answers
    rows = [{"question_id": example.example_id, "pred": answers.get(example.example_id, "")} for example in examples]
    write_text(output, to_json(rows, indent=1))
    Console(highlight=False).print(f"{count_noun(len(rows), 'prediction')}: {output}", soft_wrap=True)
    return output


def open_system(folder: RunFolder, trust: Sequence[str] = ()) -> System:
    """Build the system that combines the predictions of a run's stages.

    Raises:
        RunError: the run has no system, or its system cannot be built by this version of mate.
        TrustError: the class of the system is neither mate's nor trusted.
    """
    path = folder.path / "config.yaml"
    try:
        system = instantiate(read_parts(folder.path, trust).get("system"))
    except InstantiationException as error:
        raise RunError("its system cannot be built", where=str(path), remedy="Train the run again") from error
    if not isinstance(system, System):
        raise RunError("has no system", where=str(path), remedy="Give a folder below outputs/")
    file = folder.path / PARAMETERS
    return system.with_parameters(read_object(file, RunError, "Train the run again")) if file.is_file() else system


def open_stages(folder: RunFolder, runtime: RuntimeOverrides) -> tuple[System, dict[str, TrainedStage]]:
    """Load the system of a run, and the best checkpoint of each of its stages.

    The run folder may have been moved since training.
    """
    system, stages = open_system(folder, runtime.trust), folder.read_record().stages
    trained_stages = {}
    for name in system.stages:
        path = folder.path / name
        stage_folder = open_run(str(path) if path.exists() else stages[name])
        config = runtime.config(stage_folder)
        trained_stages[name] = TrainedStage(name, load_best(config, stage_folder), config)
    return system, trained_stages


def questions_in_file(parts: Parts, path: str) -> list[TableExample]:
    """Read the examples in a file of questions, to answer these with a finished run.

    JSON files are read in the format of the run's dataset if this dataset can read single files. All other files, such
    as CSV, are read in the format of user-defined data, `LabelledFiles`.

    Raises:
        DataError: the file, or one of the tables, is missing or damaged.
    """
    file = find_questions(path)
    reader = getattr(parts.data.dataset, "examples_from_file", None)
    if reader is not None and ".json" in file.suffixes:
        return list(reader(path))
    return LabelledFiles(root=file.parent, test=file.name).examples("test")
