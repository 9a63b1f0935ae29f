"""Synthetic questions about the tables of HybridQA, as a dataset of its own.

`tools/write_questions.py` writes them as a file for `data.extra_train`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, get_args

import numpy as np
from pydantic import Field

from mate_cli.data.archive import read_members
from mate_cli.data.check import CheckReport, Problem
from mate_cli.data.datasets.hybridqa.files import attach_passages, parse_hybridqa_table
from mate_cli.data.datasets.hybridqa.reader import HybridQA
from mate_cli.data.datasets.release_check import measure_sizes
from mate_cli.data.synthesis.questions import MAX_CANDIDATES, SyntheticQuestion, as_example, make_questions
from mate_cli.errors import DataError
from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Table
from mate_cli.terminal.progress import track

SPLITS = ("train", "dev")
EVALUATED = ("dev", "test")
"""Splits of the release whose tables are never asked about here."""

Made = tuple[TableExample, SyntheticQuestion]
Kind = Literal["cell_by_passage", "passage_by_cell", "passage_by_passage", "cell_by_cell"]
Part = Literal["first_column", "other_columns"]


class SyntheticQuestions:
    """Questions made from the tables of a HybridQA release; tables of its dev and test questions are left out.

    The questions of a table depend on the seed and on the table only.

    Args:
        root: folder of the release, see `HybridQA`.
        extra_train: further files of questions whose tables count as those of the train split.
        tables: "train" uses the tables of the train split; "all" also those that no question is about.
        apart: "page" leaves out every table of a page of which dev or test have one, too.
        per_table: the most questions of one table.
        dev_share: share of the tables whose questions are the dev split.
        gold_only: the gold cell is the only candidate, and answers that many cells hold are asked for, too.
        kinds: kind of answer, by kind of clue.
        parts: whether the first cell of the row is the answer or a clue, or neither; others are left out.
        seed: of all random choices.
        download: see `HybridQA`.
        damaged: see `HybridQA`.
        name: the dataset's name in commands and records.
    """

    def __init__(
        self,
        root: Path,
        extra_train: Sequence[str] = (),
        tables: Literal["train", "all"] = "train",
        apart: Literal["table", "page"] = "table",
        per_table: Annotated[int, Field(gt=0)] = 8,
        dev_share: Annotated[float, Field(gt=0, lt=1)] = 0.05,
        gold_only: bool = False,
        kinds: Annotated[Sequence[Kind], Field(min_length=1)] = get_args(Kind),
        parts: Annotated[Sequence[Part], Field(min_length=1)] = get_args(Part),
        seed: Annotated[int, Field(ge=0)] = 0,
        download: Literal["auto", False] = False,
        damaged: Literal["error", "skip"] = "error",
        name: str = "hybridqa_synthetic",
    ) -> None:
        self.release = HybridQA(root, extra_train=extra_train, download=download, damaged=damaged)
        self.root, self.name = self.release.root, name
        self.tables_of, self.apart, self.per_table = tables, apart, per_table
        self.dev_share, self.gold_only, self.kinds, self.parts, self.seed = dev_share, gold_only, kinds, parts, seed
        self.left_out: tuple[str, ...] = ()
        self._made: dict[str, list[Made]] = {}

    @property
    def splits(self) -> tuple[str, ...]:
        """Always train and dev, where the release is."""
        return SPLITS if self.release.splits else ()

    @property
    def facts(self) -> Mapping[str, str]:
        """Nothing that the record of the configuration does not say."""
        return {}

    def examples(self, split: str) -> list[TableExample]:
        """Return all questions of a split, table by table.

        Raises:
            DataError: there is no such split, or the release is missing or damaged.
        """
        return [example for example, _ in self.make(split)]

    def make(self, split: str) -> list[Made]:
        """Return the questions of a split, each as an example and with how it was made.

        Raises:
            DataError: there is no such split, or the release is missing or damaged.
        """
        if split not in SPLITS:
            raise DataError(f"has no split {split!r}; choose from {', '.join(SPLITS)}", where=self.name)
        if split not in self._made:
            tables = [
                table for name, table in self.tables.items() if (self._place(name) < self.dev_share) == (split == "dev")
            ]
            shown = track(tables, f"making questions for {split}", "tables")
            self._made[split] = [made for table in shown for made in self.of_table(table)]
        return self._made[split]

    def of_table(self, table: Table) -> list[Made]:
        """Return the questions of one table."""
        rng = np.random.default_rng((self.seed, _digest(table.table_id)))
        most = len(table.rows) * len(table.header) if self.gold_only else MAX_CANDIDATES
        questions = make_questions(table, rng, self.per_table, most, self.kinds)
        examples = (as_example(table, made, at, gold_only=self.gold_only) for at, made in enumerate(questions))
        return [made for made in zip(examples, questions, strict=True) if made[0].subsets[0] in self.parts]

    @cached_property
    def tables(self) -> Mapping[str, Table]:
        """The tables that are asked about, by id and in the order of the ids; `left_out` names those that are not.

        Raises:
            DataError: the release is missing or damaged.
        """
        evaluated = {
            question.table_id
            for split in EVALUATED
            if split in self.release.splits
            for question in self.release.questions(split, [])
        }
        found = {example.table.table_id: example.table for example in self.release.examples("train")}
        if self.tables_of == "all":
            found |= dict(_tables(self.release, found.keys() | evaluated))
        pages = {_page(name) for name in evaluated} if self.apart == "page" else set()
        kept = {name for name in found if name not in evaluated and _page(name) not in pages}
        self.left_out = tuple(sorted(evaluated | (found.keys() - kept)))
        return {name: found[name] for name in sorted(kept)}

    def check(self) -> CheckReport:
        """Make all questions and count them, by their source and by how they were made."""
        splits = {split: self.make(split) for split in SPLITS}
        counts = {split: _count(made) for split, made in splits.items()}
        note = f"{len(self.left_out):,} tables are left out, as dev or test ask about them or their page"
        examples = {split: [example for example, _ in made] for split, made in splits.items()}
        return CheckReport((), counts, measure_sizes(examples).percentiles(), (Problem(str(self.root), "", note),))

    def fetch(self) -> None:
        """Fetch the public release into `root`; what is there and intact is kept."""
        self.release.fetch()

    def _place(self, table_id: str) -> float:
        """Place a table between 0 and 1, at random but always the same."""
        return _digest(f"{self.seed}|{table_id}") / 2**64


def _tables(release: HybridQA, known: Collection[str]) -> Iterator[tuple[str, Table]]:
    """Return all sound tables of a release but those that are known, by id."""
    found: dict[str, Table] = {}
    for file, content in read_members(release.store("tables_tok"), "tables_tok"):
        name = file.removesuffix(".json")
        table = None if name in known else parse_hybridqa_table(name, content, [])
        if table is not None:
            found[name] = table
    for file, content in read_members(release.store("request_tok"), "request_tok"):
        name = file.removesuffix(".json")
        if name in found:
            yield name, attach_passages(found.pop(name), content, [])


def _page(table_id: str) -> str:
    """Return the page of a table; ids end in the table's place in it."""
    return table_id.rpartition("_")[0]


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.sha1(text.encode(), usedforsecurity=False).digest()[:8], "big")


def _count(made: Sequence[Made]) -> dict[str, int]:
    kinds = Counter(question.kind.replace("_", " ") for _, question in made)
    tables = len({example.table.table_id for example, _ in made})
    sources = Counter("passage" if question.link else "table" for _, question in made)
    return {"questions": len(made), "tables": tables, **dict(sorted(sources.items())), **dict(sorted(kinds.items()))}
