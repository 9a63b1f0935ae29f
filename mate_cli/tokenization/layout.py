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
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mate_cli.tokenization.tensor_buffer import move_tensors, pack_tensors

if TYPE_CHECKING:
    import torch

TOKEN_TYPES: dict[str, int] = {
    "segment_ids": 3,
    "column_ids": 256,
    "row_ids": 256,
    "previous_labels": 2,
    "column_ranks": 256,
    "inverse_column_ranks": 256,
    "numeric_relations": 10,
}
"""The seven token types in the order of their embedding tables, each with its vocabulary size."""

SUMMARY_ROW = TOKEN_TYPES["row_ids"]
"""The row id of what is said of whole columns: beyond those of a table's rows, so that it can be attended to, but has
no embedding and cannot be selected."""


ARRAYS = ("input_ids", *TOKEN_TYPES, "label_ids")
"""What every encoding has for each token."""

OF_NODES = ("relations", "node_cells", "node_kinds", "node_tables", "actions")
"""What an encoding may have for its nodes, or for the actions of a query, in place of tokens."""

WORD, COLUMN, TABLE = 1, 2, 3
"""What a node of a schema's encoding is: a word of the question, a column, a table; 0 where there is no node."""


@dataclass(frozen=True, slots=True)
class TableEncoding:
    """One example as flat integer arrays [T], without padding.

    Args:
        input_ids: word pieces.
        label_ids: 1 on every token of an answer cell (cell selection) or of the answer span (span reading); of masked
            examples the word piece that was there, 0 where none is masked.
        example_id: the example's name, to join predictions to questions.
        cell_features: what else is known of each of `cells`, float32 [S, F]; None where words are all.
        numeric_values: of each token, the number that its body cell is read as, float32 [T]; NaN where it is none.
        answer_number: the answer as one number; NaN where it is none.
        aggregation_id: of the answer's aggregation, -1 where it is not known.
        class_id: of a statement's label, -1 where it is not known.
        cut: how much of the table was left out, int32 [4], see `truncation.CUTS`; None where nobody counted.
        uncut_tokens: how many there would be if nothing were cut but rows beyond the last id; 0 where nobody counted.
        relations: of texts that are read side by side, the nodes of a graph, which row ids number from 1: how node i,
            which asks, relates to node j, which is asked, uint8 [K, K], None where nobody says. Of evidence 0 is not at
            all; of a schema all nodes relate, and the kinds are those of `schema.relations.RELATIONS`, from 0.
        node_cells: the body cell that each node is of, (row, column) from 0, int16 [K, 2].
        sentence_ids: of each token of a node's own text, the number of its sentence from 1; 0 elsewhere, int16 [T].
        node_kinds: what each node is, `WORD`, `COLUMN` or `TABLE`, int16 [K]. The pieces of a node lie side by side,
            but those of tables in front of those of columns, whose nodes come first.
        node_tables: of each column's node, the place of its table's node, from 0; -1 of other nodes, int16 [K].
        actions: how the query is made, int16 [A, 5], see `schema.serializer.action_rows`.
    """

    example_id: str
    input_ids: np.ndarray
    segment_ids: np.ndarray
    column_ids: np.ndarray
    row_ids: np.ndarray
    previous_labels: np.ndarray
    column_ranks: np.ndarray
    inverse_column_ranks: np.ndarray
    numeric_relations: np.ndarray
    label_ids: np.ndarray
    cell_features: np.ndarray | None = None
    numeric_values: np.ndarray | None = None
    answer_number: float = math.nan
    aggregation_id: int = -1
    class_id: int = -1
    cut: np.ndarray | None = None
    uncut_tokens: int = 0
    relations: np.ndarray | None = None
    node_cells: np.ndarray | None = None
    sentence_ids: np.ndarray | None = None
    node_kinds: np.ndarray | None = None
    node_tables: np.ndarray | None = None
    actions: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.input_ids)

    @property
    def cells(self) -> np.ndarray:
        """Of each token, the number of its cell, in order of appearance; the question comes first, as 0."""
        return cell_numbers(self.row_ids, self.column_ids)

    @property
    def kinds(self) -> list[str]:
        """Of each token: "question" (all before the table), "header", "body", or "counts" of a column's values."""
        pairs = zip(self.segment_ids.tolist(), self.row_ids.tolist(), strict=True)
        return ["question" if segment == 0 else _kind_of_row(row) for segment, row in pairs]


class TokenArrays:
    """The arrays of an encoding while it is laid out; zero where nothing is filled in."""

    def __init__(self, tokens: int) -> None:
        self._values: dict[str, Any] = dict(zip(ARRAYS, np.zeros((len(ARRAYS), tokens), np.int32), strict=True))

    def __getitem__(self, name: str) -> np.ndarray:
        found: np.ndarray = self._values[name]
        return found

    def fill(self, start: int = 0, end: int | None = None, **values: np.ndarray | int) -> None:
        """Set arrays by name, from one token on and up to another one, not included."""
        for name, value in values.items():
            self._values[name][start:end] = value

    def encoding(self, example_id: str, **known: Any) -> TableEncoding:
        """The encoding with these arrays and what else is known of it."""
        return TableEncoding(example_id, **self._values, **known)


def _kind_of_row(row: int) -> str:
    return "header" if row == 0 else "body" if row < SUMMARY_ROW else "counts"


def cell_numbers(row_ids: np.ndarray, column_ids: np.ndarray) -> np.ndarray:
    """Number runs of tokens [T] that share a row and a column, from 0."""
    numbers = np.zeros(len(row_ids), np.int64)
    numbers[1:] = ((row_ids[1:] != row_ids[:-1]) | (column_ids[1:] != column_ids[:-1])).cumsum()
    return numbers


@dataclass(frozen=True)
class TableBatch:
    """Many examples, padded at the end: where nothing else is said, a field is an int64 tensor [B, T].

    Args:
        position_ids: absolute, or restarting at 0 in every cell (`cell_position_ids`).
        attention_mask: 1 on real tokens, 0 on padding.
        label_ids: as in `TableEncoding`; None when the answers are not known.
        example_ids: B names; empty when they are not needed.
        prepared: what attention derived from this batch ahead of time, by name; tensors, tuples and dataclasses.
        cell_features: those of each token's cell, float32 [B, T, F].
        numeric_values: as in `TableEncoding`, float32 [B, T]; NaN on padding.
        answer_numbers: float32 [B], NaN where the answer is no number.
        aggregation_ids: [B], -1 where not known.
        class_ids: [B], -1 where not known.
        places: of each token, where it stands in its example's encoding; None where all stand where they did.
        relations: [B, K, K], 0 where there is no node; None: every node to every other.

    As in `TableEncoding` are also `relations`, `sentence_ids`, `node_kinds` [B, K], 0 where there is no node, and
    `node_cells` [B, K, 2], `node_tables` [B, K] and `actions` [B, A, 5], -1 where there is none.
    """

    input_ids: torch.Tensor
    segment_ids: torch.Tensor
    column_ids: torch.Tensor
    row_ids: torch.Tensor
    previous_labels: torch.Tensor
    column_ranks: torch.Tensor
    inverse_column_ranks: torch.Tensor
    numeric_relations: torch.Tensor
    position_ids: torch.Tensor
    attention_mask: torch.Tensor
    label_ids: torch.Tensor | None = None
    example_ids: tuple[str, ...] = ()
    prepared: Mapping[Hashable, object] = field(default_factory=dict)
    cell_features: torch.Tensor | None = None
    numeric_values: torch.Tensor | None = None
    answer_numbers: torch.Tensor | None = None
    aggregation_ids: torch.Tensor | None = None
    class_ids: torch.Tensor | None = None
    places: torch.Tensor | None = None
    relations: torch.Tensor | None = None
    node_cells: torch.Tensor | None = None
    sentence_ids: torch.Tensor | None = None
    node_kinds: torch.Tensor | None = None
    node_tables: torch.Tensor | None = None
    actions: torch.Tensor | None = None

    @property
    def in_body(self) -> torch.Tensor:
        """Which tokens are in body cells of the table, Bool [B, T]."""
        in_row = (self.row_ids > 0) & (self.row_ids < SUMMARY_ROW)
        return in_row & (self.column_ids > 0) & (self.attention_mask == 1)

    def keep(self, tokens: torch.Tensor) -> TableBatch:
        """The same examples with some of their tokens.

        Args:
            tokens: which of them and in what order, Int64 [B, K]; padding may be among them.
        """
        kept: dict[str, Any] = {"places": tokens}
        of_tokens = {n: tensor for n, tensor in self.tensors().items() if tensor.ndim > 1 and n not in OF_NODES}
        kept |= {name: gather_tokens(tensor, tokens) for name, tensor in of_tokens.items()}
        return replace(self, **kept, prepared={})

    def encoded_at(self, tokens: torch.Tensor) -> torch.Tensor:
        """Where one token of each example [B] stands in its encoding, Int64 [B]."""
        return tokens if self.places is None else self.places.gather(1, tokens[:, None]).squeeze(1)

    def tensors(self) -> Mapping[str, torch.Tensor]:
        """The tensor fields by name, leaving out those that are None."""
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
        """All tensors in one buffer: between processes each tensor costs a file descriptor, and a plan has hundreds."""
        names = tuple(self.tensors())
        kept = {name: value for name, value in vars(self).items() if name not in (*names, "prepared")}
        return {"fields": kept, "names": (names, tuple(self.prepared)), "packed": pack_tensors(self._content())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        names, prepared = state["names"]
        vars(self).update(state["fields"], **_named(names, prepared, state["packed"].unpack()))

    def _moved(self, move: Callable[[torch.Tensor], torch.Tensor]) -> TableBatch:
        return replace(self, **_named(tuple(self.tensors()), tuple(self.prepared), move_tensors(self._content(), move)))

    def _content(self) -> tuple[Any, ...]:
        """All that has tensors in it: the fields, then what is prepared."""
        return (*self.tensors().values(), *self.prepared.values())


def _named(names: Sequence[str], prepared: Sequence[Hashable], content: tuple[Any, ...]) -> dict[str, Any]:
    """The fields of a batch that has this content."""
    count = len(names)
    ahead = dict(zip(prepared, content[count:], strict=True))
    return {**dict(zip(names, content[:count], strict=True)), "prepared": ahead}


def gather_tokens(values: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """What belongs to some tokens [B, K] of what belongs to all: [B, T, ...] to [B, K, ...]."""
    index = tokens.view(*tokens.shape, *(1 for _ in values.shape[2:]))
    return values.gather(1, index.expand(*tokens.shape, *values.shape[2:]))
