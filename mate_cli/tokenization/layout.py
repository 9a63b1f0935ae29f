"""Input arrays of all networks, and the names of their axes.

Axis letters, the same in the whole package: B batch, T tokens, N heads, H head size, D model, R rows, C columns,
S segments, K candidates, G global tokens.

Row 0 is the question, the header row and padding. Column 0 is the question and padding. Global tokens are
the tokens of segment 0 except padding: [CLS], the question and [SEP] (never the header row).

Source: google-research/tapas, `table_bert.get_token_type_features` and `attention_utils`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Annotated, Any, Generic, TypeVar, get_type_hints

import numpy as np
import torch

from mate_cli.tokenization.packing import BatchPlan, Packing, find_packing
from mate_cli.tokenization.tensor_buffer import TensorBuffer, move_tensors, pack_tensors

ArrayT = TypeVar("ArrayT")
NumberT = TypeVar("NumberT")


@dataclass(frozen=True)
class Array:
    """Declaration of an array of `TableEncoding`: its axes, dtype and padding value.

    Args:
        axes: axes of one example: T tokens, S cells of tokens, F features, another letter, or a fixed size. Empty for
            a scalar.
        dtype: dtype in the cache. Types other than float32 become int64 in a batch.
        fill: value of padding, and of an unknown scalar.
        vocabulary: number of values of a token type, or 0 for other arrays.
        name: name of an array that a serializer adds, see `Serializer.arrays`. Empty for fields of `Arrays`.
    """

    axes: tuple[str | int, ...]
    dtype: str
    # Excluded from comparison, because the NaN of another process is not equal.
    fill: float = field(default=0, compare=False)
    vocabulary: int = 0
    name: str = ""

    @cached_property
    def is_float(self) -> bool:
        """True if the array is float32, in the cache and in a batch."""
        return self.dtype == "float32"

    @property
    def is_of_tokens(self) -> bool:
        """True if a batch contains this array with one value per token.

        Its first axis is T, or S (cells of tokens).
        """
        return self.axes[:1] in (("T",), ("S",))


def declared_arrays(kind: type) -> dict[str, Array]:
    """Return the `Array` declarations in the `Annotated` type hints of a class, by field name."""
    hints = get_type_hints(kind, include_extras=True)
    noted = ((name, note) for name, hint in hints.items() for note in getattr(hint, "__metadata__", ()))
    return {name: note for name, note in noted if isinstance(note, Array)}


@dataclass(frozen=True)
class Arrays(Generic[ArrayT, NumberT]):
    """Arrays that `TableEncoding` and `TableBatch` have in common, each declared once.

    An encoding has NumPy arrays without padding, and scalars. A batch has tensors with a leading axis B.
    None means that the value is unknown for the encoding, or for all examples of the batch.

    Args:
        input_ids: vocabulary ids of the tokens [T].
        label_ids: 1 on every token of an answer cell (cell selection) or of the answer span (span reading). In masked
            language modelling, the original token id on masked tokens and 0 on all other tokens.
        cell_features: features of each of `TableEncoding.cells` [S, F]. In a batch, features of each token's cell
            [B, T, F].
        numeric_values: number in the body cell of each token [T], or NaN for a cell without a number.
        answer_numbers: numeric answer of the example. In a batch NaN if the answer is not a number.
        aggregation_ids: index of the aggregation of the example. In a batch -1 if it is unknown.
        class_ids: label of a statement. In a batch -1 if it is unknown.
    """

    input_ids: Annotated[ArrayT, Array(("T",), "int32")]
    segment_ids: Annotated[ArrayT, Array(("T",), "int16", vocabulary=3)]
    column_ids: Annotated[ArrayT, Array(("T",), "int16", vocabulary=256)]
    row_ids: Annotated[ArrayT, Array(("T",), "int16", vocabulary=256)]
    previous_labels: Annotated[ArrayT, Array(("T",), "int16", vocabulary=2)]
    column_ranks: Annotated[ArrayT, Array(("T",), "int16", vocabulary=256)]
    inverse_column_ranks: Annotated[ArrayT, Array(("T",), "int16", vocabulary=256)]
    numeric_relations: Annotated[ArrayT, Array(("T",), "int16", vocabulary=10)]
    label_ids: Annotated[ArrayT | None, Array(("T",), "int32")] = None
    cell_features: Annotated[ArrayT | None, Array(("S", "F"), "float32")] = None
    numeric_values: Annotated[ArrayT | None, Array(("T",), "float32", fill=math.nan)] = None
    answer_numbers: Annotated[NumberT | None, Array((), "float32", fill=math.nan)] = None
    aggregation_ids: Annotated[NumberT | None, Array((), "int8", fill=-1)] = None
    class_ids: Annotated[NumberT | None, Array((), "int8", fill=-1)] = None


SHARED_ARRAYS = declared_arrays(Arrays)
"""The arrays that encodings and batches share, by name."""

TOKEN_TYPES: dict[str, int] = {name: array.vocabulary for name, array in SHARED_ARRAYS.items() if array.vocabulary}
"""The seven token types in the order of their embedding tables, each with its vocabulary size."""

SUMMARY_ROW = TOKEN_TYPES["row_ids"]
"""Row id of tokens that summarize whole columns, above the ids of table rows. Such tokens can be attended to, but have
no row embedding and cannot be selected."""

ARRAYS = ("input_ids", *TOKEN_TYPES, "label_ids")
"""Per-token arrays that a serializer fills."""


@dataclass(frozen=True, kw_only=True)
class TableEncoding(Arrays[np.ndarray, float]):
    """One encoded example: a question and a table as integer arrays, without padding.

    Args:
        example_id: id of the example, which joins predictions to questions.
        cut: counts of truncated parts of the table [4], see `truncation.TRUNCATION_COUNTS`. None if not counted.
        uncut_tokens: number of tokens without truncation, except of rows beyond the last row id. 0 if not counted.
        more: arrays that the serializer adds, see `Serializer.arrays`.
    """

    example_id: str
    cut: Annotated[np.ndarray | None, Array((4,), "int32")] = None
    uncut_tokens: Annotated[int, Array((), "int32")] = 0
    more: Mapping[Array, np.ndarray | float] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.input_ids)

    @property
    def cells(self) -> np.ndarray:
        """Cell index of each token [T]. Cells are numbered in their order in the encoding. The question is cell 0."""
        return cell_numbers(self.row_ids, self.column_ids)

    @property
    def kinds(self) -> list[str]:
        """Type of each token: "question", "header", "body" or "counts".

        Tokens before the table are "question", and value counts of columns are "counts".
        """
        pairs = zip(self.segment_ids.tolist(), self.row_ids.tolist(), strict=True)
        kinds = {0: "header", SUMMARY_ROW: "counts"}
        return ["question" if segment == 0 else kinds.get(row, "body") for segment, row in pairs]


class TokenArrays:
    """The arrays of one encoding while a serializer fills them. All values are 0 at first.

    Args:
        tokens: number of tokens, T.
    """

    def __init__(self, tokens: int) -> None:
        self._values: dict[str, Any] = dict(zip(ARRAYS, np.zeros((len(ARRAYS), tokens), np.int32), strict=True))

    def __getitem__(self, name: str) -> np.ndarray:
        value: np.ndarray = self._values[name]
        return value

    def fill(self, start: int = 0, end: int | None = None, **values: np.ndarray | int) -> None:
        """Write values into the arrays for the tokens from `start` to `end`.

        Args:
            start: first token of the slice.
            end: token after the slice. None means the end.
            values: value of each array to set, by name.
        """
        for name, value in values.items():
            self._values[name][start:end] = value

    def encoding(self, example_id: str, **extra_fields: Any) -> TableEncoding:
        """Finish the encoding: return the filled arrays as a `TableEncoding`.

        Args:
            example_id: id of the example.
            extra_fields: further fields of `TableEncoding`.
        """
        return TableEncoding(example_id=example_id, **self._values, **extra_fields)


def cell_numbers(row_ids: np.ndarray, column_ids: np.ndarray) -> np.ndarray:
    """Return the cell number of each token, int64 [T].

    Cells are runs of tokens with equal row and column, counted from 0.
    """
    numbers = np.zeros(len(row_ids), np.int64)
    numbers[1:] = ((row_ids[1:] != row_ids[:-1]) | (column_ids[1:] != column_ids[:-1])).cumsum()
    return numbers


@dataclass(frozen=True, kw_only=True)
class TableBatch(Arrays["torch.Tensor", "torch.Tensor"]):
    """Batch of examples, padded at the end. All tensors except float32 tensors are int64.

    Args:
        position_ids: absolute positions, or positions that restart at 0 in every cell (`cell_position_ids`), [B, T].
        attention_mask: 1 on real tokens, 0 on padding, [B, T].
        word_states: input states that replace the embeddings of `input_ids`, [B, T, D]. None uses the embeddings.
        example_ids: ids of the B examples. Empty if not needed.
        plan: packing and results that attention computed in the data worker. None: they are computed on demand.
        places: index of each token in the encoding of its example [B, T]. None if no tokens were removed or moved.
        more: arrays that the serializer adds, see `Serializer.arrays`, if at least one of these examples has them.
        is_filler: whether the loss of the batch is ignored.
        step_counts: by name, the number of loss terms of the optimizer step per micro-batch, see
            `TableTask.count_terms`. Empty if the batch is a whole step.
    """

    position_ids: torch.Tensor
    attention_mask: torch.Tensor
    word_states: torch.Tensor | None = None
    example_ids: tuple[str, ...] = ()
    plan: BatchPlan | None = None
    places: torch.Tensor | None = None
    more: Mapping[Array, torch.Tensor] = field(default_factory=dict)
    is_filler: bool = False
    step_counts: Mapping[str, float] = field(default_factory=dict)

    @property
    def packing(self) -> Packing:
        """Positions of the real tokens, which remove the padding (`pack`) and restore it as zeros (`unpack`)."""
        return find_packing(self.attention_mask) if self.plan is None else self.plan.packing

    @property
    def in_body(self) -> torch.Tensor:
        """Mask of the tokens in body cells of the table, Bool [B, T]."""
        in_row = (self.row_ids > 0) & (self.row_ids < SUMMARY_ROW)
        return in_row & (self.column_ids > 0) & (self.attention_mask == 1)

    def keep(self, tokens: torch.Tensor) -> TableBatch:
        """Return a batch with a subset of the tokens of each example.

        Args:
            tokens: indices of the tokens, in the new order, Int64 [B, K]. Padding may be included.
        """
        fields: dict[str, Any] = {"places": tokens}
        scalar_names = {name for name, array in SHARED_ARRAYS.items() if not array.is_of_tokens}
        tensors = self.tensors().items()
        fields |= {name: gather_tokens(tensor, tokens) for name, tensor in tensors if name not in scalar_names}
        fields["more"] = {a: gather_tokens(x, tokens) if a.is_of_tokens else x for a, x in self.more.items()}
        return replace(self, **fields, plan=None)

    def find_places(self, tokens: torch.Tensor) -> torch.Tensor:
        """Map token indices in this batch to token indices in the unpruned encodings.

        There is one token per example. The indices differ if tokens were pruned or moved, see `places`.

        Args:
            tokens: index in this batch of one token per example, Int64 [B].

        Returns:
            Int64 [B].
        """
        return tokens if self.places is None else self.places.gather(1, tokens[:, None]).squeeze(1)

    def tensors(self) -> Mapping[str, torch.Tensor]:
        """Return the tensor fields by name, without fields that are None."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in values.items() if hasattr(value, "device")}

    def to(self, device: torch.device | str, *, non_blocking: bool | None = None) -> TableBatch:
        """Move all tensors of the batch to a device in one copy.

        Args:
            device: target device.
            non_blocking: whether the copy may overlap with computation. None means if the memory is pinned.
        """
        if self.input_ids.device == torch.device(device):
            return self
        pinned = self.input_ids.is_pinned() if non_blocking is None else non_blocking
        return self._apply(lambda buffer: buffer.to(device, non_blocking=pinned))

    def pin_memory(self) -> TableBatch:
        """Pin all tensors, which lets copies to a GPU overlap with computation."""
        return self._apply(lambda buffer: buffer.pin_memory())

    def __getstate__(self) -> TensorBuffer:
        """Pack all tensors into one buffer for pickling.

        Between processes every tensor costs a file descriptor, and an attention plan has hundreds of tensors.
        """
        return pack_tensors(vars(self))

    def __setstate__(self, state: TensorBuffer) -> None:
        vars(self).update(state.unpack())

    def _apply(self, move: Callable[[torch.Tensor], torch.Tensor]) -> TableBatch:
        return replace(self, **move_tensors(vars(self), move))


def gather_tokens(values: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Gather the values of K tokens of each example along the token axis.

    Args:
        values: values of all tokens, [B, T, ...].
        tokens: indices of the tokens to gather, Int64 [B, K].

    Returns:
        [B, K, ...].
    """
    index = tokens.view(*tokens.shape, *(1 for _ in values.shape[2:]))
    return values.gather(1, index.expand(*tokens.shape, *values.shape[2:]))


def cell_position_ids(row_ids: torch.Tensor, column_ids: torch.Tensor, max_positions: int) -> torch.Tensor:
    """Return the position of each token within its cell, counted from 0, [B, T].

    The question, [CLS] and padding form one cell.

    Args:
        row_ids: row id of each token, [B, T].
        column_ids: column id of each token, [B, T].
        max_positions: number of positions. Larger positions become `max_positions - 1`.

    Returns:
        The distance of each token from the first token of its cell, [B, T].

    Source: google-research/tapas, `models/bert/modeling.py` (`reset_position_index_per_cell`).
    """
    cells = row_ids * (column_ids.max() + 1) + column_ids if column_ids.numel() else row_ids
    positions = make_position_ids(row_ids, column_ids, max_positions, restart=False)
    first = positions.new_full((row_ids.shape[0], int(cells.max()) + 1 if cells.numel() else 1), row_ids.shape[1])
    first.scatter_reduce_(1, cells, positions, "amin")
    return (positions - first.gather(1, cells)).clamp(max=max_positions - 1)


def make_position_ids(
    row_ids: torch.Tensor, column_ids: torch.Tensor, max_positions: int, *, restart: bool
) -> torch.Tensor:
    """Compute the position id of each token, [B, T].

    Args:
        row_ids: row id of each token, [B, T].
        column_ids: column id of each token, [B, T].
        max_positions: see `cell_position_ids`. It does not limit positions that count from the first token.
        restart: whether positions restart in every cell. Otherwise they count all tokens from 0.
    """
    if restart:
        return cell_position_ids(row_ids, column_ids, max_positions)
    return torch.arange(row_ids.shape[1], device=row_ids.device).expand_as(row_ids)


def renumber_positions(batch: TableBatch, tokens: torch.Tensor, max_positions: int) -> TableBatch:
    """Return a batch with a subset of its tokens and with positions computed from this subset.

    If the positions of `batch` restart in every cell, the new positions restart at the first kept token of each cell.
    Otherwise they count the kept tokens from 0.

    Args:
        batch: batch of T tokens.
        tokens: indices of the tokens to keep in ascending order, Int64 [B, K].
        max_positions: number of positions. Larger positions become `max_positions - 1`.
    """
    pruned = batch.keep(tokens)
    all_positions = torch.arange(batch.input_ids.shape[1], device=tokens.device)
    restart = not bool((batch.position_ids == all_positions).all())
    positions = make_position_ids(pruned.row_ids, pruned.column_ids, max_positions, restart=restart)
    return replace(pruned, position_ids=positions)
