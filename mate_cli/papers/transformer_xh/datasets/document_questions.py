"""Base of the readers of questions about several documents: files of entries, folds, documents as rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from mate_cli.data.check import Problem
from mate_cli.data.datasets.entries import find_name, note_damage, read_entries
from mate_cli.data.datasets.release import Release
from mate_cli.errors import DataError
from mate_cli.tables.example import Answer, EvidenceExample, TableExample
from mate_cli.tables.table import Cell, Table

FOLDS = 5
HEADER = (Cell("document"),)


@dataclass(eq=False, kw_only=True)
class DocumentQuestions(Release):
    """Questions in files of JSON or of JSON lines, each with its documents.

    Args:
        train_file: questions to learn from, below the root; None for none.
        dev_file: questions of the dev split; the same file as for training may be named, to overfit.
        test_file: questions of the test split.
        fold: 1 to 5: every fifth question of `train_file` is dev, and the others are train.
    """

    metric = "mate_cli.papers.transformer_xh.metrics.supporting.SupportedAnswers"

    train_file: str | None = None
    dev_file: str | None = None
    test_file: str | None = None
    fold: Annotated[int, Field(ge=1, le=FOLDS)] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.train_file or self.dev_file or self.test_file):
            raise DataError("no file was given", where=self.name, remedy="Set data.train_file, dev_file or test_file")
        if self.fold and not self.train_file:
            raise DataError("folds need a train file", where="data.fold", remedy="Set data.train_file")

    @property
    def split_files(self) -> Mapping[str, str]:
        """The file of each split; those of a fold share one."""
        dev = self.train_file if self.fold else self.dev_file
        files = {"train": self.train_file, "dev": dev, "test": self.test_file}
        return {split: file for split, file in files.items() if file}

    def read(self, split: str, problems: list[Problem]) -> list[TableExample]:
        """Return the sound questions of a split, in the order of the file; see `Release.read`."""
        file = self.split_files[split]
        found = []
        for place, (key, entry) in enumerate(read_entries(file, self.need(file), problems)):
            if self.fold and split != "test" and (place % FOLDS == self.fold - 1) != (split == "dev"):
                continue
            with note_damage(file, find_name(entry) or key, problems):
                found.append(self.example(file, key, entry, problems))
        return found

    @abstractmethod
    def example(self, file: str, key: str, entry: Mapping[str, Any], problems: list[Problem]) -> TableExample:
        """Read one entry of a file; what is wrong in it though it can be used is appended to `problems`.

        Raises:
            DamagedEntryError: it cannot be used.
        """


def document_example(
    name: str,
    question: str,
    documents: Sequence[tuple[str, Sequence[str]]],
    answers: Sequence[str] | None,
    rows: Sequence[int],
    **known: Any,
) -> EvidenceExample:
    """Return a question about documents, each a row of one cell.

    `answers` are the answer and other ways to say it, `rows` the documents that lead to it; `known` is what else
    `EvidenceExample` takes.
    """
    links = [f"{place}/{title}" for place, (title, _) in enumerate(documents)]
    table = Table(
        table_id=name,
        header=HEADER,
        rows=tuple((Cell(title, (link,)),) for link, (title, _) in zip(links, documents, strict=True)),
        passages={link: "".join(texts) for link, (_, texts) in zip(links, documents, strict=True)},
    )
    sentences = tuple(tuple(text.strip() for text in texts) for _, texts in documents)
    coordinates = tuple((row, 0) for row in sorted(set(rows)))
    answer = None if answers is None else Answer(tuple(answers), coordinates, "passage" if coordinates else "missing")
    return EvidenceExample(name, question, table, answer, sentences=sentences, **known)
