"""TabFact: statements that a table entails or refutes.

Source: Chen et al. 2020, "TabFact: A Large-scale Dataset for Table-based Fact Verification";
wenhuchen/Table-Fact-Checking.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePath
from typing import Any, Literal

from mate_cli.data.check import CheckReport, Problem, is_ragged, parse_json_as
from mate_cli.data.datasets.file_formats import read_lines
from mate_cli.data.datasets.release import Release
from mate_cli.tables.example import VERDICTS, Answer, TableExample
from mate_cli.tables.table import Cell, Table

TABLES = ("data/all_csv", "all_csv")
"""Folders of the tables; the authors keep them in the first folder."""
SUBSETS = {
    "simple": ("data/simple_ids.json", "data/simple_test_id.json"),
    "complex": ("data/complex_ids.json", "data/complex_test_id.json"),
    "small": ("data/small_test_id.json",),
}
"""Which files list the tables of a part: written about in the first round (simple) or in the second one (complex)."""
IDS = {"train": "data/train_id.json", "dev": "data/val_id.json", "test": "data/test_id.json"}
"""The tables of each split; the authors call dev "val"."""
ORIGINAL = ("collected_data/r1_training_all.json", "collected_data/r2_training_all.json")
"""The statements of both rounds as people wrote them, by table."""
LEMMATIZED = {
    split: f"tokenized_data/{name}_examples.json" for split, name in zip(IDS, ("train", "val", "test"), strict=True)
}
NOT_COLLECTED = f"has no statements in {' or '.join(ORIGINAL)}"
CONTENT = "an object of [statements, labels, caption] by table"


@dataclass(eq=False, kw_only=True)
class TabFact(Release):
    """The TabFact release as it lies on disk: statements, lists of tables, and data/all_csv.

    The release has its statements twice. google-research/tapas reads them as people wrote them (collected_data, with
    the tables of each split in data/*_id.json); the first networks of the data's authors read words in their base
    forms (tokenized_data).

    Statements are scored apart by "simple" and "complex", those of the test split also by "small", the part whose
    human accuracy was measured. A table's title is its caption; the reference does not feed it to the model.

    Args:
        root: holds collected_data or tokenized_data, data, and all_csv here or in data; see `ReleaseFiles`.
        statements: "original" or "lemmatized"; "auto" takes the original ones where collected_data is there.

    Source: google-research/tapas, `utils/tabfact_utils.py`: of a table in both rounds the second one counts.
    """

    metric = "mate_cli.metrics.system_answers.Statements"

    statements: Literal["auto", "original", "lemmatized"] = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._tables: dict[str, tuple[Table | None, list[Problem]]] = {}

    @property
    def split_files(self) -> Mapping[str, str]:
        """The tables of each split, or its statements where they are lemmatised."""
        return IDS if self._original else LEMMATIZED

    @property
    def wanted_files(self) -> Sequence[str]:
        """The files that are looked for, for people."""
        lemmatized = () if self.statements == "original" else tuple(LEMMATIZED.values())
        return lemmatized if self.statements == "lemmatized" else (*ORIGINAL, *IDS.values(), *lemmatized)

    @property
    def facts(self) -> Mapping[str, str]:
        """The form of the statements."""
        return {"statements": "original (collected_data)" if self._original else "lemmatized (tokenized_data)"}

    def check(self) -> CheckReport:
        """Check as every release is checked, and note which form of the statements was read."""
        report = super().check()
        return replace(report, notes=(Problem("statements", "", self.facts["statements"]), *report.notes))

    def read(self, split: str, problems: list[Problem]) -> Iterator[TableExample]:
        """Yield the sound statements of a split, in the order of the file; see `Release.read`."""
        read = self._original_entries if self._original else self._lemmatized_entries
        entries = read(split, problems)
        problems += self._lists[1]
        if entries and not any(map(self._files.has_folder, TABLES)):
            raise self.refusal(TABLES[:1])
        for key, (file, entry) in entries.items():
            yield from self._examples(file, key, entry, split, problems)

    @property
    def _original(self) -> bool:
        """Tell whether the statements are read as people wrote them; a download may bring them."""
        return self.statements == "original" or (self.statements == "auto" and any(map(self._has, ORIGINAL)))

    def _lemmatized_entries(self, split: str, problems: list[Problem]) -> dict[str, tuple[str, Any]]:
        """Read the entries about each table of a split, and in which file."""
        file = LEMMATIZED[split]
        entries = parse_json_as(dict, CONTENT, file, self.need(file), problems) or {}
        return {key: (file, entry) for key, entry in entries.items()}

    def _original_entries(self, split: str, problems: list[Problem]) -> dict[str, tuple[str, Any]]:
        """Read the entries about each table of a split, and in which file."""
        file, (statements, wrong) = IDS[split], self._collected
        keys = parse_json_as(list, "a list of tables", file, self.need(file), problems) or []
        if not _are_names(file, keys, problems):
            return {}
        problems += wrong
        if not wrong:
            problems += [Problem(file, key, NOT_COLLECTED) for key in keys if key not in statements]
        problems += [Problem(file, key, "is listed twice") for key, count in Counter(keys).items() if count > 1]
        return {key: statements[key] for key in keys if key in statements}

    @cached_property
    def _collected(self) -> tuple[dict[str, tuple[str, Any]], list[Problem]]:
        """Read the entries about each table in the files of both rounds, and what is wrong with these."""
        tables: dict[str, tuple[str, Any]] = {}
        problems: list[Problem] = []
        for file in ORIGINAL:
            entries = parse_json_as(dict, CONTENT, file, self.need(file), problems) or {}
            tables |= {key: (file, entry) for key, entry in entries.items()}
        return tables, problems

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
            what = "the caption is not text" if statements else "has no statements"
            self.suspicions.append(Problem(file, key, what))
        table, damage = self._table(file, key, str(caption))
        problems += damage
        if table is None:
            return []
        lists = self._lists[0].items()
        subsets = tuple(part for part, keys in lists if key in keys and (part != "small" or split == "test"))
        return [
            TableExample(f"{key}_{place}", text, table, Answer((VERDICTS[label],), label=label), subsets=subsets)
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
                listed = parse_json_as(list, "a list of tables", file, content, problems) or []
                keys |= {*listed} if _are_names(file, listed, problems) else set()
        return keys

    def _table(self, statements: str, key: str, caption: str) -> tuple[Table | None, list[Problem]]:
        """Return a table and what is wrong with it, which every split that needs the table has to hear of."""
        if key not in self._tables:
            file, problems = f"{TABLES[0]}/{key}", list[Problem]()
            places = (f"{folder}/{key}" for folder in TABLES if PurePath(key).name == key)  # not "../elsewhere"
            content = next((candidate for place in places if (candidate := self.content(place)) is not None), None)
            if content is None:
                problems.append(Problem(file, key, f"is not there, but has statements in {statements}"))
            table = None if content is None else parse_tabfact_table(file, key, content, caption, problems)
            self._tables[key] = table, problems
        return self._tables[key]


def _are_names(file: str, keys: Sequence[Any], problems: list[Problem]) -> bool:
    """Tell whether a list is of names; the first that is none is a problem."""
    wrong = next((place for place, key in enumerate(keys) if not isinstance(key, str)), None)
    problems += [] if wrong is None else [Problem(file, f"entry {wrong}", "is not the name of a table")]
    return wrong is None


def parse_tabfact_table(file: str, key: str, content: bytes, caption: str, problems: list[Problem]) -> Table | None:
    """Read one table: '#' between cells, the first line being the header, no quoting; None when it is damaged.

    The reference reads quotes as csv does, which only matters for cells that begin with one.
    """
    lines = read_lines(file, content, problems, key)
    if not lines:
        return None
    header, *rows = (tuple(Cell(cell) for cell in line.split("#")) for line in lines)
    if is_ragged(file, key, header, rows, problems):
        return None
    return Table(key, header, tuple(rows), caption)


def _damage(entry: Any) -> str:  # noqa: ANN401 - what JSON holds
    """Say what is wrong with the entry of a table; "" when nothing is."""
    if not isinstance(entry, list) or len(entry) != 3 or not all(isinstance(part, list) for part in entry[:2]):
        return "should be [statements, labels, caption]"
    statements, labels, _ = entry
    if len(statements) != len(labels):
        return f"has {len(statements)} statements but {len(labels)} labels"
    if not all(isinstance(text, str) and text.strip() for text in statements):
        return "a statement is empty or not text"
    if not all(type(label) is int and 0 <= label < len(VERDICTS) for label in labels):
        return "a label is neither 0 nor 1"
    return ""
