"""Score finished weights on a split, and predict questions without answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytorch_lightning as pl
from omegaconf import DictConfig
from torch.utils.data import DataLoader

from mate_cli.lit_modules.base import TableTask
from mate_cli.lit_modules.cell_selection import CellRanking
from mate_cli.pipelines.assembly import Parts
from mate_cli.pipelines.placement import placement
from mate_cli.pipelines.predictions import save_predictions
from mate_cli.pipelines.quiet import quiet, quiet_lightning
from mate_cli.runs import ranks
from mate_cli.runs.record import RunFolder
from mate_cli.tables.example import TableExample
from mate_cli.tokenization.layout import TableBatch


@dataclass(frozen=True)
class Result:
    """Predictions of a split and their metrics.

    Args:
        examples: every example that counts, by name.
        predictions: one per example that could be encoded.
        answers: the predicted text by example.
        metrics: fractions by name; empty where no answer is known.
    """

    task: TableTask[Any]
    examples: dict[str, TableExample]
    predictions: list[Any]
    answers: dict[str, str]
    metrics: dict[str, float]

    def table(self) -> tuple[list[str], list[list[Any]]]:
        """Columns and rows for people: question, answer, prediction, and whether it is right."""
        rows = []
        for prediction in self.predictions:
            example = self.examples[prediction.example_id]
            answer = " | ".join(example.answer.texts) if example.answer else ""
            right = self.task.right(prediction, example)
            rows.append([example.question, answer, self.answers.get(prediction.example_id, ""), right])
        return ["question", "answer", "prediction", "right"], rows


def evaluate(parts: Parts, cfg: DictConfig, split: str) -> Result:
    """Predict a split of the run's dataset and score it.

    Raises:
        DataError: the split is missing or empty.
    """
    examples = parts.data.examples(split)
    loader = ranks.first_then_all(lambda: parts.data.loader(split))
    return judge(parts.task, examples, predict(parts.task, loader, cfg))


def judge(task: TableTask[Any], examples: Sequence[TableExample], predictions: list[Any]) -> Result:
    """Score predictions of examples; those whose answer is unknown are only predicted."""
    by_name = {example.example_id: example for example in examples}
    known = {name: example for name, example in by_name.items() if example.answer}
    scored = [prediction for prediction in predictions if prediction.example_id in known]
    metrics = task.score(scored, known) if known else {}
    return Result(task, by_name, predictions, task.answers(predictions, by_name), metrics)


def predict(task: TableTask[Any], loader: DataLoader[TableBatch], cfg: DictConfig) -> list[Any]:
    """All predictions of a loader."""
    with quiet_lightning():
        pl.Trainer(**placement(cfg.hardware), **quiet()).predict(task, loader, return_predictions=False)
    return task.collected()


def save_result(folder: RunFolder, split: str, result: Result) -> None:
    """Write predictions/<split>.json."""
    own = {prediction.example_id: prediction for prediction in result.predictions}

    def score(example: TableExample) -> dict[str, float]:
        name = example.example_id
        return result.task.score([own[name]] if name in own else [], {name: example})

    rankings = [prediction for prediction in result.predictions if isinstance(prediction, CellRanking)]
    save_predictions(folder, split, result.examples.values(), result.answers, score, rankings)
