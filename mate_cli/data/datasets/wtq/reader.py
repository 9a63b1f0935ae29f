"""WikiTableQuestions: questions about tables of Wikipedia, with answers given only as texts.

Source: Pasupat and Liang 2015, "Compositional Semantic Parsing on Semi-Structured Tables";
ppasupat/WikiTableQuestions 1.0.2.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any, ClassVar, Literal

from mate_cli.data.check import Problem
from mate_cli.data.datasets.file_formats import CsvTables, open_end, parse_csv_table, read_lines
from mate_cli.data.datasets.release import Release
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.supervision import CellFinder, Mode, supervise
from mate_cli.tables.table import Table
from mate_cli.tables.text import wtq_normalize

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "p": "|"}

_SIGNS = ("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "1.#IND", "1.#QNAN", "-NaN", "-nan", "NaN", "nan")
NO_VALUE = frozenset([*_SIGNS, "<NA>", "N/A", "NA", "NULL", "n/a", "null"])
"""Cell texts that pandas, and therefore the table reader of google-research/tapas, reads as missing values."""


def unescape(text: str) -> str:
    r"""Unescape a field of a TSV file: \n is a line break, \p is |, and \\ is a backslash."""
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), text) if "\\" in text else text


def items(field: str) -> tuple[str, ...]:
    """Split a list field such as "a|b" into its texts. An empty field yields no texts."""
    return tuple(unescape(item) for item in field.split("|")) if field else ()


def rows(
    file: str, content: bytes, names: Sequence[str], problems: list[Problem], suspicions: list[Problem]
) -> Iterator[dict[str, str]]:
    """Yield {column name: field} for each line of a TSV file, with the given columns only.

    Escape sequences in fields are not replaced.

    Lines that are too short are skipped and reported as problems.

    Args:
        file: name of the file.
        content: content of the file.
        names: names of the columns to return.
        problems: list that receives the problems.
        suspicions: list that receives possible damage of readable lines.
    """
    header, *lines = [line.split("\t") for line in read_lines(file, content, problems)] or [[]]
    if not header:
        return
    absent = [name for name in names if name not in header]
    if absent:
        problems.append(Problem(file, "", f"line 1 has no column {', '.join(absent)}, but {', '.join(header)[:200]}"))
        return
    column_indices = {name: header.index(name) for name in names}
    for number, fields in enumerate(lines, 2):
        if len(fields) <= max(column_indices.values()):
            message = f"has {len(fields)} fields, not {len(header)}"
            problems.append(Problem(file, f"line {number}", message))
        else:
            if len(fields) > len(header):
                suspicions.append(Problem(file, f"line {number}", f"has {len(fields)} fields, not {len(header)}"))
            yield {name: fields[index] for name, index in column_indices.items()}
    if not lines or len(lines[-1]) == len(header):
        suspicions += open_end(file, content)


COLUMNS = ("id", "utterance", "context", "targetValue")
TITLES = "misc/table-metadata.tsv"


@dataclass(eq=False, kw_only=True)
class WikiTableQuestions(Release):
    """Reader of WikiTableQuestions: questions about Wikipedia tables, answered by texts.

    The release has the folders data and csv, and optionally misc and tagged.

    The splits are train and dev (one of five random divisions of the training part), test (questions about tables
    that are not in the training part) and seen (further questions about tables of the training part).

    Supervision is derived from the answer texts (`tables.supervision`): cells, a number, or both. In train, an answer
    that occurs in several cells has no training signal. In other splits the first of these cells is used.
    google-research/tapas reads the questions as CSV with quoting, which the release does not use. The reader of
    google-research/tapas therefore loses 21 questions of dev, 21 of seen, and quotation marks around whole answers.

    Args:
        root: folder with the folder data (questions) and the folder csv (tables), which may be an archive.
        fold: number of the random division into train and dev.
        whole_train: whether to train on the whole training part, which includes the questions of dev.
        normalize_cells: whether to normalize body cells as answers are compared (lower case, without footnote marks
            and so on), as google-research/tapas does. Headers are not changed.
        missing: text that replaces empty cells and cells such as "NA" and "null". google-research/tapas uses "nan".
            None leaves such cells unchanged.
    """

    as_written: ClassVar[Mapping[str, Any]] = {"normalize_cells": False}

    fold: Literal[1, 2, 3, 4, 5] = 1
    whole_train: bool = False
    normalize_cells: bool = True
    missing: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._tables = CsvTables(self.content, self._parse)

    @property
    def split_files(self) -> Mapping[str, str]:
        """Path of the question file of each split, relative to the root of the dataset."""
        names = {
            "train": "training" if self.whole_train else f"random-split-{self.fold}-train",
            "dev": f"random-split-{self.fold}-dev",
            "test": "pristine-unseen-tables",
            "seen": "pristine-seen-tables",
        }
        return {split: f"data/{name}.tsv" for split, name in names.items()}

    def read(self, split: str, problems: list[Problem]) -> Iterator[TableExample]:
        """Yield the valid questions of a split, in the order of the file. See `Release.read`."""
        file = self.split_files[split]
        mode: Mode = "remove_all_strict" if split == "train" else "remove_all"
        canonical, finders = self._canonical(split), dict[str, CellFinder]()
        for row in rows(file, self.need(file), COLUMNS, problems, self.suspicions):
            key, question, context = (unescape(row[name]) for name in COLUMNS[:3])
            table = self._tables.get(context, problems)
            if not question.strip():
                problems.append(Problem(file, key, "the question is empty"))
            elif table is not None:
                finder = finders.setdefault(context, CellFinder(table))
                texts = items(row["targetValue"])
                stated_answer = Answer(texts, canonical=canonical.get(key) or texts)
                # Blank answers are withheld.
                answer = supervise(stated_answer, finder, mode) if "".join(stated_answer.texts).strip() else None
                yield TableExample(key, question, table, answer)

    @cached_property
    def train_tables(self) -> Collection[str]:
        """Ids of the tables in the train split, to score questions about other tables separately.

        The split "seen" has questions about tables of dev too.

        Questions about tables that are not in train are scored separately.
        """
        return {unescape(row["context"]) for row in rows("train", self.train_content(), ("context",), [], [])}

    def _canonical(self, split: str) -> dict[str, tuple[str, ...]]:
        """Return {question id: answer texts} with normalized numbers and dates ("1995-xx-xx").

        The authors made these texts with CoreNLP for their evaluator. Some copies of the release lack the file.
        """
        name = PurePosixPath(self.split_files[split]).stem if split in ("test", "seen") else "training"
        file = f"tagged/data/{name}.tagged"
        content = self.content(file)
        if content is None:
            return {}
        lines = rows(file, content, ("id", "targetCanon"), self.notes, [])
        return {unescape(row["id"]): items(row["targetCanon"]) for row in lines}

    def _parse(self, file: str, content: bytes, problems: list[Problem]) -> Table | None:
        table = parse_csv_table(
            file, content, problems, self.notes, suspicions=self.suspicions, backslashes=True, clean=self._clean
        )
        return table and replace(table, title=self._titles.get(file, ""))

    def _clean(self, text: str) -> str:
        if self.missing is not None and (not text or text in NO_VALUE):
            return self.missing
        return wtq_normalize(text) if self.normalize_cells else text

    @cached_property
    def _titles(self) -> dict[str, str]:
        """Page title of each table, by table id. {} if the file of titles is missing."""
        content = self.content(TITLES)
        lines = rows(TITLES, content, ("contextId", "title"), self.notes, []) if content is not None else ()
        return {row["contextId"]: unescape(row["title"]) for row in lines}
