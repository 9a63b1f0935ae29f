"""Evaluation of checkpoints and of the answers of any system, without a training run.

Checkpoints are released weights or exports of `mate export`. The results are recorded next to the records of runs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

from hydra.utils import get_class, instantiate

from mate_cli.data.datasets.catalogue import TableDataset
from mate_cli.data.datasets.release import Release
from mate_cli.data.perturbation import PerturbedDataset, perturb_dataset
from mate_cli.errors import DataError, MateError
from mate_cli.files.safe_load import to_json, to_yaml
from mate_cli.lit_modules.base import TableTask
from mate_cli.lit_modules.entailment import Entailment
from mate_cli.lit_modules.table_qa import TableQA
from mate_cli.metrics.specs import SPLITS
from mate_cli.metrics.system_answers import AnswerMetric
from mate_cli.pipelines.evaluation.evaluate_run import save_perturbed
from mate_cli.pipelines.evaluation.evaluation import describe_questions, evaluate, save_predictions, save_result
from mate_cli.pipelines.evaluation.language_model import check_template, find_gold_items
from mate_cli.pipelines.inference.checkpoint import open_checkpoint
from mate_cli.pipelines.machine import RuntimeOverrides
from mate_cli.pipelines.run import (
    Run,
    broadcast_folder,
    describe_unscored,
    peak_memory_mb,
    print_results,
    record_outcome,
)
from mate_cli.runs import ranks
from mate_cli.runs.folders import new_folder
from mate_cli.runs.ranks import find_accelerator
from mate_cli.runs.record import NOT_TRAINED, RunFolder, RunRecord
from mate_cli.tables.example import Answer, SystemAnswer, TableExample


def evaluate_checkpoint(
    name: str, data: Mapping[str, Any], splits: Sequence[str], runtime: RuntimeOverrides
) -> RunFolder:
    """Evaluate a checkpoint on splits of a dataset, and write the results to a new run folder.

    Args:
        name: name of the checkpoint, see `open_checkpoint`.
        data: configuration of the dataset, an option of `conf/data`.
        splits: splits of the dataset.
        runtime: hardware and folders of the current machine.

    Returns:
        The folder below outputs/evaluate with record, metrics and predictions, which `mate compare` reads.

    Raises:
        CheckpointError: the checkpoint is missing or damaged.
        DataError: a split is missing, or the task of the checkpoint cannot answer its questions.
    """
    dataset = instantiate(data)
    # Before the weights, because reading data is faster and may fail. Rank 0 downloads missing data.
    examples = ranks.rank_zero_first(lambda: {split: dataset.examples(split) for split in splits})
    parts, config = open_checkpoint(name, runtime, dataset)
    title = str(data.get("name") or type(dataset).__name__)
    for split in splits:
        check_answers(parts.task, examples[split], f"{title} {split}", name)
    record = _new_record(
        Path(name).name or "checkpoint",
        [f"checkpoint={name}", f"data={title}", f"split={','.join(splits)}"],
        dataset=title,
        model=_last(config.model),
        attention=_last(config.attention),
        init=name,
        task=_last(config.task),
        seed=config.seed,
        parameters=sum(parameter.numel() for parameter in parts.task.parameters()),
        device=find_accelerator(config.hardware),
        facts={**parts.data.facts},
    )
    outputs = Path(runtime.paths.outputs)
    run = Run.of(broadcast_folder(lambda: new_folder(outputs, f"evaluate/{record.experiment}")), record)
    with record_outcome(run):
        run.folder.write_text("config.yaml", to_yaml({**config.model_dump(), "data": dict(data), "checkpoint": name}))
        for split in splits:
            result = evaluate(parts, config, split)
            save_result(run.folder, split, result)
            record.facts |= describe_unscored(split, result.examples.values())
            record.questions |= describe_questions(split, result.examples.values())
            record.add_scores(f"{split}/", result.metrics)
        record.peak_memory_mb = ranks.all_reduce_sum([peak_memory_mb()])[0]
    print_results(run.console, run.folder, record, f"{name} on {record.dataset}")
    return run.folder


def check_answers(task: TableTask[Any, Any], examples: Sequence[TableExample], split: str, checkpoint: str) -> None:
    """Check that the task of a checkpoint can predict the type of answers that a split has.

    Args:
        task: task of the checkpoint.
        examples: questions of the split.
        split: name of the dataset and split, for error messages.
        checkpoint: name of the checkpoint, for error messages.

    Raises:
        DataError: no question has a known answer, or all questions are statements to judge and the task selects cells,
            or conversely.
    """
    answers = require_answers(examples, split)
    judges = isinstance(task, Entailment)
    if isinstance(task, (Entailment, TableQA)) and all((answer.label is not None) != judges for answer in answers):
        kinds = ("statements to judge", "questions that cells answer")
        problem = f"has {kinds[judges]}, {checkpoint} was trained for {kinds[not judges]}"
        raise DataError(problem, where=split, remedy=f"Use data={'tabfact' if judges else 'wtq, sqa or wikisql'}")


def _new_record(name: str, overrides: list[str], **values: Any) -> RunRecord:
    """Create the record of an evaluation, in an experiment named after `name`.

    Characters of `name` that are unsuitable in a folder name become "_".
    """
    experiment = re.sub(r"[^\w.@-]+", "_", name)[:80].strip("._") or "answers"
    return RunRecord("evaluate", experiment, overrides, **values)


def _last(part: Mapping[str, Any]) -> str:
    """Return the last module name of a `_target_`.

    For example, `table_qa` for `lit_modules.table_qa.TableQA`.
    """
    return str(part["_target_"]).split(".")[-2]


def evaluate_answers(
    file: Path,
    answers: Mapping[str, SystemAnswer],
    name: str,
    data: Mapping[str, Any],
    splits: Sequence[str],
    outputs: Path,
    *,
    partial: bool = False,
    perturbations: Sequence[str] = (),
    seeds: Sequence[int] = (1,),
) -> RunFolder:
    """Score the answers of any system on a dataset, and write the results to a new run folder.

    Args:
        file: file from which the answers were read.
        answers: answers by question id. A missing answer is scored as wrong.
        name: display name of the system.
        data: configuration of the dataset, an option of `conf/data`.
        splits: splits of the dataset.
        outputs: folder of all runs.
        partial: whether to score a file that answers less than half of the questions of a split.
        perturbations: perturbations of the questions that the file also answers, see `export_questions`.
        seeds: seeds of each perturbation.

    Returns:
        The folder of the record.

    Raises:
        DataError: a split is missing or has no known answers, or the file answers too few of its questions.
    """
    dataset, title, examples = _open_questions(data, splits)
    check_questions(file, answers, title, dataset, examples, partial=partial)
    perturbed_datasets = perturb_dataset(dataset, perturbations, seeds)
    for perturbed in perturbed_datasets:
        if not any(name.endswith(perturbed.suffix) for name in answers):
            hint = f"Export them with mate data export perturb={perturbed.name} perturb_seed={perturbed.seed}"
            problem = f"answers no question with an id that ends in {perturbed.suffix}"
            raise DataError(problem, where=str(file), remedy=hint)
    record = _answers_record(f"answers={file}", name, title, splits)
    costs = [answer.cost for answer in answers.values() if answer.cost is not None]
    if costs:
        record.throughput = {"cost_per_question": sum(costs) / len(costs)}
    config = {"answers": str(file), "name": name, "data": dict(data)}
    source = f"answers read from {file.name}"
    return _score_answers(record, source, dataset, examples, answers, perturbed_datasets, config, outputs)


def _open_questions(
    data: Mapping[str, Any], splits: Sequence[str]
) -> tuple[TableDataset, str, dict[str, dict[str, TableExample]]]:
    """Load a dataset, and the examples of the given splits.

    Returns:
        The dataset, its name, and the examples of each split by question id.
    """
    dataset = instantiate(data)
    examples = {split: {example.example_id: example for example in dataset.examples(split)} for split in splits}
    return dataset, str(data.get("name") or type(dataset).__name__), examples


def _answers_record(source: str, name: str, dataset: str, splits: Sequence[str], seed: int = 0) -> RunRecord:
    overrides = [source, f"data={dataset}", f"split={','.join(splits)}", f"name={name}"]
    names = {"dataset": dataset, "model": name, "attention": "", "init": NOT_TRAINED, "task": "any system"}
    return _new_record(name, overrides, seed=seed, **names)


def _score_answers(
    record: RunRecord,
    source: str,
    dataset: TableDataset,
    examples: Mapping[str, Mapping[str, TableExample]],
    answers: Mapping[str, SystemAnswer],
    perturbed_datasets: Sequence[PerturbedDataset],
    config: Mapping[str, Any],
    outputs: Path,
    lines: Sequence[Mapping[str, Any]] = (),
) -> RunFolder:
    """Score answers to the questions of splits, and write the results to a new run folder.

    The folder contains the record, the configuration, the predictions, and `lines` as answers.jsonl.
    """
    metric_class: type[AnswerMetric[Any]] = get_class(getattr(dataset, "metric", Release.metric))
    suffixes = tuple(perturbed.suffix for perturbed in perturbed_datasets)
    metric = metric_class({key: answer for key, answer in answers.items() if not key.endswith(suffixes)})
    record.facts = {NOT_TRAINED: describe_answers(source, metric, examples)}
    run = Run.of(new_folder(outputs, f"evaluate/{record.experiment}"), record)
    with record_outcome(run):
        run.folder.write_text("config.yaml", to_yaml(config))
        if lines:
            run.folder.write_text("answers.jsonl", "".join(map(to_json, lines)))
        for split, by_id in examples.items():
            record.add_scores(f"{split}/", save_answers(run.folder, split, by_id.values(), metric))
            record.questions |= describe_questions(split, by_id.values())
            record.facts |= describe_unscored(split, by_id.values())
            for perturbed in perturbed_datasets:
                names = {key.removesuffix(perturbed.suffix): key for key in answers if key.endswith(perturbed.suffix)}
                perturbed_metric = metric_class({name: answers[key] for name, key in names.items()})
                folder, questions = run.folder.below(perturbed.folder), perturbed.examples(split)
                scores = save_answers(folder, split, [e for e in questions if e.answer], perturbed_metric)
                record.facts |= save_perturbed(folder, split, scores, perturbed)
    print_results(run.console, run.folder, record, f"{record.model} on {record.dataset}")
    return run.folder


def save_answers(
    folder: RunFolder, split: str, examples: Collection[TableExample], metric: AnswerMetric[Any]
) -> dict[str, float]:
    """Write the answers of a system and their scores to predictions/<split>.json.

    Args:
        folder: folder of the results.
        split: name of the split.
        examples: questions of the split.
        metric: metric with the answers.

    Returns:
        Metrics of the questions with known answers.
    """
    answered = [example for example in examples if example.example_id in metric.answers]
    texts = {example.example_id: metric.text(example) for example in answered}
    details = {example.example_id: metric.details(example) for example in answered}
    save_predictions(folder, split, examples, texts, lambda item: metric.score({item.example_id: item}), details)
    return metric.score({example.example_id: example for example in examples if example.answer})


def evaluate_system(
    config: Mapping[str, Any],
    splits: Sequence[str],
    name: str | None,
    outputs: Path,
    cache: Path,
    *,
    dry: bool = False,
    perturbations: Sequence[str] = (),
    seeds: Sequence[int] = (1,),
) -> RunFolder | None:
    """Score a language model on dataset splits, and write the results to a run folder.

    The answers are requested from the model.

    Args:
        config: the sections `system`, `prompt` and `data` of the configuration.
        splits: splits of the dataset.
        name: display name of the system. None: the name of the model.
        outputs: folder of all runs.
        cache: folder of cached replies.
        dry: whether to print only the number of requests, and their estimated tokens and cost.
        perturbations: perturbations of the questions that are also asked. All tables then have the cells that runs
            read, see `Release.as_written`.
        seeds: seeds of each perturbation.

    Returns:
        The folder of the record, with answers.jsonl, which `mate evaluate answers=` also reads. None if `dry`.

    Raises:
        ConfigError: the API key is missing, or the prompt is invalid.
        DataError: a split is missing or has no known answers.
        RunError: the server is unreachable or rejects the requests. Received replies stay cached.
    """
    system, prompt, data = instantiate(config["system"], _convert_="all"), config["prompt"], config["data"]
    system.read_key()
    check_template(prompt["question"])
    dataset, title, examples = _open_questions(data, splits)
    for split, by_id in examples.items():
        require_answers(by_id.values(), f"{title} {split}")
    perturbed_datasets = perturb_dataset(dataset, perturbations, seeds)
    as_written = getattr(dataset, "as_written", {})
    asked_dataset = dataset if perturbations else instantiate({**data, **as_written})
    if as_written and perturbations:
        # The original questions have normalized cells too, so their scores are not repetitions of other evaluations.
        config = {**config, "perturb": list(perturbations)}
    questions = [example for split in splits for example in asked_dataset.examples(split)]
    for split, perturbed in product(splits, perturbed_datasets):
        questions += [replace(e, example_id=e.example_id + perturbed.suffix) for e in perturbed.examples(split)]
    train = [shot for shot in (asked_dataset.examples("train") if system.shots else ()) if find_gold_items(shot)]
    requests = system.build_requests(questions, train, **prompt)
    with system.open_cache(cache) as (file, replies):
        bodies = {digest: body for digest, body in requests.values() if digest not in replies}
        cached = sum(digest in replies for digest, _ in requests.values())
        if dry:
            print(system.describe_plan(bodies.values(), cached))
            return None
        failures = system.ask(bodies, file, replies, any_known=cached > 0)
    replies_by_id = {key: replies[digest] for key, (digest, _) in requests.items() if digest in replies}
    answers = {key: system.convert(reply) for key, reply in replies_by_id.items()}
    lines = [
        {"id": key, "answer": [*answers[key].texts], "cost": answers[key].cost, **asdict(reply)}
        for key, reply in replies_by_id.items()
    ]
    name = name or (f"{system.model}, {system.shots} shots" if system.shots else system.model)
    record = _answers_record(f"system.model={system.model}", name, title, splits, system.seed)
    columns = {key: [line[key] for line in lines] for key in ("cost", "input_tokens", "output_tokens", "seconds")}
    totals = {key: float(sum(values)) for key, values in columns.items() if None not in values}
    record.throughput = {f"{key}_per_question": total / len(lines) for key, total in totals.items()}
    texts = [reply for reply in replies_by_id.values() if not reply.is_refusal]
    counts = {
        "refusals": len(replies_by_id) - len(texts),
        "without a JSON list, read as one text": sum(reply.find_items() is None for reply in texts),
        f"rejected by the server ({next(iter(failures), '')})": len(failures),
    }
    notes = [f"answers of {system.model} at {system.endpoint}"]
    notes += [f"{count:,} {text}" for text, count in counts.items() if count]
    notes += [f"{key.replace('_', ' ')}: {total:,.10g}" for key, total in totals.items()]
    config, source = {**config, "name": name}, "; ".join(notes)
    return _score_answers(record, source, dataset, examples, answers, perturbed_datasets, config, outputs, lines)


def check_questions(
    file: Path,
    answers: Mapping[str, SystemAnswer],
    title: str,
    dataset: TableDataset,
    examples: Mapping[str, Mapping[str, TableExample]],
    *,
    partial: bool,
) -> None:
    """Check that splits have gold answers, and that enough questions have answers in a file.

    Args:
        file: file from which the answers were read.
        answers: answers by question id.
        title: name of the dataset.
        dataset: dataset, whose other splits may have the ids of the file.
        examples: examples of each scored split, by question id.
        partial: whether to accept a file that answers at least one, but less than half of the questions.

    Raises:
        DataError: a split has no known answers, or the file answers too few of its questions. The message names the
            split to which the ids belong if it is another split.
    """
    for split, by_id in examples.items():
        name = f"{title} {split}"
        require_answers(by_id.values(), name)
        count = len(by_id.keys() & answers.keys())
        if count and (partial or 2 * count >= len(by_id)):
            continue
        problem = f"answers {count:,} of {len(by_id):,} questions of {name}"
        elsewhere = {split: count}
        for other in ("train", *SPLITS):
            with suppress(MateError):  # The dataset lacks the split.
                elsewhere[other] = sum(example.example_id in answers for example in dataset.examples(other))
        match = max(elsewhere, key=lambda key: elsewhere[key])
        if match != split:
            problem, hint = f"{problem} and {elsewhere[match]:,} of {match}", f"Use split={match}"
        elif count:
            hint = "Answer all questions, or add partial=true, which scores missing answers as wrong"
        else:
            problem += f": ids are like {next(iter(answers))!r} here and like {next(iter(by_id))!r} there"
            hint = "Check data, split and the ids"
        raise DataError(problem, where=str(file), remedy=hint)


def require_answers(examples: Iterable[TableExample], split: str) -> list[Answer]:
    """Return the gold answers of a split.

    Raises:
        DataError: no question has a gold answer.
    """
    if answers := [example.answer for example in examples if example.answer]:
        return answers
    raise DataError("this split has no answers to score", where=split, remedy="Choose another split")


def describe_answers(source: str, metric: AnswerMetric[Any], examples: Mapping[str, Mapping[str, TableExample]]) -> str:
    """Describe in a sentence how many answers are missing, unreadable or unknown.

    Args:
        source: description of the origin of the answers.
        metric: metric with the answers.
        examples: examples of each scored split, by question id.
    """
    by_id = {key: example for group in examples.values() for key, example in group.items()}
    labeled = {key: example for key, example in by_id.items() if example.answer}
    unanswered = len(labeled.keys() - metric.answers.keys())
    unreadable = sum(not metric.is_readable(example) for key, example in labeled.items() if key in metric.answers)
    unknown = len(metric.answers.keys() - by_id.keys())
    notes = [source]
    notes += [f"{unanswered:,} of {len(labeled):,} questions not answered and scored as wrong"] * bool(unanswered)
    notes += [f"{unreadable:,} not in the expected form and scored as wrong"] * bool(unreadable)
    notes += [f"{unknown:,} with an id that no question has"] * bool(unknown)
    return "; ".join(notes)
