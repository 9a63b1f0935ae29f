"""Our pipelines for transformers: they read as a run did, whatever its encoding, and answer as `mate` does."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.utils import instantiate
from transformers import Pipeline

from mate_cli.data.loading.collate import collate
from mate_cli.errors import DataError
from mate_cli.models.auto_classes import MateForTask
from mate_cli.pipelines.inference.opened import read_calibration
from mate_cli.tables.denotation import compute, number_text
from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.serializers.serializer import EncodingFailure, Serializer
from mate_cli.tokenization.vocabulary import load_tokenizer


class _Answering(Pipeline):
    """Encodes one question at a time, and predicts.

    Args:
        **options: those of every pipeline; `model` is one with the head of its task.
    """

    _load_tokenizer = False
    _load_processor = False
    _load_image_processor = False
    _load_feature_extractor = False
    model: MateForTask

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        config = self.model.config
        tokenizer = load_tokenizer(config.name_or_path)
        self.serializer: Serializer = instantiate(config.encoding, tokenizer=tokenizer)

    def _sanitize_parameters(self, **options: Any) -> tuple[dict[str, Any], ...]:
        if options:
            raise TypeError(f"{type(self).__name__} takes no {', '.join(options)}")
        return {}, {}, {}

    def answers(self, asked: list[dict[str, Any]]) -> Any:  # noqa: ANN401 - one answer, or a list
        """One answer for one question, else a list."""
        answers = list(super().__call__(asked))
        return answers[0] if len(answers) == 1 else answers

    @abstractmethod
    def example(self, asked: Mapping[str, Any]) -> TableExample:
        """What is encoded of one question."""

    def preprocess(self, input_: Mapping[str, Any]) -> dict[str, Any]:
        """The encoding of one question.

        Raises:
            DataError: it cannot be encoded.
        """
        example = self.example(input_)
        (found,) = self.serializer.encode([example])
        if isinstance(found, EncodingFailure):
            raise DataError(f"cannot be encoded: {found.reason}", where=f"question {example.question!r}")
        positions = self.model.encoder.size.max_positions
        batch = collate([found], reset_positions=self.serializer.reset_positions, max_positions=positions)
        return {"batch": batch, "example": example}

    def _forward(self, input_tensors: dict[str, Any]) -> dict[str, Any]:
        batch = input_tensors["batch"].to(self.device)
        (prediction,) = self.model.task.predictions(self.model.encoder(batch), batch)
        return {"prediction": prediction, "example": input_tensors["example"]}


class TableAnswering(_Answering):
    """Answers questions about tables, or judges statements: `pipeline(..., pipeline_class=TableAnswering)`.

    Inputs and answers are those of transformers' `table-question-answering`; answers have a confidence, too. Texts are
    those of `mate predict`, but that no rows are chosen: what does not fit is cut as in training.

    Args:
        **options: those of every pipeline; `model` is one with the head of its task.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.calibration = read_calibration(Path(self.model.config.name_or_path))

    def __call__(self, table: Any = None, query: str | Sequence[str] | None = None) -> Any:  # noqa: ANN401
        """Answer one question or more.

        Args:
            table: a data frame or what one can be made of; or {"table": ..., "query": ...}, or a list of these.
            query: about the table: one, or several.

        Returns:
            For each question its `answer`, `coordinates` and `cells`, the `aggregator` where the task has any, and the
            `confidence` from 0 to 1; a list where there are several.
        """
        given = [{"table": table, "query": query}] if query is not None else table
        return self.answers(
            [one for each in (given if isinstance(given, list) else [given]) for one in _questions(each)]
        )

    def example(self, asked: Mapping[str, Any]) -> TableExample:
        """A question about a whole table."""
        return TableExample("question", asked["query"], Table.from_pandas(_frame(asked["table"])))

    def postprocess(self, model_outputs: dict[str, Any]) -> dict[str, Any]:
        """The answer to one question."""
        task: Any = self.model.task
        example, prediction = model_outputs["example"], model_outputs["prediction"]
        table, selection = example.table, task.selection(prediction)
        text = task.answers([prediction], {example.example_id: example}).get(example.example_id, "")
        if selection is None:
            return {"answer": text, "coordinates": [], "cells": []}
        value = compute(selection.aggregation, selection.cells, table) if selection.cells else None
        confidence = selection.confidence if self.calibration is None else self.calibration(selection.confidence)
        answer = {
            "answer": text if value is None else number_text(value, ","),
            "coordinates": list(selection.cells),
            "cells": [table.rows[row][column].text for row, column in selection.cells],
            "confidence": confidence,
        }
        if task.auto_config.get("aggregation_labels"):
            answer["aggregator"] = selection.aggregation.upper()
        return answer


class CellReading(_Answering):
    """Reads the answer in a cell and what it links to: `CellReading(model=AutoModelForQuestionAnswering...)`.

    Args:
        **options: those of every pipeline; `model` is a reader.
    """

    def __call__(self, question: Any = None, context: str | Sequence[str] = (), cell: str = "") -> Any:  # noqa: ANN401
        """Answer one question or more.

        Args:
            question: a text; or {"question": ..., "context": ..., "cell": ...}, or a list of these.
            context: a passage, or several.
            cell: the text of the cell that links to them.

        Returns:
            For each question its `answer`, and the `score` of it, from 0 to 1; a list where there are several.

        Raises:
            DataError: there is no question, or nothing to read.
        """
        given = [{"question": question, "context": context, "cell": cell}] if isinstance(question, str) else question
        asked = given if isinstance(given, list) else [given]
        for one in asked:
            known = isinstance(one, Mapping) and one.get("question") and (one.get("context") or one.get("cell"))
            if not known:
                problem, remedy = "a question and a passage or a cell are needed", "Write (question=text, context=text)"
                raise DataError(problem, remedy=remedy)
        return self.answers(asked)

    def example(self, asked: Mapping[str, Any]) -> TableExample:
        """A question about a table of one cell."""
        context = asked.get("context") or ()
        texts = [context] if isinstance(context, str) else context
        passages = {str(place): text for place, text in enumerate(texts)}
        rows = ((Cell(asked.get("cell") or "", tuple(passages)),),)
        return TableExample("question", asked["question"], Table("cell", (Cell(""),), rows, passages=passages))

    def postprocess(self, model_outputs: dict[str, Any]) -> dict[str, Any]:
        """The answer to one question."""
        task: Any = self.model.task
        example, prediction = model_outputs["example"], model_outputs["prediction"]
        text = task.answers([prediction], {example.example_id: example})[example.example_id]
        return {"answer": text, "score": prediction.probability}


def _questions(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One for each query.

    Raises:
        DataError: there is no table or no question.
    """
    if not isinstance(given, Mapping) or not given.get("query") or given.get("table") is None:
        raise DataError("a table and a question are needed", remedy="Write (table=frame, query=question)")
    queries = given["query"]
    return [{"table": given["table"], "query": one} for one in ([queries] if isinstance(queries, str) else queries)]


def _frame(table: Any) -> Any:  # noqa: ANN401 - a data frame
    if hasattr(table, "columns"):
        return table
    import pandas  # type: ignore[import-untyped]

    return pandas.DataFrame(table)
