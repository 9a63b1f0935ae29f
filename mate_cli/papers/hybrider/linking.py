"""Link a question to the cells and pages of its table that it seems to speak of.

Source: Chen et al. 2020, "HybridQA", section 4.1; wenhuchen/HybridQA, `preprocessing.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from mate_cli.papers.hybrider.distances import OverlapDistance, TfidfDistance, matching_texts
from mate_cli.papers.hybrider.nodes import Node, Source, asks_superlative, extremes, page_sentences, page_title
from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Table

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
    places: dict[int, list[int]] = {}
    for place, example in enumerate(examples):
        places.setdefault(id(example.table), []).append(place)
    nodes: dict[int, tuple[Node, ...]] = {}
    for group in places.values():
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
