"""Lay out texts side by side as the nodes of a graph, each with the question, and say how they relate.

Source: Zhao et al. 2020, "Transformer-XH"; microsoft/Transformer-XH, `data/hotpotqa.py` and `data/fever.py`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from mate_cli.errors import ConfigError
from mate_cli.papers.transformer_xh.relations import (
    NODE_CELLS,
    RELATIONS,
    SENTENCE_IDS,
    Kind,
    NodeText,
    Unit,
    evidence_texts,
    mentions,
    relate,
    row_documents,
)
from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Table
from mate_cli.tables.text import split_sentences
from mate_cli.tokenization.expansion import Expander, Parts, SentenceIndex
from mate_cli.tokenization.layout import Array, TableEncoding, TokenArrays
from mate_cli.tokenization.serializers.lexical import LexicalTable
from mate_cli.tokenization.serializers.serializer import EncodingFailure, Label, Serializer
from mate_cli.tokenization.table_pieces import PieceCache
from mate_cli.tokenization.vocabulary import find_pieces, span_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Told = tuple[str, ...]
"""Sentences of other texts that lead to a node."""


@dataclass(eq=False)
class EvidenceSerializer(Serializer):
    """[CLS] question [SEP] told [SEP] and text [SEP], for every node; row ids number the nodes from 1.

    The question, and what is told of a node, are of segment 0, its text of segment 1. Where there are more nodes or
    tokens than fit, the rows stay that are nearest to the question by TF-IDF, each whole.

    Args:
        max_tokens: of all nodes together.
        reset_positions: positions restart in every node, as they must.
        unit: what a node is.
        relations: the kinds of relations between nodes, in the order in which they are tried.
        label: what `label_ids` mark: nodes with the answer ("evidence"), or its text and the sentences that support it
            ("answer").
        sentences: of linked pages that are told in cells and rows; 0 for none.
        max_nodes: the most nodes.
        node_tokens: each is cut at so many.
        edge_texts: tell each node the sentences that mention it, of the nodes that it sees by a mention or a link.
        lexical_features: also say how well the words of each node fit the question.

    Raises:
        ConfigError: answers shall be marked in whole rows.
    """

    arrays: ClassVar[Sequence[Array]] = (RELATIONS, NODE_CELLS, SENTENCE_IDS)
    view: ClassVar[str] = "graph"

    max_tokens: Annotated[int, Field(ge=8)] = 4096
    reset_positions: bool = True
    unit: Unit = "cell"
    relations: Sequence[Kind] = field(default_factory=lambda: ["row", "column", "page"])
    label: Literal["evidence", "answer"] = "evidence"
    sentences: Annotated[int, Field(ge=0)] = 5
    max_nodes: Annotated[int, Field(gt=0, le=255)] = 32
    node_tokens: Annotated[int, Field(ge=8, le=512)] = 128
    edge_texts: bool = False
    lexical_features: bool = False

    def __post_init__(self) -> None:
        if self.unit == "row" and self.label == "answer":
            remedy = "Use encoding.unit=cell, document or segment"
            raise ConfigError("whole rows do not say where the answer is", where="encoding.label", remedy=remedy)
        self.relations = list(self.relations)
        self._pieces = PieceCache(self.tokenizer)

    @classmethod
    def marks(cls, options: Mapping[str, Any]) -> Label:
        """Return nodes with the answer, be they rows or not, or its text."""
        label: Label = options.get("label", cls.label)
        return "rows" if label == "evidence" and options.get("unit", cls.unit) == "row" else label

    def draw(self, example: TableExample, encoding: TableEncoding, encoder: Any) -> Figure:  # noqa: ANN401
        """Print the nodes and draw their graph, with a network its weights."""
        from mate_cli.papers.transformer_xh.inspect_graph import show_graph

        return show_graph(example, encoding, self.nodes(example), encoder)

    def encode(self, examples: Sequence[TableExample]) -> list[TableEncoding | EncodingFailure]:
        """Encode examples; the result has their order and number."""
        tables = {id(example.table): example.table for example in examples}
        known = {key: _Known(table, self) for key, table in tables.items()}
        return [self._encode(example, known[id(example.table)]) for example in examples]

    def nodes(self, example: TableExample) -> list[NodeText]:
        """Return the nodes of an example's encoding; none where it cannot be encoded."""
        return [laid.text for laid in self._laid_out(example, _Known(example.table, self))]

    def span_text(self, example: TableExample, start: int, end: int) -> str:
        """Return the text of a node at a span of an example's encoding, first and last token from 0."""
        begin = 0
        for laid in self._laid_out(example, _Known(example.table, self)):
            if start < begin + len(laid.ids):
                pieces = laid.ids[start - begin : end + 1 - begin]
                return span_text(self.tokenizer, pieces, [laid.text.body, laid.text.title], start - begin - laid.body)
            begin += len(laid.ids)
        return ""

    def _encode(self, example: TableExample, known: _Known) -> TableEncoding | EncodingFailure:
        node_pieces = self._laid_out(example, known)
        if not node_pieces:
            return EncodingFailure(example.example_id, "the table has no text")
        lengths = [len(laid.ids) for laid in node_pieces]
        tokens = TokenArrays(sum(lengths))
        owner = np.repeat(np.arange(len(node_pieces)), lengths)
        tokens.fill(input_ids=np.concatenate([laid.ids for laid in node_pieces]), column_ids=1, row_ids=owner + 1)
        tokens.fill(segment_ids=np.concatenate([laid.segments for laid in node_pieces]))
        sentences = np.concatenate([laid.sentences for laid in node_pieces])
        if self.label == "answer":
            tokens.fill(label_ids=label_answers(example, node_pieces, self._pieces))
        else:
            tokens.fill(label_ids=np.repeat(label_nodes(example, node_pieces, rows=self.unit == "row"), lengths))
        cells = np.array([(laid.text.node.row, laid.text.node.column) for laid in node_pieces], np.int16)
        more = {RELATIONS: relate([laid.text.node for laid in node_pieces], self.relations), NODE_CELLS: cells}
        if self.unit in ("document", "segment"):
            more[SENTENCE_IDS] = sentences.astype(np.int16)
        return tokens.encoding(
            example.example_id,
            cell_features=known.features(example.question, node_pieces) if self.lexical_features else None,
            class_ids=find_class(example),
            cut=self._cut(example, node_pieces, tokens["label_ids"]),
            more=more,
        )

    def _laid_out(self, example: TableExample, known: _Known) -> list[NodePieces]:
        """Return the nodes that fit."""
        texts = evidence_texts(example, self.unit, known.additions(example.question))
        told = self._list_mentions(example, texts)
        answers = example.answer.texts if example.answer else ()
        self._pieces.add(chain([example.question], answers, *(_words(text) for text in texts), *told))
        node_pieces = [
            pieces
            for text, sentences in zip(texts, told, strict=True)
            for pieces in self._nodes(example, text, sentences)
        ]
        return known.choose(example.question, node_pieces)

    def _nodes(self, example: TableExample, text: NodeText, told: Told) -> Iterator[NodePieces]:
        """Yield the node of a text; of segments several, each of whole sentences where they fit."""
        first, second = [self.tokenizer.cls_id, *self._pieces[example.question,], self.tokenizer.sep_id], []
        for sentence in told:
            first += [*self._pieces[sentence,], self.tokenizer.sep_id]
        if text.title:
            second += [*self._pieces[text.title,], self.tokenizer.sep_id]
        room = max(1, self.node_tokens - len(first) - len(second) - 1)
        for part in self._parts(text, room) if self.unit == "segment" else (text,):
            bodies = [self._pieces[sentence] for sentence in part.sentences]
            yield self._lay_out_text(part, np.array(first), np.array(second, int), bodies)

    def _parts(self, text: NodeText, room: int) -> Iterator[NodeText]:
        """Yield runs of sentences that have `room` tokens, or one sentence."""
        begin, used = 0, 0
        for place, sentence in enumerate(text.sentences):
            length = len(self._pieces[sentence])
            if used and used + length > room:
                yield replace(text, sentences=text.sentences[begin:place], first=begin)
                begin, used = place, 0
            used += length
        yield replace(text, sentences=text.sentences[begin:], first=begin)

    def _lay_out_text(
        self, text: NodeText, first: np.ndarray, title: np.ndarray, bodies: Sequence[np.ndarray]
    ) -> NodePieces:
        end = [self.tokenizer.sep_id]
        numbers = np.repeat(np.arange(len(bodies)) + 1 + text.first, [len(body) for body in bodies])
        second = np.concatenate([title, *bodies, end]).astype(np.int32)
        number = np.concatenate([np.zeros(len(title), int), numbers, [0]])
        lengths = _shares(len(first), len(second), min(self.node_tokens, self.max_tokens))
        whole = len(first) + len(second)
        ids = np.concatenate([_shortened(first, lengths[0]), _shortened(second, lengths[1])]).astype(np.int32)
        segments = np.repeat((0, 1), lengths)
        sentences = np.concatenate([np.zeros(lengths[0], int), _shortened(number, lengths[1])])
        return NodePieces(text, ids, segments, sentences, lengths[0] + len(title), whole > len(ids))

    def _list_mentions(self, example: TableExample, texts: Sequence[NodeText]) -> list[Told]:
        """List the sentences of other nodes that lead to each one, in reading order, each sentence once."""
        if not self.edge_texts:
            return [()] * len(texts)
        related = relate([text.node for text in texts], [kind for kind in self.relations if kind in _TELLING])
        link_sentences: dict[tuple[int, int], list[str]] = defaultdict(list)
        for link in example.links:
            link_sentences[link.source, link.target] += [link.text] if link.text else []
        told = []
        for text, asked in zip(texts, related.tolist(), strict=True):
            others = [texts[place] for place, kind in enumerate(asked) if kind]
            known = [(link_sentences.get((other.node.row, text.node.row)), other) for other in others]
            told.append([sentence for sentences, other in known for sentence in sentences or _leading(text, other)])
        return [tuple(dict.fromkeys(some)) for some in told]

    def _cut(self, example: TableExample, node_pieces: Sequence[NodePieces], labels: np.ndarray) -> np.ndarray:
        rows = {laid.text.node.row for laid in node_pieces}
        answers = {row for row, _ in example.answer.coordinates} if example.answer else set()
        lost = len(answers - rows)
        return np.array([sum(laid.cut for laid in node_pieces), len(example.table.rows) - len(rows), 0, lost], np.int32)


_TELLING = ("mention", "link")
"""Kinds of relations that a sentence stands for."""


class _Known:
    """Parts of a table, or of one of its questions, that a serializer works out once."""

    def __init__(self, table: Table, serializer: EvidenceSerializer) -> None:
        self.table, self.serializer = table, serializer

    @cached_property
    def _expander(self) -> Expander:
        return Expander(self.table.passages, self.serializer.sentences, titles=False)

    @cached_property
    def _rows(self) -> SentenceIndex:
        return SentenceIndex(row_documents(self.table))

    @cached_property
    def _lexical(self) -> LexicalTable:
        return LexicalTable(self.table)

    def additions(self, question: str) -> Mapping[str, Parts]:
        """Return the sentences that a question has told of each link."""
        is_whole = self.serializer.unit in ("document", "segment")
        if is_whole or not self.serializer.sentences or not self.table.passages:
            return {}
        return self._expander.choose(question)

    def choose(self, question: str, node_pieces: Sequence[NodePieces]) -> list[NodePieces]:
        """Return the nodes of the rows that fit the question best, in reading order, as many as there is room for."""
        nodes, tokens = self.serializer.max_nodes, self.serializer.max_tokens
        if len(node_pieces) <= nodes and sum(len(laid.ids) for laid in node_pieces) <= tokens:
            return list(node_pieces)
        selection: set[int] = set()
        for row in np.argsort(-self._rows.scores(question), kind="stable").tolist():
            places = [place for place, laid in enumerate(node_pieces) if laid.text.node.row == row]
            cost = sum(len(node_pieces[place].ids) for place in places)
            if len(places) > nodes or cost > tokens:
                if selection:
                    continue
                costs = np.cumsum([len(node_pieces[place].ids) for place in places])
                places = places[: min(nodes, int((costs <= tokens).sum()))]
                cost = sum(len(node_pieces[place].ids) for place in places)
            selection.update(places)
            nodes, tokens = nodes - len(places), tokens - cost
        return [node_pieces[place] for place in sorted(selection)]

    def features(self, question: str, node_pieces: Sequence[NodePieces]) -> np.ndarray:
        """Return the lexical features of each node, [K, F]; of a row the largest of its cells."""
        width = len(self.table.header)
        cells = self._lexical.features(question)[1:].reshape(len(self.table.rows), width, -1)
        nodes = [laid.text.node for laid in node_pieces]
        if self.serializer.unit == "row":
            return np.stack([cells[node.row].max(0) for node in nodes])
        return np.stack([cells[node.row, node.column] for node in nodes])


def _words(text: NodeText) -> Iterator[str]:
    yield text.title
    for parts in text.sentences:
        yield from parts


def _leading(text: NodeText, other: NodeText) -> list[str]:
    """Return the sentences of another text that mention this one."""
    sentences = [sentence for parts in other.sentences for sentence in split_sentences(" ".join(parts))]
    return [sentence for sentence in sentences if mentions(text.node.title, sentence)]


def _shares(first: int, second: int, most: int) -> tuple[int, int]:
    """Count the tokens of two parts that are kept: the longer one loses some until both fit.

    Source: microsoft/Transformer-XH, `truncate_input_sequence`.
    """
    count = min(first, max(most - second, -(-most // 2)))
    return count, min(second, most - count)


def _shortened(values: np.ndarray, count: int) -> np.ndarray:
    """Return the first values and the last one."""
    return values if len(values) == count else np.append(values[: count - 1], values[-1:])


HAS_ANSWER, SUPPORTS, UNJUDGED = 1, 2, 4
"""Bits of `label_ids`: the answer's text; a sentence that supports it; a text of which nobody knows."""
ANSWER_KINDS = ("span", "yes", "no")
"""What an answer can be; the place is its `class_id`."""


@dataclass(frozen=True, slots=True)
class NodePieces:
    """A node in word pieces.

    Args:
        text: what it was.
        ids: word pieces [tokens].
        segments: 0 for the question and what is told, 1 for its own text.
        sentences: number of the sentence of each token, from 1, 0 outside.
        body: place of its text's first token, behind the title.
        cut: whether words were left out.
    """

    text: NodeText
    ids: np.ndarray
    segments: np.ndarray
    sentences: np.ndarray
    body: int
    cut: bool


def label_nodes(example: TableExample, node_pieces: Sequence[NodePieces], *, rows: bool) -> np.ndarray:
    """Mark with 1 each node with the answer [K]: whose cell holds it, or of `rows` any cell of whose row does."""
    right = set(example.answer.coordinates) if example.answer else set()
    right_rows = {row for row, _ in right}
    nodes = [laid.text.node for laid in node_pieces]
    return np.array([node.row in right_rows if rows else (node.row, node.column) in right for node in nodes], np.int32)


def label_answers(example: TableExample, node_pieces: Sequence[NodePieces], pieces: PieceCache) -> np.ndarray:
    """Set bits of each token of all nodes [T]: the first place of the answer in each text that holds it, and so on."""
    right = set(example.answer.coordinates) if example.answer else set()
    texts = example.answer.texts if example.answer and find_class(example) == 0 else ()
    supporting = set(example.supporting)
    unjudged = set(example.unjudged)
    labels = []
    for laid in node_pieces:
        node, bits = laid.text.node, np.zeros(len(laid.ids), np.int32)
        if (node.row, node.column) in right:
            start, end = _first_place(texts, laid, pieces)
            bits[start:end] = HAS_ANSWER
        numbers = [sentence + 1 for row, sentence in supporting if row == node.row]
        bits[np.isin(laid.sentences, numbers)] |= SUPPORTS
        bits |= UNJUDGED * (node.row in unjudged)
        labels.append(bits)
    return np.concatenate(labels)


def find_class(example: TableExample) -> int | None:
    """Return a statement's label, else the place of the answer's kind in `ANSWER_KINDS`; None where it is not known."""
    if example.answer is None or not (example.answer.texts or example.answer.label is not None):
        return None
    if example.answer.label is not None:
        return example.answer.label
    text = example.answer.texts[0].strip().lower()
    return ANSWER_KINDS.index(text) if text in ANSWER_KINDS[1:] else 0


def _first_place(texts: Sequence[str], laid: NodePieces, pieces: PieceCache) -> tuple[int, int]:
    """Find where the first of some texts stands in a node's text, else in its title; (0, 0) where none does."""
    for text in texts:
        wanted = pieces[text,]
        for begin in (laid.body, int((laid.segments == 0).sum())):
            place = find_pieces(wanted, laid.ids[begin:])
            if place >= 0:
                return begin + place, begin + place + len(wanted)
    return 0, 0
