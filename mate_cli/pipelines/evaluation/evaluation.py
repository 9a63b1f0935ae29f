"""Evaluation of trained weights on a split, and prediction without known answers."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.utils.data import DataLoader

from mate_cli.data.loading.in_memory import EncodedExamples
from mate_cli.files.safe_load import to_json
from mate_cli.lit_modules.base import TableTask
from mate_cli.metrics.calibration import CALIBRATION, Calibration, fit_calibration
from mate_cli.metrics.pruning import ANSWERS_KEPT, Pruning, pruning_scores
from mate_cli.metrics.specs import MetricName
from mate_cli.metrics.subsets import parts_by_tokens
from mate_cli.metrics.wtq_official import OFFICIAL_ACCURACY
from mate_cli.pipelines.assembly import Parts
from mate_cli.pipelines.machine import explain_memory_errors, get_device, prediction_advice, resolve_profile
from mate_cli.runs import ranks
from mate_cli.runs.configuration import ModelConfig
from mate_cli.runs.record import RunFolder
from mate_cli.tables.example import Coordinates, TableExample
from mate_cli.terminal.progress import track
from mate_cli.tokenization.layout import TableBatch

SAME_DATA = "Use the same data on all ranks, as on a file system that all nodes share"
"""Hint of the error for ranks with different questions."""


@dataclass(frozen=True)
class SplitResult:
    """Predictions for the questions of a split, with their metrics.

    Args:
        task: task of the predictions.
        examples: examples of the split, by id.
        predictions: predictions of the task, one per example that could be encoded.
        answers: predicted answers as text, by example id.
        metrics: fractions by metric name. Empty if no answer is known.
        pruned: pruning results by example id. Empty if the network does not prune tokens.
    """

    task: TableTask[Any, Any]
    examples: dict[str, TableExample]
    predictions: list[Any]
    answers: dict[str, str]
    metrics: dict[str, float]
    pruned: dict[str, Pruning] = field(default_factory=dict)

    def table(self, most: int) -> tuple[list[str], list[list[Any]]]:
        """Return a table of the answers, predictions and scores of the first `most` questions.

        Cells are (row, column), both from 0. Correctness and the monitored score are None if the answer is unknown.

        Returns:
            Column names and rows.
        """
        rows = []
        for prediction in self.predictions[:most]:
            example = self.examples[prediction.example_id]
            answer, name = example.answer, example.example_id
            correct = self.task.is_correct(prediction, example) if answer else None
            score = self.task.all_scores([prediction], {name: example}).get(self._score) if answer else None
            texts, cells = (" | ".join(answer.texts), answer.coordinates) if answer else ("", ())
            picked = [*_cells(self.task, prediction)]
            rows.append([name, example.question, texts, [*cells], self.answers.get(name, ""), picked, correct, score])
        columns = ["answer", "answer_cells", "prediction", "prediction_cells", self.task.correct_title, self._score]
        return ["id", "question", *columns], rows

    @property
    def _score(self) -> str:
        return MetricName.parse(self.task.spec.monitor).score


def evaluate(parts: Parts, cfg: ModelConfig, split: str) -> SplitResult:
    """Answer the questions of a dataset split with a trained task, and score the answers.

    In conversations, each question is answered given the predicted previous answers. Metrics with the suffix
    `/gold_previous` use the gold previous answers instead, as validation during training does. If input lengths differ,
    further metrics cover groups of questions by their number of tokens before truncation: the monitored metric, the
    official WTQ accuracy, and the fraction of answers that pruning does not remove, if the task has these metrics.

    Args:
        parts: task with loaded weights, and data.
        cfg: configuration of the network and the hardware.
        split: name of the split.

    Raises:
        DataError: the split is missing or empty.
    """
    examples = ranks.rank_zero_first(lambda: parts.data.examples(split))
    loader = parts.data.loader(split)
    digest = parts.data.encodings(split).digest
    ranks.require_agreement({split: digest[:12]}, SAME_DATA)
    predictions = predict(parts.task, loader, cfg)
    result = judge(parts.task, examples, predictions)
    tokens = parts.data.encodings(split).untruncated_lengths
    if not any(example.history for example in examples):
        return with_parts(result, tokens)
    result_in_turn = judge(parts.task, examples, predict_in_turn(parts, cfg, examples, predictions))
    gold_metrics = {f"{name}/gold_previous": value for name, value in result.metrics.items() if "/" not in name}
    return with_parts(replace(result_in_turn, metrics={**result_in_turn.metrics, **gold_metrics}), tokens)


def with_parts(result: SplitResult, tokens: Mapping[str, int]) -> SplitResult:
    """Add metrics of questions grouped by input length to the result of a split.

    Args:
        result: result to extend.
        tokens: number of tokens before truncation, by example id.
    """
    sizes = {name: count for name, count in tokens.items() if name in result.examples and result.examples[name].answer}
    keys = (MetricName.parse(result.task.spec.monitor).score, OFFICIAL_ACCURACY.name, ANSWERS_KEPT.name)
    metrics = dict(result.metrics)
    for part, names in parts_by_tokens(sizes).items():
        subset = {name: result.examples[name] for name in names}
        predictions = [prediction for prediction in result.predictions if prediction.example_id in subset]
        scores = result.task.all_scores(predictions, subset)
        scores |= pruning_scores(result.pruned[name] for name in names if name in result.pruned)
        metrics |= {f"{name}/{part}": scores[name] for name in keys if name in scores}
    return replace(result, metrics=metrics)


def predict_in_turn(
    parts: Parts, cfg: ModelConfig, examples: Sequence[TableExample], first: Sequence[Any]
) -> list[Any]:
    """Answer conversations turn by turn, given the cells predicted for the previous turn.

    Args:
        parts: task with loaded weights, and data.
        cfg: configuration of the network and the hardware.
        examples: questions of all conversations.
        first: predictions that include the first question of every conversation.

    Source: google-research/tapas, `models/tapas_classifier_model.py`, `compute_prediction_sequence`.
    """
    turns = {example.example_id: len(example.history) for example in examples}
    by_id = {prediction.example_id: prediction for prediction in first if not turns[prediction.example_id]}
    names = {(example.conversation, len(example.history)): example.example_id for example in examples}
    for turn in range(1, max(turns.values()) + 1):
        group = [example for example in examples if len(example.history) == turn]
        previous = [by_id.get(names.get((example.conversation, turn - 1), "")) for example in group]
        group = [replace(e, previous_cells=_cells(parts.task, b)) for e, b in zip(group, previous, strict=True)]
        # The encodings depend on predictions, so they are not cached.
        encodings = EncodedExamples(group, parts.serializer)
        predictions = predict(parts.task, parts.data.loader_encoded(encodings), cfg)
        by_id |= {prediction.example_id: prediction for prediction in predictions}
    return list(by_id.values())


def _cells(task: TableTask[Any, Any], prediction: Any | None) -> Coordinates:  # noqa: ANN401 - a task's own type
    selection = task.selection(prediction) if prediction else None
    return selection.cells if selection else ()


def judge(task: TableTask[Any, Any], examples: Sequence[TableExample], predictions: list[Any]) -> SplitResult:
    """Convert predictions to answer texts, and score examples that have gold answers.

    Args:
        task: task that made the predictions.
        examples: examples, with or without known answers.
        predictions: predictions of the examples that could be encoded.
    """
    by_name = {example.example_id: example for example in examples}
    labeled = {name: example for name, example in by_name.items() if example.answer}
    outputs = [prediction for prediction in predictions if prediction.example_id in labeled]
    pruned = task.find_prunings(outputs)
    metrics = task.all_scores(outputs, labeled) | pruning_scores(pruned.values()) if labeled else {}
    return SplitResult(task, by_name, predictions, task.answers(predictions, by_name), metrics, pruned)


def predict(task: TableTask[Any, Any], loader: DataLoader[TableBatch], cfg: ModelConfig) -> list[Any]:
    """Predict all batches of a loader, and return the predictions of all ranks on every rank.

    Afterwards the device and the training modes of the task are restored.

    Args:
        task: task with loaded weights.
        loader: batches to predict.
        cfg: configuration, whose hardware determines device and precision.

    Raises:
        RunError: the GPU memory does not suffice for a batch.
    """
    precision = resolve_profile(cfg.hardware, moved=True).precision
    lower = torch.float16 if precision == "16-mixed" else torch.bfloat16
    origin, modes = next(task.parameters()).device, {module: module.training for module in task.modules()}
    # A caller may have moved the task to an accelerator.
    device = get_device(cfg.hardware) if origin.type == "cpu" else origin
    task.to(device).eval()
    with (
        explain_memory_errors(lambda: prediction_advice(cfg.hardware.micro_batch)),
        torch.inference_mode(),
        torch.autocast(device.type, lower, enabled=precision.endswith("-mixed"), cache_enabled=False),
    ):
        for batch in track(loader, "predicting", "batches"):
            task.keep_predictions(batch.to(device))
    task.to(origin)
    for module, is_training in modes.items():
        module.training = is_training
    return task.collect_predictions()


MIN_ANSWERS = 5
"""Minimum number of answers for fitting a calibration."""


def calibrate(result: SplitResult) -> Calibration | None:
    """Fit a map from the confidence of a prediction to its probability of being correct.

    Return None for fewer than `MIN_ANSWERS` answers.
    """
    pairs = []
    for prediction in result.predictions:
        example = result.examples[prediction.example_id]
        selection = result.task.selection(prediction)
        if selection and example.answer:
            pairs.append((selection.confidence, result.task.is_correct(prediction, example)))
    if len(pairs) < MIN_ANSWERS:
        return None
    confidences, correct = zip(*pairs, strict=True)
    return fit_calibration(confidences, correct)


def save_result(folder: RunFolder, split: str, result: SplitResult) -> Calibration | None:
    """Write the predictions of a split to a JSON file, and for dev also calibration.json.

    Args:
        folder: folder of the results.
        split: name of the split.
        result: predictions of the split.

    Returns:
        The calibration of confidences. None for splits other than dev, or if answers are too few.
    """
    calibration = calibrate(result) if split == "dev" else None
    if calibration:
        folder.write_json(CALIBRATION, calibration.to_json())
    by_id = {prediction.example_id: prediction for prediction in result.predictions}

    def score(example: TableExample) -> dict[str, float]:
        name = example.example_id
        pruned = [result.pruned[name]] if name in result.pruned else []
        return result.task.all_scores([by_id[name]] if name in by_id else [], {name: example}) | pruning_scores(pruned)

    details = {name: result.task.details(prediction) for name, prediction in by_id.items()}
    save_predictions(folder, split, result.examples.values(), result.answers, score, details)
    return calibration


def describe_questions(split: str, examples: Iterable[TableExample]) -> dict[str, str]:
    """Return the number and a hash of a split's questions with known answers.

    An example is `{"dev": "40:3f2a91c4d0e1"}`. Only metrics of runs with the same hash are compared.
    """
    labeled = {example.example_id: example for example in examples if example.answer}
    answers = {name: item.answer and [*item.answer.texts, item.answer.label] for name, item in labeled.items()}
    rows = [[name, labeled[name].question, answers[name]] for name in sorted(labeled)]
    digest = hashlib.sha256(to_json(rows).encode()).hexdigest()[:12]
    return {split: f"{len(labeled)}:{digest}"}


def save_predictions(
    folder: RunFolder,
    split: str,
    examples: Iterable[TableExample],
    answers: Mapping[str, str],
    score: Callable[[TableExample], Mapping[str, float]],
    details: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Write predictions/<split>.json, a list with one object per question.

    Each object contains `question_id` and `pred`, the format of HybridQA's official scorer, and further values.

    Args:
        folder: folder of the results.
        split: name of the split.
        examples: questions of the split.
        answers: predicted answers by question id. `pred` is empty if the answer is missing.
        score: function that returns the scores of a question. It is called for questions with known answers. Scores of
            subsets (`table/em`) are omitted.
        details: additional values by question id.
    """
    details = details or {}
    rows = []
    for example in examples:
        name = example.example_id
        row: dict[str, Any] = {"question_id": name, "pred": answers.get(name, ""), **_facts(example)}
        if example.answer:
            row["scores"] = {key: value for key, value in score(example).items() if "/" not in key}
        rows.append({**row, **details.get(name, {})})
    folder.write_json(f"predictions/{split}.json", rows)


def _facts(example: TableExample) -> dict[str, Any]:
    table, answer = example.table, example.answer
    values: dict[str, Any] = {"answer": list(answer.texts), "source": answer.source} if answer else {}
    if answer and answer.coordinates:
        values["answer_cells"] = [[*cell] for cell in answer.coordinates]
    values |= {"subsets": [*example.subsets]} if example.subsets else {}
    size = len(table.rows) * len(table.header)
    return {"question": example.question, "table_id": table.table_id, "table_cells": size, **values}
