"""The arrays that every network reads, and the legend of their axes.

Axes, the same letters everywhere: B batch, T tokens, N heads, H head size, D model, R rows, C columns,
S segments, K candidates, G global tokens.

Row 0 is the question, the header row and padding; column 0 is the question and padding. Global tokens are
those of segment 0 that are not padding: [CLS], the question and [SEP] (never the header row).
Source: google-research/tapas, `table_bert.get_token_type_features` and `attention_utils`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar, get_type_hints

import numpy as np
import torch

from mate_cli.tokenization.tensor_buffer import move_tensors, pack_tensors

if TYPE_CHECKING:
    import torch

ArrayT = TypeVar("ArrayT")
NumberT = TypeVar("NumberT")


@dataclass(frozen=True)
class Array:
    """An array of encodings: serializers fill it, files keep it, and batches pad it.

    Args:
        axes: of one example: T tokens, S cells of tokens, F features, other letters, or a size; none for a number.
        dtype: in files; what is no float is int64 in a batch.
        fill: on padding, and for a number that is not known.
        vocabulary: of a token type, how many values there are.
        name: of one that a serializer adds, see `Serializer.arrays`; others are called like their fields.
    """

    axes: tuple[str | int, ...]
    dtype: str
    fill: float = field(default=0, compare=False)  # NaN is not equal to that of another process
    vocabulary: int = 0
    name: str = ""

    @property
    def is_float(self) -> bool:
        """True if it holds float32, also in a batch."""
        return self.dtype == "float32"

    @property
    def is_of_tokens(self) -> bool:
        """True if a batch has values for each token."""
        return self.axes[:1] in (("T",), ("S",))


def declared_arrays(kind: type) -> dict[str, Array]:
    """Return the arrays that a class of encodings declares by the annotations of its fields, in their order."""
    hints = get_type_hints(kind, include_extras=True)
    noted = ((name, note) for name, hint in hints.items() for note in getattr(hint, "__metadata__", ()))
    return {name: note for name, note in noted if isinstance(note, Array)}


@dataclass(frozen=True)
class Arrays(Generic[ArrayT, NumberT]):
    """Arrays that encodings and batches have in common, each declared once.

    An encoding has arrays of numpy without padding, and numbers. A batch has tensors, with B in front of the axes.
    None is what nobody knows of an encoding, or of all examples of a batch.

    Args:
        input_ids: word pieces [T].
        label_ids: 1 on every token of an answer cell (cell selection) or of the answer span (span reading); of masked
            examples the word piece that was there, 0 where none is masked.
        cell_features: what else is known of each of `TableEncoding.cells` [S, F], in a batch of each token's cell
            [B, T, F].
        numeric_values: of each token, the number that its body cell is read as [T]; NaN where it is none.
        answer_numbers: the answer of an example as one number, in a batch NaN where it is none.
        aggregation_ids: of an example's aggregation, in a batch -1 where it is not known.
        class_ids: of a statement's label, in a batch -1 where it is not known.
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
"""The row id of what is said of whole columns: beyond those of a table's rows, so that it can be attended to, but has
no embedding and cannot be selected."""

ARRAYS = ("input_ids", *TOKEN_TYPES, "label_ids")
"""What a serializer lays out for each token."""


@dataclass(frozen=True)
class TableEncoding(Arrays[np.ndarray, float]):
    """One example as integer arrays, without padding.

    Args:
        example_id: the example's name, to join predictions to questions.
        cut: how much of the table was left out [4], see `truncation.TRUNCATION_COUNTS`; None where nobody counted.
        uncut_tokens: how many there would be if nothing were cut but rows beyond the last id; 0 where nobody counted.
        more: what a serializer adds, see `Serializer.arrays`.
    """

    _: KW_ONLY
    example_id: str
    cut: Annotated[np.ndarray | None, Array((4,), "int32")] = None
    uncut_tokens: Annotated[int, Array((), "int32")] = 0
    more: Mapping[Array, np.ndarray | float] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.input_ids)

    @property
    def cells(self) -> np.ndarray:
        """Number of the cell of each token, in order of appearance; the question comes first, as 0."""
        return cell_numbers(self.row_ids, self.column_ids)

    @property
    def kinds(self) -> list[str]:
        """Kind of each token: "question" (all before the table), "header", "body", or "counts" of a column's values."""
        pairs = zip(self.segment_ids.tolist(), self.row_ids.tolist(), strict=True)
        kinds = {0: "header", SUMMARY_ROW: "counts"}
        return ["question" if segment == 0 else kinds.get(row, "body") for segment, row in pairs]


class TokenArrays:
    """The arrays of an encoding while it is laid out; zero where nothing is filled in."""

    def __init__(self, tokens: int) -> None:
        self._values: dict[str, Any] = dict(zip(ARRAYS, np.zeros((len(ARRAYS), tokens), np.int32), strict=True))

    def __getitem__(self, name: str) -> np.ndarray:
        value: np.ndarray = self._values[name]
        return value

    def fill(self, start: int = 0, end: int | None = None, **values: np.ndarray | int) -> None:
        """Set arrays by name, from one token on and up to another one, not included."""
        for name, value in values.items():
            self._values[name][start:end] = value

    def encoding(self, example_id: str, **known: Any) -> TableEncoding:
        """Return the encoding with these arrays and what else is known of it."""
        return TableEncoding(example_id=example_id, **self._values, **known)


def cell_numbers(row_ids: np.ndarray, column_ids: np.ndarray) -> np.ndarray:
    """Give runs of tokens [T] that share a row and a column numbers, from 0."""
    numbers = np.zeros(len(row_ids), np.int64)
    numbers[1:] = ((row_ids[1:] != row_ids[:-1]) | (column_ids[1:] != column_ids[:-1])).cumsum()
    return numbers


@dataclass(frozen=True)
class TableBatch(Arrays["torch.Tensor", "torch.Tensor"]):
    """Many examples, padded at the end; all but floats are int64 tensors.

    Args:
        position_ids: absolute, or restarting at 0 in every cell (`cell_position_ids`), [B, T].
        attention_mask: 1 on real tokens, 0 on padding, [B, T].
        word_states: states in place of those that the network has for `input_ids`, [B, T, D]; None for none.
        example_ids: B names; empty when they are not needed.
        prepared: what attention derived from this batch ahead of time, by name; tensors, tuples and dataclasses.
        places: of each token, where it stands in its example's encoding [B, T]; None where all stand where they did.
        more: what a serializer adds, see `Serializer.arrays`, as far as any of these examples has it.
        is_filler: the loss of the batch does not count.
        step_counts: by name, the number of loss terms of the optimizer step per micro-batch, see
            `TableTask.count_terms`. Empty if the batch is a whole step.
    """

    _: KW_ONLY
    position_ids: torch.Tensor
    attention_mask: torch.Tensor
    word_states: torch.Tensor | None = None
    example_ids: tuple[str, ...] = ()
    prepared: Mapping[Hashable, object] = field(default_factory=dict)
    places: torch.Tensor | None = None
    more: Mapping[Array, torch.Tensor] = field(default_factory=dict)
    is_filler: bool = False
    step_counts: Mapping[str, float] = field(default_factory=dict)

    @property
    def in_body(self) -> torch.Tensor:
        """Tokens that are in body cells of the table, Bool [B, T]."""
        in_row = (self.row_ids > 0) & (self.row_ids < SUMMARY_ROW)
        return in_row & (self.column_ids > 0) & (self.attention_mask == 1)

    def keep(self, tokens: torch.Tensor) -> TableBatch:
        """Return the same examples with some of their tokens.

        Args:
            tokens: which of them and in what order, Int64 [B, K]; padding may be among them.
        """
        fields: dict[str, Any] = {"places": tokens}
        others = {name for name, array in SHARED_ARRAYS.items() if not array.is_of_tokens}
        fields |= {name: gather_tokens(each, tokens) for name, each in self.tensors().items() if name not in others}
        more = self.more.items()
        fields["more"] = {array: gather_tokens(each, tokens) if array.is_of_tokens else each for array, each in more}
        return replace(self, **fields, prepared={})

    def find_places(self, tokens: torch.Tensor) -> torch.Tensor:
        """Find the place in its encoding of one token of each example [B], Int64 [B]."""
        return tokens if self.places is None else self.places.gather(1, tokens[:, None]).squeeze(1)

    def tensors(self) -> Mapping[str, torch.Tensor]:
        """Return the tensor fields by name, leaving out those that are None."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in values.items() if hasattr(value, "device")}

    def to(self, device: torch.device | str, *, non_blocking: bool | None = None) -> TableBatch:
        """Move every tensor in one copy; that of pinned memory to a GPU overlaps with work."""
        import torch

        if self.input_ids.device == torch.device(device):
            return self
        pinned = self.input_ids.is_pinned() if non_blocking is None else non_blocking
        return self._moved(lambda buffer: buffer.to(device, non_blocking=pinned))

    def pin_memory(self) -> TableBatch:
        """Pin every tensor, so that copies to a GPU overlap with work."""
        return self._moved(lambda buffer: buffer.pin_memory())

    def __getstate__(self) -> dict[str, Any]:
        """Pack all tensors: between processes each costs a file descriptor, and a plan has hundreds."""
        names, content = self._content()
        fields = {name: value for name, value in vars(self).items() if name not in (*names[0], "more", "prepared")}
        return {"fields": fields, "names": names, "packed": pack_tensors(content)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state["fields"], **_name_fields(state["names"], state["packed"].unpack()))

    def _moved(self, move: Callable[[torch.Tensor], torch.Tensor]) -> TableBatch:
        names, content = self._content()
        return replace(self, **_name_fields(names, move_tensors(content, move)))

    def _content(self) -> tuple[Sequence[tuple[Any, ...]], tuple[Any, ...]]:
        """List all that has tensors in it, the fields, `more` and what is prepared, each behind its name."""
        parts = self.tensors(), self.more, self.prepared
        return [tuple(part) for part in parts], tuple(value for part in parts for value in part.values())


def _name_fields(names: Sequence[tuple[Any, ...]], content: tuple[Any, ...]) -> dict[str, Any]:
    """Return the fields of a batch that has this content."""
    values = iter(content)
    known, more, prepared = ({name: next(values) for name in part} for part in names)
    return {**known, "more": more, "prepared": prepared}


def gather_tokens(values: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Gather the values of some tokens [B, K] from those of all: [B, T, ...] to [B, K, ...]."""
    index = tokens.view(*tokens.shape, *(1 for _ in values.shape[2:]))
    return values.gather(1, index.expand(*tokens.shape, *values.shape[2:]))


def cell_position_ids(row_ids: torch.Tensor, column_ids: torch.Tensor, max_positions: int) -> torch.Tensor:
    """Count the tokens of each cell from 0; the question, [CLS] and padding are one cell.

    Args:
        row_ids: [B, T].
        column_ids: [B, T].
        max_positions: larger positions become `max_positions - 1`.

    Returns:
        The distance of each token from the first token of its cell, [B, T].

    Source: google-research/tapas, `models/bert/modeling.py` (`reset_position_index_per_cell`).
    """
    cells = row_ids * (column_ids.max() + 1) + column_ids if column_ids.numel() else row_ids
    places = torch.arange(row_ids.shape[1], device=row_ids.device).expand_as(row_ids)
    first = places.new_full((row_ids.shape[0], int(cells.max()) + 1 if cells.numel() else 1), row_ids.shape[1])
    first.scatter_reduce_(1, cells, places, "amin")
    return (places - first.gather(1, cells)).clamp(max=max_positions - 1)


def renumber_positions(batch: TableBatch, tokens: torch.Tensor, max_positions: int) -> TableBatch:
    """Return the batch with some of its tokens, and positions as if the others had never been there.

    They restart at the first kept token of each cell where those of the whole batch restart, and count from 0 else.

    Args:
        batch: of T tokens.
        tokens: those that are kept, Int64 [B, K], in ascending order.
        max_positions: larger positions become `max_positions - 1`.
    """
    short = batch.keep(tokens)
    whole = torch.arange(batch.input_ids.shape[1], device=tokens.device)
    if bool((batch.position_ids == whole).all()):
        places = whole[: tokens.shape[1]].expand_as(tokens)
    else:
        places = cell_position_ids(short.row_ids, short.column_ids, max_positions)
    return replace(short, position_ids=places)
