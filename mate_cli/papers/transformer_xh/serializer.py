"""Serializer of several texts as nodes of a graph: each is encoded with the question, and nodes have relations.

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
    EvidenceNode,
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

Mentions = tuple[str, ...]
"""Sentences of other nodes that mention or link to a node."""


@dataclass(eq=False)
class EvidenceSerializer(Serializer):
    """Encodes [CLS] question [SEP] mentions [SEP] text [SEP] for every node of a text graph.

    Row ids number the nodes from 1. Mentions are sentences of other nodes that lead to the node. The question and
    the mentions have segment id 0, the text has segment id 1. If the nodes or tokens do not fit, the rows most
    similar to the question by TF-IDF are selected, each with all its nodes.

    Args:
        max_tokens: maximum number of tokens of all nodes together.
        reset_positions: positions restart in every node; must be true.
        unit: the text of a node.
        relations: types of relations between nodes, in order of precedence.
        label: content of `label_ids`: "evidence" labels nodes with the answer; "answer" labels the answer's text and
            its supporting sentences.
        sentences: maximum number of sentences of linked pages per question, added to cells and rows; 0 for none.
        max_nodes: maximum number of nodes.
        node_tokens: maximum number of tokens per node; longer nodes are truncated.
        edge_texts: if true, prepend the sentences that mention the node, from nodes related to it by a mention or a
            link.
        lexical_features: if true, add features of the word overlap of each node with the question.

    Raises:
        ConfigError: `label=answer` with `unit=row`.
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
            hint = "Use encoding.unit=cell, document or segment"
            raise ConfigError("nodes of whole rows have no answer position", where="encoding.label", remedy=hint)
        self.relations = list(self.relations)
        self._cache = PieceCache(self.tokenizer)

    @classmethod
    def label_kind(cls, options: Mapping[str, Any]) -> Label:
        """Return the name of the labels, which mark nodes or rows with the answer, or the text of the answer."""
        label: Label = options.get("label", cls.label)
        return "rows" if label == "evidence" and options.get("unit", cls.unit) == "row" else label

    def draw(self, example: TableExample, encoding: TableEncoding, encoder: Any) -> Figure:  # noqa: ANN401
        """Print the nodes of an example, and plot the graph of these nodes.

        Args:
            example: the example.
            encoding: encoding of the example.
            encoder: network whose hop weights are plotted. None: only the edges are plotted.
        """
        from mate_cli.papers.transformer_xh.inspect_graph import show_graph

        return show_graph(example, encoding, self.nodes(example), encoder)

    def encode(self, examples: Sequence[TableExample]) -> list[TableEncoding | EncodingFailure]:
        """Encode each example as `TableEncoding`, or return an `EncodingFailure` with the reason, in the same order."""
        tables = {id(example.table): example.table for example in examples}
        parts = {key: _TableCache(table, self) for key, table in tables.items()}
        return [self._encode(example, parts[id(example.table)]) for example in examples]

    def nodes(self, example: TableExample) -> list[NodeText]:
        """Return the nodes of an example's encoding; empty if the example cannot be encoded."""
        return [node.text for node in self._laid_out(example, _TableCache(example.table, self))]

    def span_text(self, example: TableExample, start: int, end: int) -> str:
        """Return the text of a token span within one node; "" if the span is out of range.

        Args:
            example: the example.
            start: index of the first token in the example's encoding, from 0.
            end: index of the last token, inclusive.
        """
        offset = 0
        for node in self._laid_out(example, _TableCache(example.table, self)):
            if start < offset + len(node.ids):
                token_ids = node.ids[start - offset : end + 1 - offset]
                texts = [node.text.body, node.text.title]
                return span_text(self.tokenizer, token_ids, texts, start - offset - node.body)
            offset += len(node.ids)
        return ""

    def _encode(self, example: TableExample, table_parts: _TableCache) -> TableEncoding | EncodingFailure:
        node_pieces = self._laid_out(example, table_parts)
        if not node_pieces:
            return EncodingFailure(example.example_id, "the table has no text")
        nodes = [encoded_node.text.node for encoded_node in node_pieces]
        lengths = [len(encoded_node.ids) for encoded_node in node_pieces]
        ids, segments, sentences = (
            np.concatenate([getattr(node, name) for node in node_pieces]) for name in ("ids", "segments", "sentences")
        )
        if self.label == "answer":
            labels = label_answers(example, node_pieces, self._cache)
        else:
            labels = np.repeat(label_nodes(example, nodes, rows=self.unit == "row"), lengths)
        tokens = TokenArrays(len(ids))
        tokens.fill(input_ids=ids, segment_ids=segments, label_ids=labels, column_ids=1)
        tokens.fill(row_ids=np.repeat(np.arange(len(nodes)), lengths) + 1)
        cells = np.array([(node.row, node.column) for node in nodes], np.int16)
        more = {RELATIONS: relate(nodes, self.relations), NODE_CELLS: cells}
        if self.unit in ("document", "segment"):
            more[SENTENCE_IDS] = sentences.astype(np.int16)
        return tokens.encoding(
            example.example_id,
            cell_features=table_parts.features(example.question, nodes) if self.lexical_features else None,
            class_ids=find_class(example),
            cut=_count_truncated(example, node_pieces),
            more=more,
        )

    def _laid_out(self, example: TableExample, table_parts: _TableCache) -> list[NodePieces]:
        """Tokenize the nodes of an example, and select the nodes that fit into `max_nodes` and `max_tokens`."""
        texts = evidence_texts(example, self.unit, table_parts.additions(example.question))
        mention_sentences = self._list_mentions(example, texts)
        answers = example.answer.texts if example.answer else ()
        node_texts = (chain([text.title], *text.sentences) for text in texts)
        self._cache.add(chain([example.question], answers, *node_texts, *mention_sentences))
        node_pieces = [
            encoded_node
            for text, sentences in zip(texts, mention_sentences, strict=True)
            for encoded_node in self._nodes(example, text, sentences)
        ]
        return table_parts.choose(example.question, node_pieces)

    def _nodes(self, example: TableExample, text: NodeText, mention_sentences: Mentions) -> Iterator[NodePieces]:
        """Tokenize a text as a node. With `unit` "segment", a long text is divided into several nodes."""
        first, second = [self.tokenizer.cls_id, *self._cache[example.question,], self.tokenizer.sep_id], []
        for sentence in mention_sentences:
            first += [*self._cache[sentence,], self.tokenizer.sep_id]
        if text.title:
            second += [*self._cache[text.title,], self.tokenizer.sep_id]
        room = max(1, self.node_tokens - len(first) - len(second) - 1)
        for part in self._parts(text, room) if self.unit == "segment" else (text,):
            bodies = [self._cache[sentence] for sentence in part.sentences]
            yield self._lay_out_text(part, np.array(first), np.array(second, int), bodies)

    def _parts(self, text: NodeText, room: int) -> Iterator[NodeText]:
        """Split the text of a node into groups of sentences with at most `room` tokens each.

        A longer sentence is a separate group.
        """
        first_sentence, token_count = 0, 0
        for index, sentence in enumerate(text.sentences):
            length = len(self._cache[sentence])
            if token_count and token_count + length > room:
                yield replace(text, sentences=text.sentences[first_sentence:index], first=first_sentence)
                first_sentence, token_count = index, 0
            token_count += length
        yield replace(text, sentences=text.sentences[first_sentence:], first=first_sentence)

    def _lay_out_text(
        self, text: NodeText, first: np.ndarray, title: np.ndarray, bodies: Sequence[np.ndarray]
    ) -> NodePieces:
        end = [self.tokenizer.sep_id]
        numbers = np.repeat(np.arange(len(bodies)) + 1 + text.first, [len(body) for body in bodies])
        second = np.concatenate([title, *bodies, end]).astype(np.int32)
        number = np.concatenate([np.zeros(len(title), int), numbers, [0]])
        lengths = _shares(len(first), len(second), min(self.node_tokens, self.max_tokens))
        full_length = len(first) + len(second)
        ids = np.concatenate([_truncate_middle(first, lengths[0]), _truncate_middle(second, lengths[1])]).astype(
            np.int32
        )
        segments = np.repeat((0, 1), lengths)
        sentences = np.concatenate([np.zeros(lengths[0], int), _truncate_middle(number, lengths[1])])
        return NodePieces(text, ids, segments, sentences, lengths[0] + len(title), full_length > len(ids))

    def _list_mentions(self, example: TableExample, texts: Sequence[NodeText]) -> list[Mentions]:
        """List, for each node, the distinct sentences of other nodes that link to or mention the node.

        The sentences are in reading order.
        """
        if not self.edge_texts:
            return [()] * len(texts)
        kinds = [kind for kind in self.relations if kind in _SENTENCE_RELATIONS]
        relations = relate([text.node for text in texts], kinds)
        link_sentences: dict[tuple[int, int], list[str]] = defaultdict(list)
        for link in example.links:
            link_sentences[link.source, link.target] += [link.text] if link.text else []
        mention_sentences = []
        for text, relation_ids in zip(texts, relations.tolist(), strict=True):
            neighbors = [texts[index] for index, kind in enumerate(relation_ids) if kind]
            sentences = (
                link_sentences.get((neighbor.node.row, text.node.row)) or _mentioning_sentences(text, neighbor)
                for neighbor in neighbors
            )
            mention_sentences.append(tuple(dict.fromkeys(chain.from_iterable(sentences))))
        return mention_sentences


_SENTENCE_RELATIONS = ("mention", "link")
"""Types of relations that are based on a sentence."""


class _TableCache:
    """Cache of values that depend only on a table, shared by all questions about the table."""

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
        """Select the page sentences to append to cells for a question, keyed by page link."""
        is_whole = self.serializer.unit in ("document", "segment")
        if is_whole or not self.serializer.sentences or not self.table.passages:
            return {}
        return self._expander.choose(question)

    def choose(self, question: str, node_pieces: Sequence[NodePieces]) -> list[NodePieces]:
        """Select nodes of the rows most similar to the question, within the limits, in reading order.

        If the nodes of the most similar row do not fit, the first nodes of that row are returned.
        """
        nodes, tokens = self.serializer.max_nodes, self.serializer.max_tokens
        if len(node_pieces) <= nodes and sum(len(encoded_node.ids) for encoded_node in node_pieces) <= tokens:
            return list(node_pieces)
        selection: set[int] = set()
        for row in np.argsort(-self._rows.scores(question), kind="stable").tolist():
            indices = [index for index, encoded_node in enumerate(node_pieces) if encoded_node.text.node.row == row]
            cost = sum(len(node_pieces[index].ids) for index in indices)
            if len(indices) > nodes or cost > tokens:
                if selection:
                    continue
                costs = np.cumsum([len(node_pieces[index].ids) for index in indices])
                indices = indices[: min(nodes, int((costs <= tokens).sum()))]
                cost = sum(len(node_pieces[index].ids) for index in indices)
            selection.update(indices)
            nodes, tokens = nodes - len(indices), tokens - cost
        return [node_pieces[index] for index in sorted(selection)]

    def features(self, question: str, nodes: Sequence[EvidenceNode]) -> np.ndarray:
        """Return the lexical features of each node, [K, F]. A row has the maximum over its cells."""
        width = len(self.table.header)
        cells = self._lexical.features(question)[1:].reshape(len(self.table.rows), width, -1)
        if self.serializer.unit == "row":
            return np.stack([cells[node.row].max(0) for node in nodes])
        return np.stack([cells[node.row, node.column] for node in nodes])


def _count_truncated(example: TableExample, node_pieces: Sequence[NodePieces]) -> np.ndarray:
    """Count truncated nodes, omitted rows and omitted rows with the answer, in the order of `TRUNCATION_COUNTS`."""
    rows = {encoded_node.text.node.row for encoded_node in node_pieces}
    answers = {row for row, _ in example.answer.coordinates} if example.answer else set()
    truncated_nodes = sum(encoded_node.is_cut for encoded_node in node_pieces)
    return np.array([truncated_nodes, len(example.table.rows) - len(rows), 0, len(answers - rows)], np.int32)


def _mentioning_sentences(text: NodeText, neighbor: NodeText) -> list[str]:
    """Return the sentences of `neighbor` that mention the title of `text`."""
    sentences = [sentence for parts in neighbor.sentences for sentence in split_sentences(" ".join(parts))]
    return [sentence for sentence in sentences if mentions(text.node.title, sentence)]


def _shares(first: int, second: int, limit: int) -> tuple[int, int]:
    """Truncate two texts to a total of `limit` tokens, and return their token counts.

    The longer text is truncated first.

    Source: microsoft/Transformer-XH, `truncate_input_sequence`.
    """
    count = min(first, max(limit - second, -(-limit // 2)))
    return count, min(second, limit - count)


def _truncate_middle(values: np.ndarray, count: int) -> np.ndarray:
    """Keep the first `count` - 1 values of an array and its last value, such as the final [SEP]."""
    return values if len(values) == count else np.append(values[: count - 1], values[-1:])


HAS_ANSWER, SUPPORTS, UNJUDGED = 1, 2, 4
"""Bits of `label_ids` per token: answer, supporting sentence, unannotated text."""
ANSWER_KINDS = ("span", "yes", "no")
"""Types of answers; the index is the `class_id`."""


@dataclass(frozen=True, slots=True)
class NodePieces:
    """The tokens of one node: the question, sentences that mention the node, and the text of the node.

    Args:
        text: source text of the node.
        ids: token ids [tokens].
        segments: 0 for the question and the mentions, 1 for the node's text.
        sentences: number of the sentence of each token, from 1; 0 outside sentences.
        body: index of the text's first token, after the title.
        is_cut: True if the node was truncated.
    """

    text: NodeText
    ids: np.ndarray
    segments: np.ndarray
    sentences: np.ndarray
    body: int
    is_cut: bool


def label_nodes(example: TableExample, nodes: Sequence[EvidenceNode], *, rows: bool) -> np.ndarray:
    """Label the K nodes of an example, Int32 [K]: 1 if the node has the answer, else 0.

    Args:
        example: the example.
        nodes: the K nodes.
        rows: if true, a node has the answer if any cell of its row has it. If false, the node's cell must have it.
    """
    answer_cells = set(example.answer.coordinates) if example.answer else set()
    answer_rows = {row for row, _ in answer_cells}
    has_answer = [node.row in answer_rows if rows else (node.row, node.column) in answer_cells for node in nodes]
    return np.array(has_answer, np.int32)


def label_answers(example: TableExample, node_pieces: Sequence[NodePieces], cache: PieceCache) -> np.ndarray:
    """Return the label bits of each token of all nodes, Int32 [T], see `HAS_ANSWER`.

    The answer is labeled at its first occurrence in each node whose cell contains it.

    Args:
        example: the example.
        node_pieces: the nodes with T tokens in total.
        cache: tokenized answers.
    """
    answer_cells = set(example.answer.coordinates) if example.answer else set()
    texts = example.answer.texts if example.answer and find_class(example) == 0 else ()
    supporting = set(example.supporting)
    unjudged = set(example.unjudged)
    labels = []
    for encoded_node in node_pieces:
        node, bits = encoded_node.text.node, np.zeros(len(encoded_node.ids), np.int32)
        if (node.row, node.column) in answer_cells:
            start, end = _find_first_text(texts, encoded_node, cache)
            bits[start:end] = HAS_ANSWER
        numbers = [sentence + 1 for row, sentence in supporting if row == node.row]
        bits[np.isin(encoded_node.sentences, numbers)] |= SUPPORTS
        bits |= UNJUDGED * (node.row in unjudged)
        labels.append(bits)
    return np.concatenate(labels)


def find_class(example: TableExample) -> int | None:
    """Return the label of a statement, or the index of a question's answer type in `ANSWER_KINDS`.

    Return None if neither is known.
    """
    if example.answer is None or not (example.answer.texts or example.answer.label is not None):
        return None
    if example.answer.label is not None:
        return example.answer.label
    text = example.answer.texts[0].strip().lower()
    return ANSWER_KINDS.index(text) if text in ANSWER_KINDS[1:] else 0


def _find_first_text(texts: Sequence[str], encoded_node: NodePieces, piece_cache: PieceCache) -> tuple[int, int]:
    """Find the first of several texts that occurs in the text or title of a node.

    For each text, the node's text is searched before its title.

    Returns:
        The first token and the last token + 1 of the occurrence; (0, 0) if no text occurs.
    """
    for text in texts:
        answer_ids = piece_cache[text,]
        for start in (encoded_node.body, int((encoded_node.segments == 0).sum())):
            offset = find_pieces(answer_ids, encoded_node.ids[start:])
            if offset >= 0:
                return start + offset, start + offset + len(answer_ids)
    return 0, 0
