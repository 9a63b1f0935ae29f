"""Answers to questions about user tables, by a finished run or a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from torch import nn

from mate_cli.arguments import check_arguments
from mate_cli.data.loading.in_memory import EncodedExamples
from mate_cli.data.loading.table_data_module import EmptyDataset
from mate_cli.errors import DataError, MateError, RunError
from mate_cli.files.io_errors import wrap_file_errors
from mate_cli.files.safe_load import read_object
from mate_cli.lit_modules.base import Selection
from mate_cli.metrics.calibration import CALIBRATION, Calibration
from mate_cli.models.base.task_model import TaskModel
from mate_cli.pipelines.assembly import Parts, load_best
from mate_cli.pipelines.evaluation.evaluation import predict, predict_in_turn
from mate_cli.pipelines.inference.predict_request import (
    OpenTables,
    check_model,
    check_some,
    record_time,
)
from mate_cli.pipelines.inference.row_fitting import RowFitter, TableView
from mate_cli.pipelines.machine import RuntimeOverrides
from mate_cli.runs.configuration import ModelConfig
from mate_cli.runs.folders import open_run
from mate_cli.tables.denotation import compute_with_notes, find_units, needs_all_rows, number_text
from mate_cli.tables.example import UNANSWERABLE, TableExample
from mate_cli.tables.formats.cell_text import count_noun
from mate_cli.tables.questions import Session, TableAnswerResult
from mate_cli.tables.table import Table, TableFile
from mate_cli.tokenization.fitting.truncation import TRUNCATION_COUNTS

if TYPE_CHECKING:
    from typing import Self


class LoadedModel(TaskModel, nn.Module):
    """A trained model, loaded from a run or a checkpoint: network, heads and tokenizer.

    Args:
        name: display name: the run folder or the name of the checkpoint.
        parts: task with loaded weights, serializer and data module.
        settings: configuration of the network, with the hardware of the current machine.
        calibration: calibration of its confidences. None if unknown.
    """

    @check_arguments
    def __init__(self, name: str, parts: Parts, settings: ModelConfig, calibration: Calibration | None = None) -> None:
        super().__init__()
        # PEFT would read an attribute `config` as a configuration of transformers.
        self.name, self.parts, self.settings, self.calibration = name, parts, settings, calibration
        self.share_modules(parts.task)

    @classmethod
    def load(cls, run: str | None, checkpoint: str | None, runtime: RuntimeOverrides) -> Self:
        """Load the model of a finished run, or of a checkpoint.

        Args:
            run: run folder, or None.
            checkpoint: name of a checkpoint, see `open_checkpoint`, or None.
            runtime: hardware and folders of the current machine.

        Raises:
            ConfigError: a run and a checkpoint are both specified or both missing.
            RunError: the run is a system of stages, or has no weights.
            CheckpointError: the checkpoint is missing or damaged.
        """
        check_model(run, checkpoint)
        if run is not None:
            folder = open_run(run)
            run_config = runtime.config(folder)
            return cls(run, load_best(run_config, folder, EmptyDataset()), run_config, read_calibration(folder.path))
        # Imported late, because runs do not need the checkpoint formats.
        from mate_cli.pipelines.inference.checkpoint import find_checkpoint, open_checkpoint

        parts, config = open_checkpoint(str(checkpoint), runtime)
        return cls(str(checkpoint), parts, config, read_calibration(find_checkpoint(str(checkpoint))))


def read_calibration(folder: Path) -> Calibration | None:
    """Read the confidence calibration of a run or checkpoint.

    Return None if the file is missing.

    Raises:
        DataError: the file is damaged.
    """
    path = folder / CALIBRATION
    if not path.is_file():
        return None
    hint = "Evaluate the run again"
    with wrap_file_errors(path, DataError, "this calibration cannot be read", hint):
        return Calibration.from_json(read_object(path, DataError, hint, links=True))


@dataclass(frozen=True)
class PreparedQuestion:
    """A question about a user's table, reduced to rows and columns that fit the network.

    Args:
        example: the question about the rows and columns of `view`.
        file: the complete table.
        view: the part of the table.
    """

    example: TableExample
    file: TableFile
    view: TableView


def answer_tables(
    inputs: OpenTables,
    load: Callable[[], LoadedModel],
    say: Callable[[str], None] = lambda text: None,
    *,
    conversation: bool = False,
    abstain: float | None = None,
) -> Session:
    """Answer all questions about all readable tables with a loaded model.

    Args:
        inputs: questions and tables.
        load: function that loads the model.
        say: callback for progress messages.
        conversation: whether each question depends on the answers to the previous questions.
        abstain: minimum confidence, from 0 to 1, below which answers are withheld. None: no minimum.

    Returns:
        The answers, the reasons for skipped tables, and the time of each step in seconds.

    Raises:
        DataError: no table has rows that fit the input of the network.
        RunError: the run is missing, or its task does not answer about tables.
        CheckpointError: the checkpoint is missing or damaged.
    """
    skipped, seconds = dict(inputs.skipped), dict(inputs.seconds)
    say("loading the model")
    with record_time(seconds, "model"):
        model = load()
    if model.parts.task.spec.table_answers is None:
        problem = f"{type(model.parts.task).__name__} does not answer with table cells or a verdict"
        raise RunError(problem, where=model.name, remedy="Use a model of task=table_qa or task=entailment")
    say("choosing rows")
    with record_time(seconds, "rows"):
        questions = _prepare(model, inputs, skipped, together=conversation)
    check_some(questions, skipped)
    say("answering")
    with record_time(seconds, "answers"):
        answers = _answer(model, questions, conversation=conversation, abstain=abstain)
    notes = {str(path): file.notes for path, file in inputs.files.items() if file.notes}
    return Session(model.name, answers, notes, skipped, seconds)


def _prepare(
    model: LoadedModel, inputs: OpenTables, skipped: dict[str, str], *, together: bool
) -> list[PreparedQuestion]:
    """Reduce the table of each question to the rows and columns that the network reads.

    A table whose selection fails is added to `skipped`, unless it is the only table.
    """
    fitter = RowFitter(model.parts.serializer, model.parts.task)
    questions: list[PreparedQuestion] = []
    for path, file in inputs.files.items():
        texts = inputs.questions[path]
        try:
            with wrap_file_errors(path, DataError, "no rows of this table can be chosen", "Give a part of it"):
                views = list(fitter.fit(file, texts, together=together))
        except MateError as error:
            if len(inputs.files) == 1:
                raise
            skipped[str(path)] = str(error)
            continue
        for turn, (text, view) in enumerate(zip(texts, views, strict=True)):
            name = f"{len(questions):06}"
            example = TableExample(name, text, view.table)
            if together:
                example = replace(example, conversation=str(path), history=tuple(texts[:turn]))
            questions.append(PreparedQuestion(example, file, view))
    return questions


def _answer(
    model: LoadedModel, questions: Sequence[PreparedQuestion], *, conversation: bool, abstain: float | None
) -> list[TableAnswerResult]:
    examples = [question.example for question in questions]
    parts = model.parts
    encodings = EncodedExamples(parts.task.evaluation_examples(examples), parts.serializer)
    failures = encodings.failures
    names = [name for name in encodings.example_ids if name not in failures]
    cuts = dict(zip(names, encodings.cuts.tolist(), strict=False))
    outputs = predict(parts.task, parts.data.loader_encoded(encodings), model.settings)
    if conversation:
        outputs = predict_in_turn(parts, model.settings, examples, outputs)
    by_name = {example.example_id: example for example in examples}
    texts = parts.task.answers(outputs, by_name)
    predictions = {prediction.example_id: prediction for prediction in outputs}
    answers, about = [], parts.task.spec.table_answers
    verdict = about is not None and about.verdict
    for question in questions:
        name = question.example.example_id
        result = TableAnswerResult(
            source=str(question.file.path),
            question=question.example.question,
            table=question.view.table,
            row_numbers=question.view.numbers,
            rows_in_file=len(question.file),
            cut=_truncation_notes(question, cuts.get(name), parts.serializer.max_tokens),
            threshold=abstain,
        )
        if name in predictions:
            selection = parts.task.selection(predictions[name])
            result = _with_selection(result, selection, texts.get(name, ""), verdict)
            if selection is not None:
                share = selection.share_right(model.calibration)
                result = replace(result, confidence=share, calibrated=model.calibration is not None)
            if not (result.cells or result.answer):
                is_null = selection is not None and selection.is_null
                result = replace(result, failure=UNANSWERABLE if is_null else "no cell is likely enough")
        else:
            result = replace(result, failure=failures.get(name, "this task has no answer for it"))
        answers.append(result)
    return answers


def _with_selection(
    result: TableAnswerResult, selection: Selection | None, text: str, verdict: bool
) -> TableAnswerResult:
    if selection is None:
        return replace(result, answer=text)
    table = result.table
    is_count = selection.aggregation == "count"
    value, notes = compute_with_notes(selection.aggregation, selection.cells, table)
    unseen = result.rows_in_file - len(table.rows)
    warnings = ["No cell was selected, so the count is 0."] if is_count and not selection.cells else []
    if unseen and needs_all_rows(result.question, selection.aggregation):
        warnings.append(f"The answer may depend on all rows, but {unseen:,} of {result.rows_in_file:,} were not read.")
    if selection.aggregation in ("sum", "average") and selection.cells:
        reason = f"Not all chosen cells are numbers, so no {selection.aggregation} was computed."
        warnings += notes or ([reason] if value is None else [])
    units = find_units(selection.cells, table) if selection.aggregation in ("sum", "average") else ()
    if len(units) > 1 and value is not None:
        warnings.append(f"The {selection.aggregation} mixes units: {', '.join(unit or 'no unit' for unit in units)}.")
    return replace(
        result,
        answer=_text(selection, table, text) if value is None else number_text(value, ","),
        cells=selection.cells,
        probabilities=selection.probabilities,
        aggregation=selection.aggregation,
        value=value,
        verdict=verdict,
        warnings=tuple(warnings),
    )


def _text(selection: Selection, table: Table, text: str) -> str:
    """Join the distinct texts of the selected cells to an answer text.

    For aggregations and empty selections, the result is `text`, the answer of the task.
    """
    if selection.aggregation != "none" or not selection.cells:
        return text
    return ", ".join(dict.fromkeys(table.rows[row][column].text for row, column in selection.cells))


def _truncation_notes(question: PreparedQuestion, numbers: Sequence[int] | None, max_tokens: int) -> tuple[str, ...]:
    """Explain in sentences which parts of a table were omitted or truncated for a question."""
    notes = list(question.view.notes)
    counts = dict(zip(TRUNCATION_COUNTS, numbers or (), strict=False))
    for kind, noun in (("shortened_cells", "cell"), ("dropped_columns", "column"), ("dropped_rows", "last row")):
        if count := counts.get(kind):
            verb = "shortened" if noun == "cell" else "left out"
            notes.append(f"{count_noun(count, noun)} {verb} to fit {max_tokens:,} tokens.")
    return tuple(notes)
