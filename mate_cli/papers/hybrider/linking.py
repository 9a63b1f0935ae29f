"""Link a question to the cells and pages of its table that it seems to speak of.

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
    LinkedExample,
    Node,
    Source,
    asks_superlative,
    attach_nodes,
    extremes,
    page_sentences,
    page_title,
)
from mate_cli.tables.example import TableExample, group_by_table
from mate_cli.tables.table import Table
from mate_cli.terminal.progress import Progress

TAU = 0.80
"""Sentences at this distance or nearer link their page. Source: the paper's threshold, the best of several."""
MAX_DISTANCE = 0.95
"""Without a sentence within `TAU`, the nearest one links its page when it is nearer than this."""
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
"""English words that say little, left out before pairs of words are counted.

Source: the English list of Snowball as NLTK ships it, which Hybrider uses; without the forms that hold an apostrophe,
which no word of a tokenised text does. "won" is the beginning of "won't" there, and so never counts.
"""


def link_question(example: TableExample) -> tuple[Node, ...]:
    """Return all nodes of a question: of TF-IDF, of string overlap, cell matches, superlatives."""
    return TableLinks(example.table).nodes(example.question, example.question_tags)


def link_questions(examples: Sequence[TableExample]) -> list[tuple[Node, ...]]:
    """Link questions in order (see `link_question`); what questions about one table share is worked out once."""
    nodes: dict[int, tuple[Node, ...]] = {}
    for group in group_by_table(examples):
        links = TableLinks(examples[group[0]].table)
        nodes |= {place: links.nodes(examples[place].question, examples[place].question_tags) for place in group}
    return [nodes[place] for place in range(len(examples))]


class TableLinks:
    """Parts of linking that are worked out once per table and serve all its questions."""

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
        """Return all nodes of a question, in the order tf-idf, string-overlap, links.

        Superlatives are linked when the part-of-speech tags name one.
        """
        return (
            *self._page_nodes(self._tfidf.to(question), "tf-idf"),
            *self._page_nodes(self._overlap.to(question), "string-overlap"),
            *self._matches(question),
            *(self._superlatives if asks_superlative(question_tags) else ()),
        )

    @cached_property
    def _tfidf(self) -> TfidfDistance:
        return TfidfDistance(self._sentences, self._stop_words)

    @cached_property
    def _overlap(self) -> OverlapDistance:
        return OverlapDistance(self._sentences)

    @cached_property
    def _superlatives(self) -> tuple[Node, ...]:
        return tuple(self._cell_node(place, word, 1.0) for word, place in extremes(self.table))

    def _page_nodes(self, distances: np.ndarray, source: Source) -> list[Node]:
        """Return a node for every cell that links the page of a sentence that is near."""
        return [
            Node(
                page_title(self._links[place]),
                coordinate,
                self._links[place],
                self._sentences[place],
                float(distances[place]),
                self.table.header[coordinate[1]].text,
                source,
            )
            for place in near_sentences(self._links, distances.tolist())
            for coordinate in self._cells[self._links[place]]
        ]

    def _matches(self, question: str) -> list[Node]:
        ratios = matching_texts((cell.text for _, _, cell in self.table.cells()), question)
        cells = ((row, column, ratios.get(cell.text)) for row, column, cell in self.table.cells())
        return [self._cell_node((row, column), "string match", ratio) for row, column, ratio in cells if ratio]

    def _cell_node(self, coordinate: tuple[int, int], fact: str, confidence: float) -> Node:
        row, column = coordinate
        text, header = self.table.rows[row][column].text, self.table.header[column].text
        return Node(text, coordinate, None, fact, confidence, header, "links")


def near_sentences(links: Sequence[str], distances: Sequence[float]) -> list[int]:
    """Return places of the sentences that link their page.

    They are those within `TAU` that are nearer than every sentence before them of the same page; or else the
    nearest of all, when it is nearer than `MAX_DISTANCE`.
    `links` are the pages of sentences in reading order; distances may be fewer, when nothing could be measured.
    """
    nearest: dict[str, float] = {}
    falling = []
    for place, distance in enumerate(distances):
        if distance < nearest.get(links[place], MAX_DISTANCE):
            nearest[links[place]] = distance
            falling.append(place)
    near = [place for place in falling if distances[place] <= TAU]
    return near or sorted(falling, key=lambda place: distances[place])[:1]


_NO_CHARACTER = -1


class TfidfDistance:
    """Cosine distance of TF-IDF weights of pairs and triples of words, fitted on the sentences of one table.

    The numbers are those of scikit-learn's `TfidfVectorizer`. Accents are stripped, stop words are left out before
    pairs are made.
    """

    def __init__(self, sentences: Sequence[str], stop_words: Sequence[str]) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        self._vectorizer = TfidfVectorizer(strip_accents="unicode", ngram_range=(2, 3), stop_words=list(stop_words))
        try:
            self._weights = self._vectorizer.fit_transform(sentences)
        except ValueError:  # no sentence holds two words that count
            self._weights = None

    def to(self, question: str) -> np.ndarray:
        """Measure how far each sentence is from a question, [S]; empty where no sentence holds a pair of words."""
        if self._weights is None:
            return np.zeros(0)
        from sklearn.metrics.pairwise import cosine_distances

        return np.asarray(cosine_distances(self._vectorizer.transform([question]), self._weights)[0])


class OverlapDistance:
    """The share of a question that is outside its longest common substring with a sentence, case apart."""

    def __init__(self, sentences: Sequence[str]) -> None:
        texts = [sentence.lower() for sentence in sentences]
        self._starts = np.cumsum([0, *(len(text) + 1 for text in texts)])[:-1]
        codes = [code for text in texts for code in (*map(ord, text), _NO_CHARACTER)]
        self._codes = np.array(codes, dtype=np.int32)

    def to(self, question: str) -> np.ndarray:
        """Return the distance of each sentence to a question, [S]."""
        if not len(self._starts) or not question:
            return np.ones(len(self._starts))
        asked = question.lower()
        places = {character: self._codes == ord(character) for character in set(asked)}
        run, longest = (np.zeros(len(self._codes) + 1, dtype=np.int16) for _ in range(2))
        for character in asked:  # run[n + 1] is how many characters end alike here and at place n of the sentences
            run[1:] = (run[:-1] + 1) * places[character]
            np.maximum(longest, run, out=longest)
        return 1 - np.maximum.reduceat(longest[1:], self._starts) / len(question)


MIN_RATIO = 90
"""A cell matches when its ratio is greater."""


def partial_ratio(first: str, second: str, floor: int = 0) -> int:
    """Score how well the shorter text fits somewhere into the longer one, 0 to 100: `partial_ratio` of fuzzywuzzy.

    In pure Python that at times misses the best alignment. What it misses decides which nodes there are, so it is
    computed as it is there.
    Alignments are tried where `SequenceMatcher` finds a common block; each is scored by the share of characters in
    common blocks.
    What is not greater than `floor` may come out as 0, which is much faster.
    """
    shorter, longer = sorted((first, second), key=len)
    letters, length = Counter(shorter), len(shorter)
    common = _common(letters, longer)  # no more characters can match, in however short a part
    if not common or 200 * common <= floor * (length + common):
        return 0
    blocks = SequenceMatcher(None, shorter, longer).get_matching_blocks()
    starts = dict.fromkeys(max(0, place - shorter_place) for shorter_place, place, _ in blocks)
    parts = [longer[start : start + length] for start in starts]
    parts = [part for part in parts if 200 * _common(letters, part) > floor * (length + len(part))]
    return round(100 * max((SequenceMatcher(None, shorter, part).ratio() for part in parts), default=0))


def _common(letters: Counter[str], text: str) -> int:
    return (letters & Counter(text)).total()


def matching_texts(texts: Iterable[str], question: str) -> dict[str, float]:
    """Return the texts that match a question as whole words, each with its ratio as a share, case apart."""
    asked = f" {question.lower()} "
    ratios = {text: partial_ratio(f" {text.lower()} ", asked, MIN_RATIO) for text in dict.fromkeys(texts)}
    return {text: ratio / 100 for text, ratio in ratios.items() if ratio > MIN_RATIO}


CHUNK = 128
"""Questions whose links are kept in one file."""


def link_examples(examples: Sequence[TableExample], folder: Path | None = None) -> list[LinkedExample]:
    """Return the questions with their nodes; those that have them already stay as they are.

    All of a split, or its first ones, so that files of earlier calls fit: `folder` has one per `CHUNK`.
    """
    done: list[LinkedExample] = []
    with Progress("linking", len(examples), "questions") as progress:
        for start in range(0, len(examples), CHUNK):
            chunk = examples[start : start + CHUNK]
            done += _linked_chunk(chunk, folder)
            progress.advance(len(chunk))
    return done


def _linked_chunk(chunk: Sequence[TableExample], folder: Path | None) -> list[LinkedExample]:
    if all(isinstance(example, LinkedExample) for example in chunk):
        return list(chunk)  # type: ignore[arg-type]
    path = folder / f"{digest_of(chunk, f'links {digest_code([LinkedExample])}')}.json" if folder else None
    if path and path.is_file():
        nodes = [tuple(map(_node, some)) for some in json.loads(path.read_text(encoding="utf-8"))]
    else:
        nodes = link_questions(chunk)
        if path:
            with replace_file(path) as partial:
                content = json.dumps([[astuple(node) for node in some] for some in nodes])
                partial.write_text(content, encoding="utf-8")
    return [attach_nodes(example, some) for example, some in zip(chunk, nodes, strict=True)]


def _node(fields: Sequence[Any]) -> Node:
    content, coordinate, *others = fields
    return Node(content, tuple(coordinate), *others)
