"""TabFact: statements that a table entails or refutes.

Source: Chen et al. 2020, "TabFact: A Large-scale Dataset for Table-based Fact Verification";
wenhuchen/Table-Fact-Checking.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import PurePath
from typing import Any

from mate_cli.data.archive import find_store, read_members
from mate_cli.data.check import Problem, is_ragged, parse_json_as
from mate_cli.data.datasets.release import Release
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table

LABELS = ("refuted", "entailed")
"""Names of the labels 0 and 1."""
TABLES = "data/all_csv"
SUBSETS = {
    "simple": ("data/simple_ids.json", "data/simple_test_id.json"),
    "complex": ("data/complex_ids.json", "data/complex_test_id.json"),
    "small": ("data/small_test_id.json",),
}
"""Which files list the tables of a part: written about in the first round (simple) or in the second one (complex)."""


class TabFact(Release):
    """The TabFact release as it lies on disk: tokenized_data, the lists of data, and data/all_csv or an archive of it.

    Statements are scored apart by "simple" and "complex", those of the test split also by "small", the part whose
    human accuracy was measured. A table's title is its caption; the reference does not feed it to the model.

    Args:
        root: the folder of the files; each may be packed by itself, all_csv may be an archive here or in data.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._raw: dict[str, bytes] = {}
        self._tables: dict[str, tuple[Table | None, list[Problem]]] = {}

    @property
    def split_files(self) -> Mapping[str, str]:
        """The statements of each split; the authors call dev "val"."""
        names = {"train": "train", "dev": "val", "test": "test"}
        return {split: f"tokenized_data/{name}_examples.json" for split, name in names.items()}

    def read(self, split: str, problems: list[Problem]) -> list[TableExample]:
        """The sound statements of a split, in the order of the file; see `Release.read`."""
        file = self.split_files[split]
        what = "an object of [statements, labels, caption] by table"
        entries = parse_json_as(dict, what, file, self.need(file), problems) or {}
        problems += self._lists[1]
        self._read_tables(entries)
        examples: list[TableExample] = []
        for key, entry in entries.items():
            examples += self._examples(file, key, entry, split, problems)
        return examples

    def _examples(
        self,
        file: str,
        key: str,
        entry: Any,  # noqa: ANN401 - what JSON holds
        split: str,
        problems: list[Problem],
    ) -> list[TableExample]:
        wrong = _damage(entry)
        if wrong:
            problems.append(Problem(file, key, wrong))
            return []
        statements, labels, caption = entry
        if not statements or not isinstance(caption, str):
            what = "the caption is no text" if statements else "has no statements"
            self.suspicions.append(Problem(file, key, what))
        table, damage = self._table(key, str(caption))
        problems += damage
        if table is None:
            return []
        lists = self._lists[0].items()
        subsets = tuple(part for part, keys in lists if key in keys and (part != "small" or split == "test"))
        return [
            TableExample(f"{key}_{place}", text, table, Answer((LABELS[label],), label=label), subsets=subsets)
            for place, (text, label) in enumerate(zip(statements, labels, strict=True))
        ]

    @cached_property
    def _lists(self) -> tuple[dict[str, set[str]], list[Problem]]:
        """The tables of each subset, as far as its lists are there, and what is wrong with them."""
        problems: list[Problem] = []
        return {part: self._listed(files, problems) for part, files in SUBSETS.items()}, problems

    def _listed(self, files: Sequence[str], problems: list[Problem]) -> set[str]:
        keys: set[str] = set()
        for file in files:
            content = self.content(file)
            if content is not None:
                keys |= {str(key) for key in parse_json_as(list, "a list of tables", file, content, problems) or ()}
        return keys

    def _read_tables(self, keys: Collection[str]) -> None:
        """Take the files of the tables that are not in memory yet; one pass over an archive serves every split."""
        inside = (key for key in keys if PurePath(key).name == key)  # not "../elsewhere"
        wanted = {key for key in inside if key not in self._tables and key not in self._raw}
        if not wanted:
            return
        places = (find_store(self.root, TABLES, "Table-Fact-Checking"), find_store(self.root, "all_csv"))
        store = next((place for place in places if place is not None), None)
        if store is None:
            raise self.refusal((TABLES,))
        for name, content in read_members(store, "all_csv", wanted if store.is_dir() else None):
            self._raw.setdefault(name, content)

    def _table(self, key: str, caption: str) -> tuple[Table | None, list[Problem]]:
        """A table and what is wrong with it, which every split that needs the table has to hear of."""
        if key not in self._tables:
            file, content, problems = f"{TABLES}/{key}", self._raw.pop(key, None), []
            if content is None:
                problems.append(Problem(file, key, "is not there"))
            table = None if content is None else parse_tabfact_table(file, key, content, caption, problems)
            self._tables[key] = table, problems
        return self._tables[key]


def parse_tabfact_table(file: str, key: str, content: bytes, caption: str, problems: list[Problem]) -> Table | None:
    """Read one table: '#' between cells, the first line being the header, no quoting; None when it is damaged.

    The reference reads quotes as csv does, which only matters for cells that begin with one.
    """
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        problems.append(Problem(file, key, f"is not UTF-8 ({error.reason} at byte {error.start})"))
        return None
    if not text.strip():
        problems.append(Problem(file, key, "is empty"))
        return None
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    header, *rows = (tuple(Cell(cell) for cell in line.split("#")) for line in lines)
    if is_ragged(file, key, header, rows, problems):
        return None
    return Table(key, header, tuple(rows), caption)


def _damage(entry: Any) -> str:  # noqa: ANN401 - what JSON holds
    """What is wrong with the entry of a table; "" when nothing is."""
    if not isinstance(entry, list) or len(entry) != 3 or not all(isinstance(part, list) for part in entry[:2]):
        return "should be [statements, labels, caption]"
    statements, labels, _ = entry
    if len(statements) != len(labels):
        return f"has {len(statements)} statements but {len(labels)} labels"
    if not all(isinstance(text, str) and text.strip() for text in statements):
        return "a statement is empty or no text"
    if not all(type(label) is int and 0 <= label < len(LABELS) for label in labels):
        return "a label is neither 0 nor 1"
    return ""
