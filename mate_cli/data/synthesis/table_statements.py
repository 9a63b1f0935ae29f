"""Statements that a table entails or refutes, of both kinds, as examples to learn from.

Source: google-research/tapas, `utils/intermediate_pretrain_utils.py`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mate_cli.data.corpora.corpus import CorpusTable
from mate_cli.data.datasets.tabfact.reader import LABELS
from mate_cli.data.synthesis.counterfactual import Rewriting, counterfactual_pairs
from mate_cli.data.synthesis.references import TableReferences
from mate_cli.data.synthesis.statements import Grammar, synthesize
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Table

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
