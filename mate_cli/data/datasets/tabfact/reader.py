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
"""Possible folders of the tables. The release uses the first folder."""
SUBSETS = {
    "simple": ("data/simple_ids.json", "data/simple_test_id.json"),
    "complex": ("data/complex_ids.json", "data/complex_test_id.json"),
    "small": ("data/small_test_id.json",),
}
"""Files that list the tables of each subset: statements of the first (simple) or second (complex) annotation round."""
IDS = {"train": "data/train_id.json", "dev": "data/val_id.json", "test": "data/test_id.json"}
"""Files that list the tables of each split. The authors call dev "val"."""
ORIGINAL = ("collected_data/r1_training_all.json", "collected_data/r2_training_all.json")
"""Files of the original statements of both annotation rounds, by table."""
LEMMATIZED = {
    split: f"tokenized_data/{name}_examples.json" for split, name in zip(IDS, ("train", "val", "test"), strict=True)
}
NOT_COLLECTED = f"has no statements in {' or '.join(ORIGINAL)}"
CONTENT = "an object of [statements, labels, caption] by table"


@dataclass(eq=False, kw_only=True)
class TabFact(Release):
    """Reader of TabFact: statements that a table entails or refutes.

    The release has two forms of its statements. google-research/tapas reads the original statements (collected_data,
    with the tables of each split in data/*_id.json). The networks of the TabFact authors read lemmatized words
    (tokenized_data).

    The subsets "simple" and "complex" are scored separately, and in the test split also "small", the subset with a
    measured human accuracy. The title of a table is its caption, which google-research/tapas does not give to the
    model.

    Args:
        root: folder with collected_data or tokenized_data, data, and all_csv (here or in data), see `ReleaseFiles`.
        statements: "original" or "lemmatized". "auto" means "original" if collected_data exists.

    Source: google-research/tapas, `utils/tabfact_utils.py`. For a table in both rounds the second round is used.
    """

    metric = "mate_cli.metrics.system_answers.Statements"

    statements: Literal["auto", "original", "lemmatized"] = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._tables: dict[str, tuple[Table | None, list[Problem]]] = {}

    @property
    def split_files(self) -> Mapping[str, str]:
        """File from which each split is read, which depends on the form of the statements.

        The file lists the table ids of the split, or contains the statements if they are lemmatized.
        """
        return IDS if self._original else LEMMATIZED

    @property
    def wanted_files(self) -> Sequence[str]:
        """Paths of the required files, for error messages."""
        lemmatized = () if self.statements == "original" else tuple(LEMMATIZED.values())
        return lemmatized if self.statements == "lemmatized" else (*ORIGINAL, *IDS.values(), *lemmatized)

    @property
    def facts(self) -> Mapping[str, str]:
        """Note for the run record: whether the statements are original or lemmatized."""
        return {"statements": "original (collected_data)" if self._original else "lemmatized (tokenized_data)"}

    def check(self) -> CheckReport:
        """Check the release, and note the form of the statements. See `Release.check`."""
        report = super().check()
        return replace(report, notes=(Problem("statements", "", self.facts["statements"]), *report.notes))

    def read(self, split: str, problems: list[Problem]) -> Iterator[TableExample]:
        """Yield the valid statements of a split, in the order of the file. See `Release.read`."""
        read_entries = self._original_entries if self._original else self._lemmatized_entries
        entries = read_entries(split, problems)
        problems += self._lists[1]
        if entries and not any(map(self._files.has_folder, TABLES)):
            raise self.missing_files_error(TABLES[:1])
        for key, (file, entry) in entries.items():
            yield from self._examples(file, key, entry, split, problems)

    @property
    def _original(self) -> bool:
        """True if the original statements are read, False for the lemmatized statements.

        A download may change the value.
        """
        return self.statements == "original" or (self.statements == "auto" and any(map(self._has_file, ORIGINAL)))

    def _lemmatized_entries(self, split: str, problems: list[Problem]) -> dict[str, tuple[str, Any]]:
        """Return {table id: (file, entry)} for the lemmatized statements of a split.

        Each entry has the statements about a table and their labels.
        """
        file = LEMMATIZED[split]
        entries = parse_json_as(dict, CONTENT, file, self.need(file), problems) or {}
        return {key: (file, entry) for key, entry in entries.items()}

    def _original_entries(self, split: str, problems: list[Problem]) -> dict[str, tuple[str, Any]]:
        """Return {table id: (file, entry)} for the original statements of a split.

        Each entry has the statements about a table and their labels.
        """
        file, (statements, collection_problems) = IDS[split], self._annotations
        keys = parse_json_as(list, "a list of tables", file, self.need(file), problems) or []
        if not _are_names(file, keys, problems):
            return {}
        problems += collection_problems
        if not collection_problems:
            problems += [Problem(file, key, NOT_COLLECTED) for key in keys if key not in statements]
        problems += [Problem(file, key, "is listed twice") for key, count in Counter(keys).items() if count > 1]
        return {key: statements[key] for key in keys if key in statements}

    @cached_property
    def _annotations(self) -> tuple[dict[str, tuple[str, Any]], list[Problem]]:
        """Original statements of both annotation rounds, as {table id: (file, entry)}.

        The second value is a list of the problems of the files.
        """
        tables: dict[str, tuple[str, Any]] = {}
        problems: list[Problem] = []
        for file in ORIGINAL:
            entries = parse_json_as(dict, CONTENT, file, self.need(file), problems) or {}
            tables |= {key: (file, entry) for key, entry in entries.items()}
        return tables, problems

    def _examples(self, file: str, key: str, entry: Any, split: str, problems: list[Problem]) -> list[TableExample]:  # noqa: ANN401
        damage_text = _damage(entry)
        if damage_text:
            problems.append(Problem(file, key, damage_text))
            return []
        statements, labels, caption = entry
        if not statements or not isinstance(caption, str):
            problem = "the caption is not text" if statements else "has no statements"
            self.suspicions.append(Problem(file, key, problem))
        table, damage = self._table(file, key, str(caption))
        problems += damage
        if table is None:
            return []
        lists = self._lists[0].items()
        subsets = tuple(part for part, keys in lists if key in keys and (part != "small" or split == "test"))
        return [
            TableExample(f"{key}_{index}", text, table, Answer((VERDICTS[label],), label=label), subsets=subsets)
            for index, (text, label) in enumerate(zip(statements, labels, strict=True))
        ]

    @cached_property
    def _lists(self) -> tuple[dict[str, set[str]], list[Problem]]:
        """Ids of the tables in each subset, read from lists on disk, and problems of these lists."""
        problems: list[Problem] = []
        return {part: self._read_ids(files, problems) for part, files in SUBSETS.items()}, problems

    def _read_ids(self, files: Sequence[str], problems: list[Problem]) -> set[str]:
        keys: set[str] = set()
        for file in files:
            content = self.content(file)
            if content is not None:
                names = parse_json_as(list, "a list of tables", file, content, problems) or []
                keys |= {*names} if _are_names(file, names, problems) else set()
        return keys

    def _table(self, statements: str, key: str, caption: str) -> tuple[Table | None, list[Problem]]:
        """Read a table, None if missing or damaged, and the problems of its file. Cache both."""
        if key not in self._tables:
            file, problems = f"{TABLES[0]}/{key}", list[Problem]()
            # A key with a path, such as "../elsewhere", is not read.
            paths = (f"{folder}/{key}" for folder in TABLES if PurePath(key).name == key)
            content = next((candidate for path in paths if (candidate := self.content(path)) is not None), None)
            if content is None:
                problems.append(Problem(file, key, f"is not there, but has statements in {statements}"))
            table = None if content is None else parse_tabfact_table(file, key, content, caption, problems)
            self._tables[key] = table, problems
        return self._tables[key]


def _are_names(file: str, keys: Sequence[Any], problems: list[Problem]) -> bool:
    """Return whether all names in a list of tables are texts.

    The first invalid entry is appended to `problems`.
    """
    invalid_index = next((index for index, key in enumerate(keys) if not isinstance(key, str)), None)
    problems += [] if invalid_index is None else [Problem(file, f"entry {invalid_index}", "is not the name of a table")]
    return invalid_index is None


def parse_tabfact_table(file: str, key: str, content: bytes, caption: str, problems: list[Problem]) -> Table | None:
    """Parse a table file of TabFact, a header line and rows with '#' between their cells.

    Quotes have no special meaning.

    Return None if it is damaged.

    google-research/tapas reads quotes as CSV does, which only affects cells that start with a quote.

    Args:
        file: name of the file.
        key: id of the table.
        content: content of the file.
        caption: caption of the table, which becomes its title.
        problems: list that receives the problems.
    """
    lines = read_lines(file, content, problems, key)
    if not lines:
        return None
    header, *rows = (tuple(Cell(cell) for cell in line.split("#")) for line in lines)
    if is_ragged(file, key, header, rows, problems):
        return None
    return Table(key, header, tuple(rows), caption)


def _damage(entry: Any) -> str:  # noqa: ANN401 - what JSON holds
    """Describe why a table's entry [statements, labels, caption] is invalid, else return ""."""
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
