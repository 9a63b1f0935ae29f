"""Readers of evaluation sets whose tables are JSON.

Source: the repositories of the authors, NExTplusplus/TAT-QA (Zhu et al. 2021), Yale-LILY/FeTaQA (Nan et al. 2022),
infotabs/infotabs (Gupta et al. 2020), TableBench/TableBench (Wu et al. 2025) and google-research-datasets/ToTTo (Parikh
et al. 2020).
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, ClassVar, Literal

from mate_cli.data.check import Problem, parse_json_as
from mate_cli.data.datasets.file_formats import (
    DamagedEntryError,
    note_damage,
    read_entries,
    require_list,
    require_part,
    require_text,
    require_texts,
    require_type,
)
from mate_cli.data.datasets.hybridqa.reader import is_cell
from mate_cli.data.datasets.release import Release
from mate_cli.data.datasets.wtq.reader import rows
from mate_cli.tables.example import INFERENCES, SCALES, Answer, DescribedExample, ScaledExample, TableExample
from mate_cli.tables.formats.cell_text import spreadsheet_text
from mate_cli.tables.supervision import CellFinder, supervise
from mate_cli.tables.table import Cell, Table
from mate_cli.tables.text import candidate_cells

Entry = Mapping[str, Any]
ANSWER_SUBSETS = {"table": "table", "text": "passage", "table-text": "table-text"}
"""Subset of TAT-QA's questions by `answer_from`."""
MAX_CELLS = 1_000_000
"""Maximum cells of a table whose cells span rows and columns."""
LETTERS = {"C": 0, "E": 1, "N": 2}
"""Label by its letter in InfoTabS: contradiction, entailment or neutral."""
KINDS = ("span", "multi-span", "arithmetic", "count")
SUMS = re.compile(r"[\d\s.,$%+()\[\]]+(/\s*\d+\s*)?")
"""Derivations in TAT-QA that are sums or averages of numbers, the arithmetic that aggregations can compute."""


def build_table(name: str, lines: object, **texts: Any) -> Table:
    """Build a `Table` from lists of cell texts, of which the first list is the header.

    Args:
        name: id of the table.
        lines: lists of cell texts, all of the same length.
        texts: titles and passages of the table.

    Raises:
        DamagedEntryError: the lines are not lists of texts, or their lengths differ.
    """
    cells = [tuple(map(Cell, require_texts(line, "a line"))) for line in require_type(lines, list, "the table")]
    if len({*map(len, cells)}) != 1 or not cells[0]:
        raise DamagedEntryError("the table is empty, or its lines differ in length")
    return Table(name, cells[0], tuple(cells[1:]), **texts)


@dataclass(eq=False, kw_only=True)
class JsonTables(Release):
    """Base class of readers that parse each entry of a JSON file separately."""

    def read(self, split: str, problems: list[Problem]) -> Iterator[TableExample]:
        """Yield the valid questions of a split, in the order of the file. See `Release.read`."""
        file = self.split_files[split]
        for key, entry in read_entries(file, self.need(file), problems):
            with note_damage(file, key, problems):
                yield from self.parse(split, key, entry, problems)

    @abstractmethod
    def parse(self, split: str, key: str, entry: Entry, problems: list[Problem]) -> Iterable[TableExample]:
        """Return the questions of one JSON entry of a file as examples.

        Args:
            split: split of the entry.
            key: location of the entry in its file.
            entry: entry of the file.
            problems: list that receives the problems of single questions.

        Raises:
            DamagedEntryError: the whole entry cannot be used.
        """


@dataclass(eq=False, kw_only=True)
class TatQA(JsonTables):
    """Reader of TAT-QA: questions about a financial table and the paragraphs around it.

    The first line of a table is its header. The first body cell links to the paragraphs, which name no cells.

    Args:
        root: folder with dataset_raw.
        find: cells of an answer: "equal": body cells that equal its texts, and its number if the number is a sum, an
            average or a count. "holding": cells whose text or linked paragraph contains the answer, to train readers.
    """

    metric = "mate_cli.metrics.tatqa_official.ScaledAnswers"

    find: Literal["equal", "holding"] = "equal"

    split_files: ClassVar[Mapping[str, str]] = {
        split: f"dataset_raw/tatqa_dataset_{name}.json"
        for split, name in {"train": "train", "dev": "dev", "test": "test_gold"}.items()
    }

    def parse(self, split: str, key: str, entry: Entry, problems: list[Problem]) -> Iterator[TableExample]:
        """Yield the questions of one JSON entry, which are about the same table.

        See `JsonTables.parse`.
        """
        content, paragraphs = require_part(entry, "table", dict), require_part(entry, "paragraphs", list)
        passages = {f"paragraph {require_part(p, 'order', int)}": require_text(p, "text") for p in paragraphs}
        table = build_table(require_text(content, "uid"), content.get("table"), passages=passages)
        if table.rows:
            (first, *cells), *rows = table.rows
            table = replace(table, rows=((Cell(first.text, tuple(passages)), *cells), *rows))
        finder = CellFinder(table)
        for index, question in enumerate(require_list(entry, "questions")):
            with note_damage(self.split_files[split], f"{key}, question {index}", problems):
                yield self._example(require_type(question, dict, "it"), table, finder, is_strict=split == "train")

    def _example(self, entry: Entry, table: Table, finder: CellFinder, *, is_strict: bool) -> TableExample:
        kind, part, scale = (require_part(entry, name, str) for name in ("answer_type", "answer_from", "scale"))
        if kind not in KINDS or part not in ANSWER_SUBSETS or scale not in SCALES:
            raise DamagedEntryError("answer_type, answer_from or scale has an unknown value")
        value = entry.get("answer")
        if type(value) not in (int, float, str):
            value = require_texts(require_list(entry, "answer"), "answer")
        answer = Answer(tuple(value) if isinstance(value, list) else (str(value),))
        if self.find == "holding" and kind == "span":
            cells = tuple(candidate_cells(table, answer.texts[0]))
            answer = replace(answer, coordinates=cells, source=ANSWER_SUBSETS[part])
        elif kind == "arithmetic" and not SUMS.fullmatch(require_part(entry, "derivation", str)):
            answer = replace(answer, source="other arithmetic than sums and averages")
        else:
            answer = supervise(answer, finder, "remove_all_strict" if is_strict else "remove_all")
        names = require_text(entry, "uid"), require_text(entry, "question")
        return ScaledExample(*names, table, answer, subsets=(kind, ANSWER_SUBSETS[part]), scale=scale)


@dataclass(eq=False, kw_only=True)
class FeTaQA(JsonTables):
    """Reader of FeTaQA: questions about Wikipedia tables, answered by a free-form sentence.

    The coordinates of an answer are the highlighted cells, from which the sentence was written.

    Args:
        root: folder with data.
    """

    metric = "mate_cli.metrics.text_overlap.FreeTexts"

    split_files: ClassVar[Mapping[str, str]] = {s: f"data/fetaQA-v1_{s}.jsonl" for s in ("train", "dev", "test")}

    def parse(self, split: str, key: str, entry: Entry, problems: list[Problem]) -> list[TableExample]:
        """Convert a JSON entry to its question with table and answer, as the only list item.

        See `JsonTables.parse`.
        """
        titles = {"title": require_text(entry, "table_page_title"), "section_title": entry.get("table_section_title")}
        require_type(titles["section_title"], str, "table_section_title")
        name = f"{require_text(entry, 'page_wikipedia_url')}#{titles['section_title']}"
        table = build_table(name, entry.get("table_array"), **titles)
        pairs, lines = require_part(entry, "highlighted_cell_ids", list), (table.header, *table.rows)
        if not all(is_cell(pair, replace(table, rows=lines)) for pair in pairs):
            raise DamagedEntryError("highlighted_cell_ids has a pair that is not a cell of the table")
        # Row 0 of the file is the header.
        answer = Answer((require_text(entry, "answer"),), tuple((row - 1, column) for row, column in pairs if row))
        return [TableExample(str(require_part(entry, "feta_id", int)), require_text(entry, "question"), table, answer)]


@dataclass(eq=False, kw_only=True)
class TableBench(JsonTables):
    """Reader of TableBench: test questions of four types, answered by values or by a text.

    Questions that ask for a chart are excluded, because their answers are programs.

    Args:
        root: folder with the file of questions.
        file: name of the file.
    """

    metric = "mate_cli.metrics.text_overlap.BenchAnswers"
    untrainable = "has test questions only"

    file: str = "TableBench.jsonl"

    @property
    def split_files(self) -> Mapping[str, str]:
        """Path of the question file of the only split, "test"."""
        return {"test": self.file}

    def parse(self, split: str, key: str, entry: Entry, problems: list[Problem]) -> list[TableExample]:
        """Convert a JSON entry to its question with table and answer, as the only list item.

        See `JsonTables.parse`.
        """
        name, content = require_text(entry, "id"), require_part(entry, "table", dict)
        lines = [require_part(content, "columns", list), *require_part(content, "data", list)]
        table = build_table(name, [[*map(spreadsheet_text, require_type(line, list, "a line"))] for line in lines])
        subsets = tuple(require_text(entry, part).replace(" ", "_") for part in ("qtype", "qsubtype"))
        answer = Answer((require_text(entry, "answer"),), source="not derived")
        return [TableExample(name, require_text(entry, "question"), table, answer, subsets=subsets)]

    def skip_reason(self, example: TableExample) -> str:
        """Return "asks for a chart" for questions that are answered by a chart, else ""."""
        return "asks for a chart" if "Visualization" in example.subsets else ""


@dataclass(eq=False, kw_only=True)
class ToTTo(JsonTables):
    """Reader of ToTTo: descriptions of highlighted cells of a table of Wikipedia.

    The question states the highlighted cells. Cells that span rows or columns are repeated. The first line is the
    header. The references of the test split are not published.

    Args:
        root: folder with totto_data.
    """

    metric = "mate_cli.metrics.text_overlap.Descriptions"
    untrainable = "asks for new sentences, which no network here writes"

    split_files: ClassVar[Mapping[str, str]] = {s: f"totto_data/totto_{s}_data.jsonl" for s in ("train", "dev")}

    def parse(self, split: str, key: str, entry: Entry, problems: list[Problem]) -> list[TableExample]:
        """Return a list with the only example of a JSON entry, a description of highlighted cells.

        See `JsonTables.parse`.
        """
        lines, positions = expand_spans(require_list(entry, "table"))
        name = str(require_part(entry, "example_id", int))
        titles = {part: require_part(entry, f"table_{part}", str) for part in ("section_title", "section_text")}
        table = build_table(name, lines, title=require_text(entry, "table_page_title"), **titles)
        try:
            cells = [positions[row, index] for row, index in require_list(entry, "highlighted_cells")]
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedEntryError("highlighted_cells has a pair that is not a cell of the table") from error
        values = "; ".join(f"{lines[0][column]}: {lines[row][column]}" for row, column in cells)
        sentences = require_list(entry, "sentence_annotations")
        references = [require_part(sentence, "final_sentence", str) for sentence in sentences]
        answer = Answer(tuple(references), tuple((row - 1, column) for row, column in cells if row))
        subsets: tuple[str, ...] = ()
        if "overlap_subset" in entry:  # Only dev has this key.
            subsets = ("overlap" if require_part(entry, "overlap_subset", bool) else "nonoverlap",)
        question = f"Describe the highlighted cells in one sentence: {values}"
        highlighted = tuple(lines[row][column] for row, column in cells)
        return [DescribedExample(name, question, table, answer, subsets=subsets, highlighted=highlighted)]


def expand_spans(lines: list[Any]) -> tuple[list[list[str]], dict[tuple[int, int], tuple[int, int]]]:
    """Expand cells that span rows or columns to one cell per position, so that rows align.

    Args:
        lines: lists of cells with value, row_span and column_span.

    Returns:
        The lines of texts, and the (row, column) of each cell by (line, index in the line).

    Raises:
        DamagedEntryError: a cell has no valid value or span.
    """
    texts: dict[tuple[int, int], str] = {}
    positions: dict[tuple[int, int], tuple[int, int]] = {}
    for row, line in enumerate(lines):
        column = 0
        for index, cell in enumerate(require_type(line, list, "a line")):
            height, width = (require_part(cell, name, int) for name in ("row_span", "column_span"))
            if min(height, width) < 1 or len(texts) + height * width > MAX_CELLS:
                raise DamagedEntryError("a cell spans no row or column, or too many")
            while (row, column) in texts:
                column += 1
            positions[row, index] = row, column
            text = require_part(cell, "value", str)
            texts |= {(row + down, column + across): text for down in range(height) for across in range(width)}
    size = 1 + max((column for _, column in texts), default=-1)
    return [[texts.get((row, column), "") for column in range(size)] for row in range(len(lines))], positions


@dataclass(eq=False, kw_only=True)
class InfoTabS(Release):
    """Reader of InfoTabS: hypotheses that a Wikipedia infobox entails, contradicts or neither.

    A table has a row for each attribute of the infobox. The splits alpha1, alpha2 and alpha3 are the three test sets.

    Args:
        root: folder with data, or an archive of the repository.
    """

    archives = ("infotabs*",)
    metric = "mate_cli.metrics.system_answers.Inferences"

    split_files: ClassVar[Mapping[str, str]] = {
        **{split: f"data/maindata/infotabs_{split}.tsv" for split in ("train", "dev")},
        **{f"alpha{number}": f"data/maindata/infotabs_test_alpha{number}.tsv" for number in (1, 2, 3)},
    }

    def read(self, split: str, problems: list[Problem]) -> Iterator[TableExample]:
        """Yield the valid hypotheses of a split, in the order of the file. See `Release.read`."""
        file, tables, counts = self.split_files[split], dict[str, Table | None](), Counter[str]()
        for row in rows(file, self.need(file), ("table_id", "hypothesis", "label"), problems, self.suspicions):
            key = row["table_id"]
            name, label = f"{key}_{counts[key]}", LETTERS.get(row["label"])
            counts[key] += 1
            if key not in tables:
                tables[key] = self._table(key, problems)
            with note_damage(file, name, problems):
                if label is None:
                    raise DamagedEntryError(f"the label {row['label']!r:.20} is not {', '.join(LETTERS)}")
                if table := tables[key]:
                    answer = Answer((INFERENCES[label],), label=label)
                    yield TableExample(name, require_text(row, "hypothesis"), table, answer)

    def _table(self, key: str, problems: list[Problem]) -> Table | None:
        """Read the infobox of a key as a table with the columns attribute and value.

        If it is missing or damaged, a problem is appended and None is returned.
        """
        file = f"data/tables/json/{key}.json"
        # A key with a path, such as "../elsewhere", is not read.
        content = self.content(file) if PurePath(key).name == key else None
        damage = [Problem(file, key, "is not there, but has hypotheses")] if content is None else []
        entry = None if content is None else parse_json_as(dict, "an object of attributes", file, content, damage, key)
        # In three tables of the release, an attribute occurs twice.
        (self.notes if entry else problems).extend(damage)
        if entry:
            with note_damage(file, key, problems):
                values = {name: ", ".join(require_texts(texts, name)) for name, texts in entry.items()}
                lines = [["attribute", "value"], *map(list, values.items())]
                return build_table(key, lines, title=values.get("title", ""))
        return None
