"""One statement about each table, every time it comes by: does the table entail it or refute it?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from typing import Annotated

import numpy as np
from pydantic import Field

from mate_cli.data.corpora.shards import CorpusTable, read_shard
from mate_cli.data.corpora.table_corpus import TableCorpus
from mate_cli.data.loading.stream import Maker
from mate_cli.data.synthesis.counterfactual import Rewriting
from mate_cli.data.synthesis.statements import (
    COUNTERFACTUAL,
    MAX_CELLS,
    SYNTHETIC,
    Grammar,
    part_statements,
    table_parts,
)
from mate_cli.tables.example import TableExample
from mate_cli.tokenization.layout import TableEncoding
from mate_cli.tokenization.serializers.serializer import Serializer

KINDS = (SYNTHETIC, COUNTERFACTUAL)


def draw_statement(
    table: CorpusTable, generator: np.random.Generator, counterfactual: float, max_cells: int
) -> TableExample | None:
    """Return a statement about a random part of a table, at even odds a true one; None where there is none.

    `counterfactual` is how often one is wanted that rewrites a sentence; else one of the grammar. Where a table is good
    for no statement of a kind, the other one is taken.
    """
    label = int(generator.random() < 0.5)
    kinds = KINDS[::-1] if generator.random() < counterfactual else KINDS
    statements = (draw_of_kind(table, kind, label, generator, max_cells) for kind in kinds)
    return next((example for example in statements if example), None)


def draw_of_kind(
    table: CorpusTable, kind: str, label: int, generator: np.random.Generator, max_cells: int
) -> TableExample | None:
    """Return a statement of a kind and a label about a random part of a table; None where there is none."""
    grammar = Grammar() if kind == SYNTHETIC else None
    rewriting = Rewriting() if kind == COUNTERFACTUAL else None
    parts = list(table_parts(table.table, max_cells))
    for place in generator.permutation(len(parts)):
        begin, part = parts[place]
        examples = part_statements(table, begin, part, generator, grammar, rewriting)
        fitting = [example for example in examples if example.answer and example.answer.label == label]
        if fitting:
            return fitting[generator.integers(len(fitting))]
    return None


@dataclass(eq=False)
class StatementTables(TableCorpus):
    """A corpus whose tables are entailed or refuted by statements made of them ("CS": counterfactual and synthetic).

    The split "dev" has of each table that is held out up to two statements of each kind, one true and one false.

    Args:
        masks: "dynamic" makes another statement of a table in every epoch, "static" always the same.
        counterfactual: how often a statement is a sentence about the table, as it is or with an entity exchanged, where
            there is one; else it is of the grammar.
        max_cells: tables with more body cells are cut into parts.

    Source: Eisenschlos et al. 2020, "Understanding tables with intermediate pre-training", section 3; google-research/
    tapas, INTERMEDIATE_PRETRAIN_DATA.md, tells of 4.1 million counterfactual and 3.7 million synthetic statements.
    """

    counterfactual: Annotated[float, Field(ge=0, le=1)] = 0.5
    max_cells: Annotated[int, Field(gt=0)] = MAX_CELLS
    name: str = "statements"

    def maker(self, serializer: Serializer) -> Maker:
        """Build the maker of the examples that are learnt from."""
        return partial(self._make, serializer)

    def _make(
        self, serializer: Serializer, name: str, table: Callable[[], CorpusTable], generator: np.random.Generator
    ) -> Sequence[TableEncoding]:
        """Make one example, or none where no statement can be made of the table or it does not fit."""
        example = draw_statement(table(), generator, self.counterfactual, self.max_cells)
        encodings = serializer.encode([replace(example, example_id=name)]) if example else []
        return [encoding for encoding in encodings if isinstance(encoding, TableEncoding)]

    def examples(self, split: str) -> list[TableExample]:
        """Return statements about held-out tables; none of other splits, as training examples are streamed."""
        return self._held_out if split == "dev" else []

    @cached_property
    def _held_out(self) -> list[TableExample]:
        tables = (table for shard in self.files for table in islice(read_shard(shard.path), shard.held_out))
        return [example for table in tables for example in self._of_table(table)]

    def _of_table(self, table: CorpusTable) -> Iterator[TableExample]:
        generator = np.random.default_rng(list(table.key.encode()))
        for kind in KINDS:
            pair = [draw_of_kind(table, kind, label, generator, self.max_cells) for label in (1, 0)]
            for label, example in zip(("true", "false"), pair, strict=True):
                if example and all(pair):
                    yield replace(example, example_id=f"{table.key}/{kind}/{label}")
