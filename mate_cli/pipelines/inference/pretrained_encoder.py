"""`mate_cli.Mate`: a trained model that encodes tables and answers questions."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import Any, SupportsIndex

import torch
from torch import Tensor

from mate_cli.arguments import check_arguments
from mate_cli.data.loading.in_memory import EncodedExamples
from mate_cli.errors import ConfigError, DataError, RunError
from mate_cli.files.sandbox import default_cache
from mate_cli.models.base.table_encoder import TableEncoder
from mate_cli.models.checkpoints.files import read_config
from mate_cli.models.layer_outputs import encode_with_layers
from mate_cli.pipelines.evaluation.evaluation import predict
from mate_cli.pipelines.inference.predict_request import OpenTables, all_questions
from mate_cli.pipelines.inference.tables import LoadedModel, answer_tables
from mate_cli.pipelines.machine import RuntimeOverrides, keep_random_states
from mate_cli.runs.configuration import Hardware, Paths
from mate_cli.tables.example import TableExample
from mate_cli.tables.questions import TableAnswerResult
from mate_cli.tables.read import open_table, read_table
from mate_cli.tables.table import Cell, Table, TableFile
from mate_cli.tokenization.layout import TableBatch

Tables = Any
"""A `Table`, a pandas data frame, a mapping of columns, the path of a file, or a list of these."""


@dataclass(frozen=True)
class EncodedTables:
    """Hidden states and attention weights of tables, with field names as in transformers.

    Args:
        last_hidden_state: hidden state of every token of `batch`, [B, T, D]. Zero on padding.
        pooler_output: pooled hidden state of every example, [B, D].
        batch: the encoded tokens. Their row ids and column ids count the cells from 1. Ids of the question are 0.
        hidden_states: input of the first layer and output of each layer, [B, T, D] each. None unless requested.
        attentions: attention weights of query i and key j in each layer, [B, N, T, T] each. None unless requested.
    """

    last_hidden_state: Tensor
    pooler_output: Tensor
    batch: TableBatch
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None

    @check_arguments
    def of_cell(self, row: SupportsIndex, column: SupportsIndex, example: SupportsIndex = 0) -> Tensor:
        """Return the mean hidden state [D] of the tokens of a table cell.

        Args:
            row: index of the row below the header, from 0.
            column: index of the column, from 0.
            example: index of the example in the batch, from 0.

        Raises:
            DataError: the example does not exist, or no token of the cell was encoded.
        """
        ids = self.batch.row_ids, self.batch.column_ids
        is_row, is_column = (part == index(number) + 1 for part, number in zip(ids, (row, column), strict=True))
        examples = torch.arange(len(is_row), device=is_row.device).unsqueeze(1)
        tokens = self.batch.in_body & is_row & is_column & (examples == index(example))
        if not tokens.any():
            problem = f"no token of row {row}, column {column} was read in example {example}"
            raise DataError(problem, remedy="All are counted from 0")
        return self.last_hidden_state[tokens].mean(0)


class Mate(LoadedModel):
    """A trained model with its tokenizer, to encode tables and answer table questions.

    `from_pretrained` loads a model. `to` changes its device and dtype, as for any `nn.Module`.
    """

    encoder: TableEncoder

    @classmethod
    @check_arguments
    def from_pretrained(
        cls,
        name: str | Path,
        *,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | str | None = None,
        trust: str | Sequence[str] = (),
    ) -> Mate:
        """Load a trained model with its best weights, in evaluation mode.

        Args:
            name: export folder of `mate export`, run folder, folder of a TAPAS of transformers, or name of a model on
                the Hugging Face Hub, optionally followed by @ and a revision.
            device: device of the model. None: the CPU.
            dtype: data type of the weights, or its name. None: float32. "auto": the data type of the checkpoint.
            trust: user modules whose classes may be instantiated, which executes their code.

        Raises:
            CheckpointError: the checkpoint is missing or damaged.
            ConfigError: the data type or device does not exist.
            RunError: the run is not finished, or is a system of stages.
            TrustError: the configuration names a class that is neither mate's nor trusted.
        """
        folder = Path(name).expanduser()
        recorded = read_config(folder) if dtype == "auto" else {"dtype": dtype}
        weight_type = find_dtype(recorded.get("dtype") or recorded.get("torch_dtype"))
        paths = Paths(outputs="outputs", cache=default_cache(), data="data")
        runtime = RuntimeOverrides(_HARDWARE, paths, trust=[trust] if isinstance(trust, str) else trust)
        target = find_device(device)
        with keep_random_states():  # Weights are initialized randomly before they are loaded.
            is_run = (folder / "record.json").is_file()
            model = cls.load(str(name) if is_run else None, None if is_run else str(name), runtime)
        return model.to(device=target, dtype=weight_type).eval()

    @property
    def device(self) -> torch.device:
        """The `torch.device` of the model's weights."""
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """The `torch.dtype` of the model's weights."""
        return next(self.parameters()).dtype

    @check_arguments
    def predict(
        self,
        table: Any,  # noqa: ANN401 - see `Tables`
        question: str | Iterable[str],
        *,
        conversation: bool = False,
    ) -> TableAnswerResult | list[TableAnswerResult]:
        """Answer questions about a table, as `mate predict` does.

        If the table is too long, the model reads a selection of its rows for each question.

        Args:
            table: a single table, see `Tables`.
            question: a question or statement about the table, or several.
            conversation: whether each question depends on the answers to the previous questions.

        Returns:
            The result of a question, with its `answer`, the `cells` as (row, column) in `table`, and its `confidence`.
            A list of results if several questions are passed.

        Raises:
            DataError: the table cannot be read, or a question is no string.
            RunError: the network does not answer about tables.
        """
        questions = _as_questions(question)
        file = open_table(table) if isinstance(table, (str, Path)) else TableFile.from_table(_table(table))
        all_questions(questions, None)
        if not questions:
            return []
        inputs = OpenTables({file.path: file}, {file.path: questions}, {}, {})
        with keep_random_states():  # A DataLoader samples a seed for its workers.
            answers = answer_tables(inputs, lambda: self, conversation=conversation).answers
        return answers[0] if isinstance(question, str) else answers

    @check_arguments
    def read(self, question: str, passages: str | Iterable[str] = (), cell: str = "") -> TableAnswerResult:
        """Answer a question with a text span from a table cell or from its linked passages.

        Args:
            question: text of the question.
            passages: text of a passage, or several. Default: no passage.
            cell: text of the cell. Default: an empty cell.

        Returns:
            The result with the `answer` and its `confidence` from 0 to 1.

        Raises:
            DataError: the question is blank, or the passages and the cell are empty.
            RunError: the model is not a span reader (`task=span_reading`).
        """
        if self.task.spec.auto_class != "QuestionAnswering":
            problem = f"{type(self.task).__name__} does not read passages"
            raise RunError(problem, where=self.name, remedy="Use a model of task=span_reading")
        table = link_passages(passages, cell)
        if not question.strip() or not (cell or any(table.passages.values())):
            raise DataError("a question and a passage or a cell are needed", remedy="Write read(question, passages)")
        example = TableExample(repr(question), question, table)
        loader = self.parts.data.loader_encoded(self._encode([example]))
        with keep_random_states():
            (prediction,) = predict(self.task, loader, self.settings)
        (answer,) = self.task.answers([prediction], {example.example_id: example}).values()
        confidence = prediction.probability
        return TableAnswerResult("cell", question, table, (1,), 1, answer=answer, confidence=confidence)

    @check_arguments
    def batch(self, tables: Tables, questions: str | Iterable[str]) -> TableBatch:
        """Tokenize each question with its table, and collate all pairs to one padded batch.

        A single table is used for all questions, and a single question for all tables.

        Args:
            tables: one or more tables, see `Tables`.
            questions: one or more questions or statements.

        Returns:
            The batch, padded to its longest example, on the device of the weights.

        Raises:
            DataError: the numbers of questions and tables differ, or an example cannot be encoded.
        """
        (batch,) = self.batches(tables, questions, sys.maxsize)
        return batch

    def _encode(self, examples: Sequence[TableExample]) -> EncodedExamples:
        encodings = EncodedExamples(examples, self.parts.serializer)
        for name, reason in encodings.failures.items():
            raise DataError(f"cannot be encoded: {reason}", where=f"question {name}")
        return encodings

    @check_arguments
    def batches(self, tables: Tables, questions: str | Iterable[str], batch_size: int = 8) -> Iterator[TableBatch]:
        """Yield batches of tokenized questions and tables, in order.

        Args:
            tables: see `batch`.
            questions: see `batch`.
            batch_size: maximum number of questions per batch.

        Raises:
            ConfigError: `batch_size` is less than 1.
            DataError: see `batch`.
        """
        if batch_size < 1:
            raise ConfigError(f"is {batch_size}", where="batch_size", remedy="Use at least 1")
        examples, loading = _examples(tables, questions), self.parts.data.loading
        parts = (self._encode(examples[start : start + batch_size]) for start in range(0, len(examples), batch_size))
        batches = (loading.batch([part[index] for index in range(len(part))]) for part in parts)
        return (batch.to(self.device) for batch in batches)

    @check_arguments
    def forward(
        self,
        tables: Tables,
        questions: str | Iterable[str] = "",
        *,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
    ) -> EncodedTables:
        """Encode tables with their questions, and return the hidden states of all tokens.

        Instead of tables, a batch that `batch` has tokenized can be passed.

        Args:
            tables: a batch, or one or more tables, see `Tables`.
            questions: one or more questions about the tables. They are ignored if `tables` is a batch.
            output_hidden_states: also return the hidden states of every layer.
            output_attentions: also return attention weights, which need memory for all pairs of tokens.

        Raises:
            ConfigError: attention weights are requested, but the network has no attention weights for pairs of tokens.
            DataError: see `batch`.
        """
        batch = tables if isinstance(tables, TableBatch) else self.batch(tables, questions)
        batch = batch.to(self.device)
        output, states, weights = encode_with_layers(
            self.encoder, batch, hidden_states=output_hidden_states, attentions=output_attentions
        )
        return EncodedTables(output.states, output.pooled, output.batch, states, weights)


def find_device(device: torch.device | str | int | None) -> torch.device:
    """Convert a device name or index to a `torch.device`.

    None selects the CPU.

    Raises:
        ConfigError: the device does not exist.
    """
    try:
        return torch.empty(0, device="cpu" if device is None else device).device
    except (AssertionError, RuntimeError) as error:  # torch raises no specific error class.
        raise ConfigError(f"{device!r} is not available", where="device", remedy="Use cpu") from error


_HARDWARE = Hardware(accelerator="cpu", precision="32-true", micro_batch=8, workers=0, threads=None)


def find_dtype(dtype: torch.dtype | str | None) -> torch.dtype | None:
    """Convert a name such as "bfloat16" to a `torch.dtype`.

    None selects float32.

    Raises:
        ConfigError: the data type is no floating-point type.
    """
    if dtype is None:
        return None
    torch_dtype = getattr(torch, dtype.removeprefix("torch."), None) if isinstance(dtype, str) else dtype
    if isinstance(torch_dtype, torch.dtype) and torch_dtype.is_floating_point:
        return torch_dtype
    raise ConfigError(f"{dtype!r} is not a type of weights", where="dtype", remedy="Use float32, bfloat16 or float16")


def link_passages(passages: str | Iterable[str], cell: str = "") -> Table:
    """Build a table with one cell that links to text passages, as input of a span reader."""
    texts = [passages] if isinstance(passages, str) else passages
    by_id = {str(index): text for index, text in enumerate(texts)}
    return Table("cell", (Cell(""),), ((Cell(cell, tuple(by_id)),),), passages=by_id)


def _as_questions(questions: str | Iterable[str]) -> list[str]:
    """Convert a question or a sequence of questions to a list of questions.

    Raises:
        DataError: a question is no string.
    """
    texts = [questions] if isinstance(questions, str) else list(questions)
    if not all(isinstance(text, str) for text in texts):
        raise DataError(f"{questions!r} is not a question", remedy="Give a text, or a list of texts")
    return texts


def _examples(tables: Tables, questions: str | Iterable[str]) -> list[TableExample]:
    texts = _as_questions(questions)
    sources = list(tables) if isinstance(tables, (list, tuple)) else [tables]
    count = max(len(texts), len(sources))
    if not sources or {len(texts), len(sources)} - {1, count}:
        raise DataError(f"{len(sources)} tables and {len(texts)} questions", remedy="Give one question for each table")
    table_of = {id(source): _table(source) for source in sources}  # Each table object is converted once.
    pairs = zip(sources * (count // len(sources)), texts * (count // len(texts)), strict=True)
    return [TableExample(str(number), text, table_of[id(source)]) for number, (source, text) in enumerate(pairs)]


def _table(source: Any) -> Table:  # noqa: ANN401 - see `Tables`
    if isinstance(source, Table):
        return source
    if isinstance(source, (str, Path)):
        return read_table(source)[0]
    if isinstance(source, Mapping):
        import pandas  # type: ignore[import-untyped]

        try:
            source = pandas.DataFrame(source)
        except ValueError as error:
            raise DataError(f"this mapping is not a table: {error}", remedy="Give a list for each column") from error
    if hasattr(source, "columns"):
        return Table.from_pandas(source)
    hint = "Give a Table, a data frame, or the path of a file"
    raise DataError(f"{type(source).__name__} is not a table", remedy=hint)
