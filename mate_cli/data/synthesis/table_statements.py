"""Statements that a table entails or refutes, of both kinds, as examples to learn from.

Source: google-research/tapas, `utils/intermediate_pretrain_utils.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from mate_cli.data.corpora.corpus import CorpusTable
from mate_cli.data.datasets.tabfact.reader import LABELS
from mate_cli.data.synthesis.counterfactual import Rewriting, counterfactual_pairs
from mate_cli.data.synthesis.references import TableReferences
from mate_cli.data.synthesis.statements import Grammar, synthesize
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Table

MAX_CELLS = 50
MIN_COLUMNS, MIN_ROWS = 2, 2


def table_parts(table: Table, max_cells: int = MAX_CELLS) -> Iterator[tuple[int, Table]]:
    """Halve the rows of a table until no part has more than so many body cells.

    Nothing comes of a table with one row or one column, with more columns than `max_cells`, and parts of one row
    are left out.

    Yields:
        The place of the part's first row in the table, and the part, with its own passages only.

    Source: google-research/tapas, `utils/beam_utils.py`.
    """
    columns, rows = len(table.header), len(table.rows)
    if columns < MIN_COLUMNS or rows < MIN_ROWS or columns > max_cells:
        return
    for begin, end in _halves(0, rows, max_cells // columns):
        if end - begin >= MIN_ROWS:
            yield begin, _part(table, begin, end)


def _halves(begin: int, end: int, longest: int) -> Iterator[tuple[int, int]]:
    if end - begin <= longest:
        yield begin, end
        return
    middle = (begin + end) // 2
    yield from _halves(begin, middle, longest)
    yield from _halves(middle, end, longest)


def _part(table: Table, begin: int, end: int) -> Table:
    rows = table.rows[begin:end]
    links = dict.fromkeys(link for row in rows for cell in row for link in cell.links)
    passages = {link: table.passages[link] for link in links if link in table.passages}
    return replace(table, rows=rows, passages=passages)


SYNTHETIC, COUNTERFACTUAL = "synthetic", "counterfactual"
MAX_WORDS = 50


def part_statements(
    table: CorpusTable,
    begin: int,
    part: Table,
    rng: np.random.Generator,
    grammar: Grammar | None,
    rewriting: Rewriting | None,
    max_words: int = MAX_WORDS,
) -> list[TableExample]:
    """Make statements about one of a table's parts: two of the grammar, and pairs of the texts' sentences.

    The texts are those of the corpus and the passages that the part links to, without those that other parts link to.
    An example's table is the bare part: a title or passage beside it would tell which of two sentences was rewritten.

    Args:
        table: the whole, with its texts.
        begin: the part's first row in it.
        part: one of `table_parts`.
        rng: what is made depends on its state only.
        grammar: of the synthetic statements; None makes none.
        rewriting: of the counterfactual statements; None makes none.
        max_words: longer statements are left out; cut to fit a network, they would lose their meaning.
    """
    bare = replace(part, title="", section_title="", section_text="", intro="", passages={})
    said: list[tuple[str, str, int, Table]] = []
    if grammar is not None:
        statements = synthesize(bare, rng, grammar)
        said += [(SYNTHETIC, it.text, it.label, it.table) for it in statements if _words(it.text) <= max_words]
    if rewriting is not None:
        elsewhere = set(table.table.passages.values()).difference(part.passages.values())
        texts = dict.fromkeys(text for text in (*table.texts, *part.passages.values()) if text not in elsewhere)
        for pair in counterfactual_pairs(TableReferences(part), texts, rng, rewriting):
            if _words(pair.positive) <= max_words >= _words(pair.negative):
                said += [(COUNTERFACTUAL, pair.positive, 1, bare), (COUNTERFACTUAL, pair.negative, 0, bare)]
    return [_example(f"{table.key}/{begin}/{place}", *one) for place, one in enumerate(said)]


def _example(example_id: str, kind: str, text: str, label: int, table: Table) -> TableExample:
    text = " ".join(text.split())  # names of columns may have several lines
    return TableExample(example_id, text, table, Answer((LABELS[label],), label=label), subsets=(kind,))


def _words(text: str) -> int:
    return len(text.split())
