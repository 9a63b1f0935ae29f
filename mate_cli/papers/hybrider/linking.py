"""Link a question to the table cells and linked pages that it may refer to.

Source: Chen et al. 2020, "HybridQA", section 4.1; wenhuchen/HybridQA, `preprocessing.py`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import astuple
from difflib import SequenceMatcher
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mate_cli.data.loading.cache import digest_code, digest_of
from mate_cli.files.atomic import replace_file
from mate_cli.papers.hybrider.nodes import (
    TRIGGERS,
    LinkedExample,
    Node,
    Source,
    attach_nodes,
    extremes,
    page_sentences,
    page_title,
)
from mate_cli.tables.example import TableExample, group_by_table
from mate_cli.tables.table import Table
from mate_cli.terminal.progress import Progress

TAU = 0.80
"""Maximum distance at which a sentence links its page.

Source: the threshold that the paper selected.
"""
MAX_DISTANCE = 0.95
"""Upper bound of the distance of the nearest sentence if no sentence is within `TAU`.

The nearest sentence links its page only below this distance.
"""
_WORDS = """
i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers herself
it its itself they them their theirs themselves what which who whom this that these those
am is are was were be been being have has had having do does did doing
a an the and but if or because as until while of at by for with about against between into through during
before after above below to from up down in out on off over under again further then once
here there when where why how all any both each few more most other some such no nor not only own same so than
too very s t can will just don should now d ll m o re ve y
ain aren couldn didn doesn hadn hasn haven isn ma mightn mustn needn shan shouldn wasn weren won wouldn
"""
STOP_WORDS = tuple(_WORDS.split())
"""English stop words, removed before word n-grams are counted.

Source: the English Snowball list shipped with NLTK, which Hybrider uses. Forms with an apostrophe are omitted because
words of a tokenized text contain no apostrophe. The list contains "won" as the stem of "won't", so the word "won" is
always ignored.
"""


def link_question(example: TableExample) -> tuple[Node, ...]:
    """Find the cells and pages that a question may refer to, by TF-IDF, string overlap, cell text and superlatives."""
    return TableLinks(example.table).nodes(example.question, example.question_tags)


def link_questions(examples: Sequence[TableExample]) -> list[tuple[Node, ...]]:
    """Apply `link_question` to each question. Results that depend only on the table are computed once per table."""
    nodes: dict[int, tuple[Node, ...]] = {}
    for group in group_by_table(examples):
        links = TableLinks(examples[group[0]].table)
        nodes |= {index: links.nodes(examples[index].question, examples[index].question_tags) for index in group}
    return [nodes[index] for index in range(len(examples))]


class TableLinks:
    """Links questions about one table to its cells and pages, and caches results per table."""

    def __init__(self, table: Table, stop_words: Sequence[str] = STOP_WORDS) -> None:
        self.table, self._stop_words = table, stop_words
        cells: dict[str, list[tuple[int, int]]] = {}
        for row, column, cell in table.cells():
            for link in cell.links:
                cells.setdefault(link, []).append((row, column))
        self._cells = cells
        pages = [(link, sentence) for link in cells for sentence in page_sentences(table.passages.get(link, ""))]
        self._links, self._sentences = [link for link, _ in pages], [sentence for _, sentence in pages]

    def nodes(self, question: str, question_tags: str = "") -> tuple[Node, ...]:
        """Find the cells and pages (nodes) that a question refers to.

        The order of their sources is "tf-idf", "string-overlap", "links". Superlatives are linked if the
        part-of-speech tags contain a comparative or superlative.
        """
        return (
            *self._page_nodes(self._tfidf.to(question), "tf-idf"),
            *self._page_nodes(self._overlap.to(question), "string-overlap"),
            *self._matches(question),
            *(self._superlatives if any(tag in question_tags for tag in TRIGGERS) else ()),
        )

    @cached_property
    def _tfidf(self) -> TfidfDistance:
        return TfidfDistance(self._sentences, self._stop_words)

    @cached_property
    def _overlap(self) -> OverlapDistance:
        return OverlapDistance(self._sentences)

    @cached_property
    def _superlatives(self) -> tuple[Node, ...]:
        return tuple(self._cell_node(coordinate, word, 1.0) for word, coordinate in extremes(self.table))

    def _page_nodes(self, distances: np.ndarray, source: Source) -> list[Node]:
        """Create a node for every cell that links to a page with a sentence near the question.

        Args:
            distances: distance of each sentence of the linked pages to the question.
            source: method that computed the distances.
        """
        nodes = []
        for index in near_sentences(self._links, distances.tolist()):
            link, sentence, distance = self._links[index], self._sentences[index], float(distances[index])
            for coordinate in self._cells[link]:
                header = self.table.header[coordinate[1]].text
                nodes.append(Node(page_title(link), coordinate, link, sentence, distance, header, source))
        return nodes

    def _matches(self, question: str) -> list[Node]:
        ratios = matching_texts((cell.text for _, _, cell in self.table.cells()), question)
        cells = ((row, column, ratios.get(cell.text)) for row, column, cell in self.table.cells())
        return [self._cell_node((row, column), "string match", ratio) for row, column, ratio in cells if ratio]

    def _cell_node(self, coordinate: tuple[int, int], fact: str, confidence: float) -> Node:
        row, column = coordinate
        text, header = self.table.rows[row][column].text, self.table.header[column].text
        return Node(text, coordinate, None, fact, confidence, header, "links")


def near_sentences(links: Sequence[str], distances: Sequence[float]) -> list[int]:
    """Select the sentences that are near enough to the question to link it to their page.

    A sentence is near if its distance is at most `TAU` and smaller than the distances of all earlier sentences of the
    same page. If no sentence is near, only the nearest sentence is returned, provided its distance is below
    `MAX_DISTANCE`.

    Args:
        links: the page of each sentence, in reading order.
        distances: the distance of each sentence; empty if no distance could be computed.
    """
    nearest_distances: dict[str, float] = {}
    falling = []
    for index, distance in enumerate(distances):
        if distance < nearest_distances.get(links[index], MAX_DISTANCE):
            nearest_distances[links[index]] = distance
            falling.append(index)
    near_indices = [index for index in falling if distances[index] <= TAU]
    return near_indices or sorted(falling, key=lambda index: distances[index])[:1]


_NO_CHARACTER = -1


class TfidfDistance:
    """Cosine distance of TF-IDF weights of word bigrams and trigrams.

    Fitted on the sentences of one table. Equal to scikit-learn's `TfidfVectorizer`. Accents are stripped and stop words
    are removed before n-grams are formed.
    """

    def __init__(self, sentences: Sequence[str], stop_words: Sequence[str]) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        self._vectorizer = TfidfVectorizer(strip_accents="unicode", ngram_range=(2, 3), stop_words=list(stop_words))
        try:
            self._weights = self._vectorizer.fit_transform(sentences)
        except ValueError:  # scikit-learn raises this if no sentence contains two words that are not stop words
            self._weights = None

    def to(self, question: str) -> np.ndarray:
        """Compute the TF-IDF cosine distance between a question and each of the S sentences, [S].

        The result is empty if no sentence contains a bigram.
        """
        if self._weights is None:
            return np.zeros(0)
        from sklearn.metrics.pairwise import cosine_distances

        return np.asarray(cosine_distances(self._vectorizer.transform([question]), self._weights)[0])


class OverlapDistance:
    """Share of a question outside its longest common substring with a sentence, ignoring case."""

    def __init__(self, sentences: Sequence[str]) -> None:
        texts = [sentence.lower() for sentence in sentences]
        self._starts = np.cumsum([0, *(len(text) + 1 for text in texts)])[:-1]
        codes = [code for text in texts for code in (*map(ord, text), _NO_CHARACTER)]
        self._codes = np.array(codes, dtype=np.int32)

    def to(self, question: str) -> np.ndarray:
        """Compute the `OverlapDistance` of a question to each of the S indexed sentences, [S]."""
        if not len(self._starts) or not question:
            return np.ones(len(self._starts))
        lowered = question.lower()
        positions = {character: self._codes == ord(character) for character in set(lowered)}
        run, longest = (np.zeros(len(self._codes) + 1, dtype=np.int16) for _ in range(2))
        # run[n + 1]: length of the common suffix of the question up to `character` and the sentences up to index n.
        for character in lowered:
            run[1:] = (run[:-1] + 1) * positions[character]
            np.maximum(longest, run, out=longest)
        return 1 - np.maximum.reduceat(longest[1:], self._starts) / len(question)


MIN_RATIO = 90
"""A question is linked to a cell if their `partial_ratio` is greater than this value, on a scale of 0 to 100."""


def partial_ratio(first: str, second: str, floor: int = 0) -> int:
    """Score the best alignment of the shorter text in the longer text, from 0 to 100.

    The pure Python `partial_ratio` of fuzzywuzzy sometimes misses the best alignment. The same alignments are tried
    here, because missed alignments affect which nodes exist. An alignment starts at each common block that
    `SequenceMatcher` finds, and is scored by the share of characters in common blocks.

    Args:
        first: a text.
        second: another text.
        floor: a ratio of at most `floor` may be returned as 0, which is much faster. 0: all ratios are exact.
    """
    shorter, longer = sorted((first, second), key=len)
    letters, length = Counter(shorter), len(shorter)
    common_count = _count_common(letters, longer)  # upper bound of the matching characters of any part
    if not common_count or 200 * common_count <= floor * (length + common_count):
        return 0
    blocks = SequenceMatcher(None, shorter, longer).get_matching_blocks()
    starts = dict.fromkeys(max(0, longer_start - shorter_start) for shorter_start, longer_start, _ in blocks)
    parts = [longer[start : start + length] for start in starts]
    parts = [part for part in parts if 200 * _count_common(letters, part) > floor * (length + len(part))]
    return round(100 * max((SequenceMatcher(None, shorter, part).ratio() for part in parts), default=0))


def _count_common(letters: Counter[str], text: str) -> int:
    return (letters & Counter(text)).total()


def matching_texts(texts: Iterable[str], question: str) -> dict[str, float]:
    """Find the cell texts that a question contains, as whole words and with small differences in spelling.

    Case is ignored.

    Returns:
        The similarity to the question, from 0 to 1, by text.
    """
    padded_question = f" {question.lower()} "
    ratios = {text: partial_ratio(f" {text.lower()} ", padded_question, MIN_RATIO) for text in dict.fromkeys(texts)}
    return {text: ratio / 100 for text, ratio in ratios.items() if ratio > MIN_RATIO}


CHUNK = 128
"""Number of questions per cache file of links."""


def link_examples(examples: Sequence[TableExample], folder: Path | None = None) -> list[LinkedExample]:
    """Return the questions with their nodes. Questions that already have nodes are unchanged.

    Args:
        examples: all questions of a split, or its first questions, so that the cache files of earlier calls match.
        folder: cache folder with one file per `CHUNK` questions. None: links are not cached.
    """
    linked_examples: list[LinkedExample] = []
    with Progress("linking", len(examples), "questions") as progress:
        for start in range(0, len(examples), CHUNK):
            chunk = examples[start : start + CHUNK]
            linked_examples += _linked_chunk(chunk, folder)
            progress.advance(len(chunk))
    return linked_examples


def _linked_chunk(chunk: Sequence[TableExample], folder: Path | None) -> list[LinkedExample]:
    if all(isinstance(example, LinkedExample) for example in chunk):
        return list(chunk)  # type: ignore[arg-type]
    path = folder / f"{digest_of(chunk, f'links {digest_code([LinkedExample])}')}.json" if folder else None
    if path and path.is_file():
        nodes = [tuple(map(_node, question_nodes)) for question_nodes in json.loads(path.read_text(encoding="utf-8"))]
    else:
        nodes = link_questions(chunk)
        if path:
            with replace_file(path) as partial:
                content = json.dumps([[astuple(node) for node in question_nodes] for question_nodes in nodes])
                partial.write_text(content, encoding="utf-8")
    return [attach_nodes(example, question_nodes) for example, question_nodes in zip(chunk, nodes, strict=True)]


def _node(fields: Sequence[Any]) -> Node:
    content, coordinate, *attributes = fields
    return Node(content, tuple(coordinate), *attributes)
