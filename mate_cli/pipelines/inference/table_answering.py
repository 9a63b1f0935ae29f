"""Our pipelines for transformers: they read as a run did, whatever its encoding, and answer as `mate` does."""

from __future__ import annotations

import json
import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from hydra.utils import instantiate
from transformers import Pipeline

from mate_cli.data.loading.collate import collate
from mate_cli.errors import DataError
from mate_cli.metrics.calibration import CALIBRATION
from mate_cli.models.auto_classes import MateForTask
from mate_cli.pipelines.inference.checkpoint import FOUND_BESIDE, tokenizer_class, write_settings, write_tokenizer
from mate_cli.pipelines.inference.pretrained_encoder import check_batch_size
from mate_cli.pipelines.inference.tables import read_calibration
from mate_cli.tables.denotation import compute, number_text
from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.layout import TableBatch
from mate_cli.tokenization.serializers.serializer import EncodingFailure, Serializer
from mate_cli.tokenization.vocabulary import load_tokenizer


class _Answering(Pipeline):
    """Encodes questions one at a time, and predicts `batch_size` at a time.

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
            raise TypeError(f"{type(self).__name__} does not accept {', '.join(options)}")
        return {}, {}, {}

    def answers(self, inputs: Any, **options: Any) -> Any:  # noqa: ANN401 - one answer, a list, or an iterator
        """Answer what is given: one answer for one question, a list for a list, an iterator for a stream."""
        if not isinstance(inputs, (Mapping, list, tuple)) and _is_stream(inputs):
            has_end = hasattr(inputs, "__iter__")  # a dataset of torch does not end by itself
            items = inputs if has_end else (inputs[place] for place in range(len(inputs)))
            return super().__call__((question for item in items for question in self.questions(item)), **options)
        several = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        questions = [question for item in several for question in self.questions(item)]
        answers = list(super().__call__(questions, **options)) if questions else []
        return answers[0] if len(answers) == 1 else answers

    def get_iterator(
        self,
        inputs: Any,  # noqa: ANN401 - whatever holds questions
        num_workers: int,
        batch_size: int,
        preprocess_params: Mapping[str, Any],
        forward_params: Mapping[str, Any],
        postprocess_params: Mapping[str, Any],
    ) -> Iterator[Any]:
        """Answer in order; questions are taken as they are needed, by this process.

        Raises:
            ConfigError: `batch_size` is no number of questions.
        """
        check_batch_size(batch_size)
        return self._answer_batches(iter(inputs), batch_size)

    def _answer_batches(self, remaining: Iterator[Mapping[str, Any]], batch_size: int) -> Iterator[Any]:
        while questions := list(islice(remaining, batch_size)):
            outputs = self.forward({"questions": [self.preprocess(question) for question in questions]})
            yield from map(self.postprocess, outputs["questions"])

    @abstractmethod
    def questions(self, item: Any) -> Sequence[dict[str, Any]]:  # noqa: ANN401 - what people give
        """Return the questions in one input."""

    @abstractmethod
    def example(self, asked: Mapping[str, Any]) -> TableExample:
        """Return the example to encode for one question."""

    def preprocess(self, input_: Mapping[str, Any]) -> dict[str, Any]:
        """Encode one question.

        Raises:
            DataError: it cannot be encoded.
        """
        example = self.example(input_)
        (encoding,) = self.serializer.encode([example])
        if isinstance(encoding, EncodingFailure):
            raise DataError(f"cannot be encoded: {encoding.reason}", where=f"question {example.question!r}")
        return {"encoding": encoding, "example": example}

    def batch(self, questions: Sequence[Mapping[str, Any]]) -> TableBatch:
        """Return the batch of questions that are encoded."""
        positions = self.model.encoder.size.max_positions
        encodings = [question["encoding"] for question in questions]
        return collate(encodings, reset_positions=self.serializer.reset_positions, max_positions=positions)

    def _forward(self, input_tensors: dict[str, Any]) -> dict[str, Any]:
        questions = input_tensors["questions"]
        batch = self.batch(questions).to(self.device)
        predictions = self.model.task.predictions(self.model.encoder(batch), batch)
        pairs = zip(questions, predictions, strict=True)
        return {
            "questions": [{"example": question["example"], "prediction": prediction} for question, prediction in pairs]
        }

    def save_pretrained(self, save_directory: str | os.PathLike[str], **options: Any) -> None:
        """Save what the pipeline is made of, for itself, for `Mate` and for `mate predict`."""
        super().save_pretrained(save_directory, **options)
        config, folder = self.model.config, Path(save_directory)
        parts = {part: getattr(config, part) for part in ("encoding", "model", "attention", "task")}
        write_settings(folder, parts | {"init": FOUND_BESIDE})
        table_answers = self.model.task.spec.table_answers is not None
        name = tokenizer_class(self.serializer, table_answers=table_answers)
        write_tokenizer(folder, self.serializer.tokenizer, self.serializer.max_tokens, name)


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

    def __call__(self, table: Any = None, query: str | Sequence[str] | None = None, **options: Any) -> Any:  # noqa: ANN401
        """Answer one question or more.

        Args:
            table: a data frame or what one can be made of; or {"table": ..., "query": ...}, or a list, a dataset or a
                generator of these.
            query: about the table: one, or several.
            **options: `batch_size`, questions that are predicted at once.

        Returns:
            For each question its `answer`, `coordinates` and `cells`, the `aggregator` where the task has any, and the
            `confidence` from 0 to 1; a list where there are several, an iterator for a dataset or a generator.

        Raises:
            DataError: there is no table or no question.
        """
        return self.answers(table if query is None else {"table": table, "query": query}, **options)

    def questions(self, item: Any) -> Sequence[dict[str, Any]]:  # noqa: ANN401 - what people give
        """Return one for each query about a table."""
        known = isinstance(item, Mapping) and item.get("table") is not None and item.get("query") is not None
        queries = item["query"] if known else ""
        queries = [queries] if isinstance(queries, str) else list(queries)
        if not all(queries):
            raise DataError("a table and a question are needed", remedy="Write (table=frame, query=question)")
        return [{"table": item["table"], "query": query} for query in queries]

    def save_pretrained(self, save_directory: str | os.PathLike[str], **options: Any) -> None:
        """Save what the pipeline is made of, and what its confidences are worth."""
        super().save_pretrained(save_directory, **options)
        if self.calibration is not None:
            text = json.dumps(self.calibration.to_json(), indent=2) + "\n"
            (Path(save_directory) / CALIBRATION).write_text(text, encoding="utf-8")

    def example(self, asked: Mapping[str, Any]) -> TableExample:
        """Return a question about a whole table."""
        return TableExample("question", asked["query"], Table.from_pandas(_frame(asked["table"])))

    def postprocess(self, model_outputs: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to one question."""
        task: Any = self.model.task
        example, prediction = model_outputs["example"], model_outputs["prediction"]
        table, selection = example.table, task.selection(prediction)
        text = task.answers([prediction], {example.example_id: example}).get(example.example_id, "")
        if selection is None:
            return {"answer": text, "coordinates": [], "cells": []}
        value = compute(selection.aggregation, selection.cells, table) if selection.cells else None
        answer = {
            "answer": text if value is None else number_text(value, ","),
            "coordinates": list(selection.cells),
            "cells": [table.rows[row][column].text for row, column in selection.cells],
            "confidence": selection.share_right(self.calibration),
        }
        if task.auto_config.get("aggregation_labels"):
            answer["aggregator"] = selection.aggregation.upper()
        return answer


class CellReading(_Answering):
    """Reads the answer in a cell and what it links to: `CellReading(model=AutoModelForQuestionAnswering...)`.

    Args:
        **options: those of every pipeline; `model` is a reader.
    """

    def __call__(
        self,
        question: Any = None,  # noqa: ANN401 - a text, or more
        context: str | Sequence[str] = (),
        cell: str = "",
        **options: Any,
    ) -> Any:  # noqa: ANN401 - one answer, a list, or an iterator
        """Answer one question or more.

        Args:
            question: a text; or {"question": ..., "context": ..., "cell": ...}, or a list, a dataset or a generator of
                these.
            context: a passage, or several.
            cell: the text of the cell that links to them.
            **options: `batch_size`, questions that are predicted at once.

        Returns:
            For each question its `answer`, and the `score` of it, from 0 to 1; a list where there are several, an
            iterator for a dataset or a generator.

        Raises:
            DataError: there is no question, or nothing to read.
        """
        alone = isinstance(question, str)
        return self.answers({"question": question, "context": context, "cell": cell} if alone else question, **options)

    def questions(self, item: Any) -> Sequence[dict[str, Any]]:  # noqa: ANN401 - what people give
        """Return the one question."""
        if not isinstance(item, Mapping) or not item.get("question") or not (item.get("context") or item.get("cell")):
            problem, remedy = "a question and a passage or a cell are needed", "Write (question=text, context=text)"
            raise DataError(problem, remedy=remedy)
        return [dict(item)]

    def example(self, asked: Mapping[str, Any]) -> TableExample:
        """Return a question about a table of one cell."""
        context = asked.get("context") or ()
        texts = [context] if isinstance(context, str) else context
        passages = {str(place): text for place, text in enumerate(texts)}
        rows = ((Cell(asked.get("cell") or "", tuple(passages)),),)
        return TableExample("question", asked["question"], Table("cell", (Cell(""),), rows, passages=passages))

    def postprocess(self, model_outputs: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to one question."""
        task: Any = self.model.task
        example, prediction = model_outputs["example"], model_outputs["prediction"]
        text = task.answers([prediction], {example.example_id: example})[example.example_id]
        return {"answer": text, "score": prediction.probability}


def _is_stream(inputs: Any) -> bool:  # noqa: ANN401 - what people give
    """Tell whether it holds questions one after the other: a dataset or an iterator, but no table."""
    if hasattr(inputs, "columns") or isinstance(inputs, str):
        return False
    return hasattr(inputs, "__iter__") or (hasattr(inputs, "__getitem__") and hasattr(inputs, "__len__"))


def _frame(table: Any) -> Any:  # noqa: ANN401 - a data frame
    if hasattr(table, "columns"):
        return table
    import pandas  # type: ignore[import-untyped]

    return pandas.DataFrame(table)
