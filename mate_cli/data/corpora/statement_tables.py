"""Corpus for pre-training on entailment: statements that a table entails or refutes.

In training there is one statement per table and epoch.
"""

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
    """Sample a statement about a random part of a table, true with probability 0.5.

    Args:
        table: table with its texts.
        generator: source of randomness.
        counterfactual: probability of a rewritten sentence instead of a statement of the grammar. If a table yields no
            statement of one type, the other type is used.
        max_cells: maximum number of body cells of a part.

    Returns:
        The statement with its part of the table, or None if no statement can be made.
    """
    label = int(generator.random() < 0.5)
    kinds = KINDS[::-1] if generator.random() < counterfactual else KINDS
    statements = (draw_of_kind(table, kind, label, generator, max_cells) for kind in kinds)
    return next((example for example in statements if example), None)


def draw_of_kind(
    table: CorpusTable, kind: str, label: int, generator: np.random.Generator, max_cells: int
) -> TableExample | None:
    """Sample a statement of a given type and label about a random part of a table.

    Args:
        table: table with its texts.
        kind: type of the statement, one of `KINDS`.
        label: 1 for an entailed and 0 for a refuted statement.
        generator: source of randomness.
        max_cells: maximum number of body cells of a part.

    Returns:
        The statement with its part of the table, or None if no such statement can be made.
    """
    grammar = Grammar() if kind == SYNTHETIC else None
    rewriting = Rewriting() if kind == COUNTERFACTUAL else None
    parts = list(table_parts(table.table, max_cells))
    for index in generator.permutation(len(parts)):
        first_row, part = parts[index]
        examples = part_statements(table, first_row, part, generator, grammar, rewriting)
        fitting = [example for example in examples if example.answer and example.answer.label == label]
        if fitting:
            return fitting[generator.integers(len(fitting))]
    return None


@dataclass(eq=False)
class StatementTables(TableCorpus):
    """A corpus of tables with generated statements to verify.

    The statements are counterfactual and synthetic ("CS").

    The split "dev" has up to two statements of each type for each held-out table, one true and one false.

    Args:
        masks: "dynamic" generates another statement for a table in every epoch, "static" always the same.
        counterfactual: probability that a statement is a sentence about the table, unchanged or with an entity
            replaced, if the table has such a sentence. Otherwise it is a statement of the grammar.
        max_cells: maximum number of body cells of a table. Larger tables are divided into parts.

    Source: Eisenschlos et al. 2020, "Understanding tables with intermediate pre-training", section 3; google-research/
    tapas, INTERMEDIATE_PRETRAIN_DATA.md, reports 4.1 million counterfactual and 3.7 million synthetic statements.
    """

    counterfactual: Annotated[float, Field(ge=0, le=1)] = 0.5
    max_cells: Annotated[int, Field(gt=0)] = MAX_CELLS
    name: str = "statements"

    def maker(self, serializer: Serializer) -> Maker:
        """Return a function that samples a statement about a corpus table and encodes it."""
        return partial(self._generate, serializer)

    def _generate(
        self, serializer: Serializer, name: str, table: Callable[[], CorpusTable], generator: np.random.Generator
    ) -> Sequence[TableEncoding]:
        """Sample a statement about a table, and return its encoding in a list.

        The list is empty if no statement can be sampled or encoded.
        """
        example = draw_statement(table(), generator, self.counterfactual, self.max_cells)
        encodings = serializer.encode([replace(example, example_id=name)]) if example else []
        return [encoding for encoding in encodings if isinstance(encoding, TableEncoding)]

    def examples(self, split: str) -> list[TableExample]:
        """Return statements about the held-out tables if `split` is "dev", else an empty list.

        Other splits are empty, as training is streamed.
        """
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
