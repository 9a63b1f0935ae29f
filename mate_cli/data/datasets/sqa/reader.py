"""SQA: sequences of simple questions about one table, with cells as answers.

Source: Iyyer, Yih and Chang 2017, "Search-based Neural Structured Learning for Sequential Question Answering".
"""

from __future__ import annotations

import ast
import csv
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from io import StringIO
from itertools import groupby
from typing import Literal

from mate_cli.data.check import CheckReport, Problem
from mate_cli.data.datasets.file_formats import CsvTables, open_end, parse_csv_table, read_text
from mate_cli.data.datasets.release import Release
from mate_cli.tables.example import Answer, Coordinates, TableExample
from mate_cli.tables.table import Table

COLUMNS = ("id", "annotator", "position", "question", "table_file", "answer_coordinates", "answer_text")


@dataclass(frozen=True, slots=True)
class Turn:
    """One question of a sequence, as stated in the SQA release.

    Args:
        conversation: id of its sequence: the id of the decomposed question and the annotator.
        position: position in the sequence, from 0.
        text: text of the question.
        table_file: file of its table.
        cells: (row, column) of the body cells that are the answer.
        texts: texts of the answer, one per cell.
        line: number of the last line of the question in its file, from 1.
    """

    conversation: str
    position: int
    text: str
    table_file: str
    cells: Coordinates
    texts: tuple[str, ...]
    line: int = 0

    @property
    def key(self) -> str:
        """Id of the question: the id of its question sequence, and its position in this sequence."""
        return f"{self.conversation}_{self.position}"


@dataclass(eq=False, kw_only=True)
class SQA(Release):
    """Reader of SQA: sequences of questions about one table.

    The splits are train and dev (one of five divisions of the authors' train.tsv) and test. The id of a question is
    <id>-<annotator>_<position>, as in google-research/tapas. The id of its sequence is <id>-<annotator>.

    Args:
        root: folder with train.tsv, test.tsv, random-split-*.tsv and table_csv. For the other options see `Release`.
        fold: number of the division into train and dev.
        whole_train: whether to train on all of train.tsv, which includes the questions of dev.
    """

    fold: Literal[1, 2, 3, 4, 5] = 1
    whole_train: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._tables = CsvTables(self.content, self._parse)
        self._changed: set[str] = set()
        self._outside: dict[str, Problem] = {}

    @property
    def split_files(self) -> Mapping[str, str]:
        """Path of the question file of each split, relative to the root of the dataset."""
        train = "train.tsv" if self.whole_train else f"random-split-{self.fold}-train.tsv"
        return {"train": train, "dev": f"random-split-{self.fold}-dev.tsv", "test": "test.tsv"}

    @cached_property
    def train_tables(self) -> Collection[str]:
        """Ids of the tables in the train split. Some dev questions are also about these tables."""
        return {turn.table_file for turn in read_turns("train", self.train_content(), [], [])}

    def read(self, split: str, problems: list[Problem]) -> Iterator[TableExample]:
        """Yield the valid questions of a split, in the order of the file. See `Release.read`."""
        file = self.split_files[split]
        turns = read_turns(file, self.need(file), problems, self.suspicions)
        histories = _collect_history(file, turns, problems)
        examples = (self._example(file, turn, histories[turn.key], problems) for turn in turns)
        yield from (example for example in examples if example is not None)

    def _example(self, file: str, turn: Turn, history: Sequence[Turn], problems: list[Problem]) -> TableExample | None:
        table = self._tables.get(turn.table_file, problems)
        if table is None:
            return None
        previous = history[-1].cells if history else ()
        outside = [cell for cell in turn.cells + previous if not table.has_cell(*cell)]
        if outside:
            problems += [
                problem for problem in self._report_missing_cell(file, turn, outside[0]) if problem not in problems
            ]
            return None
        self._compare(file, turn, table)
        return TableExample(
            turn.key,
            turn.text,
            table,
            Answer(turn.texts, turn.cells, aggregation="none"),
            conversation=turn.conversation,
            history=tuple(earlier.text for earlier in history),
            previous_cells=previous,
        )

    def _report_missing_cell(self, file: str, turn: Turn, cell: tuple[int, int]) -> list[Problem]:
        """Return [problem] for an answer whose cell the table lacks.

        If the file of the table seems to be truncated, that is the problem, and it is reported once for all questions.
        """
        if turn.table_file not in self._outside:
            truncation = next((problem for problem in self.suspicions if problem.file == turn.table_file), None)
            message = f"line {turn.line}: {turn.table_file} has no cell {cell}"
            self._outside[turn.table_file] = truncation or Problem(file, turn.key, message)
        return [self._outside[turn.table_file]]

    def _compare(self, file: str, turn: Turn, table: Table) -> None:
        """Note possible damage of the release if an answer text differs from its table cell.

        Each table is reported once.

        In the undamaged release, all answer texts equal their cells.
        """
        # A damaged table was reported before.
        if any(problem.file == turn.table_file for problem in self.suspicions):
            return
        cell_texts = [table.rows[row][column].text for row, column in turn.cells]
        for text, cell in zip(turn.texts, cell_texts, strict=True):
            if text != cell and turn.table_file not in self._changed:
                self._changed.add(turn.table_file)
                message = (
                    f"line {turn.line}: the answer is {text[:40]!r}, its cell in {turn.table_file} says {cell[:40]!r}"
                )
                self.suspicions.append(Problem(file, turn.key, message))

    def check(self) -> CheckReport:
        """Check the release, and count answers that are empty cells. See `Release.check`."""
        report = super().check()
        splits = self._sound([])
        answers = (example.answer for examples in splits.values() for example in examples)
        blank = sum(not all(text.strip() for text in answer.texts) for answer in answers if answer)
        note = Problem("answers", "", f"{blank:,} have an empty cell as the answer; they are kept")
        return replace(report, notes=(*report.notes, note)) if blank else report

    def _parse(self, file: str, content: bytes, problems: list[Problem]) -> Table | None:
        return parse_csv_table(file, content, problems, self.notes, suspicions=self.suspicions)


def read_turns(file: str, content: bytes, problems: list[Problem], suspicions: list[Problem]) -> list[Turn]:
    """Parse the valid questions of an SQA file, in the order of the file.

    Args:
        file: name of the file.
        content: content of the file.
        problems: list that receives the problems of invalid questions.
        suspicions: list that receives possible damage of valid questions.
    """
    text = read_text(file, content, problems)
    if not text:
        return []
    reader = csv.DictReader(StringIO(text, newline=""), delimiter="\t")
    absent = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
    if absent:
        problems.append(Problem(file, "", f"line 1 has no column {', '.join(absent)}"))
        return []
    turns = []
    try:
        for row in reader:
            try:
                turns.append(_turn(row, reader.line_num))
                oddity = "has more fields than columns" if None in row else ""
                oddity = oddity or ("" if str(row["id"]).strip() else "has no id")
                if oddity:
                    suspicions.append(Problem(file, turns[-1].key, f"line {reader.line_num} {oddity}"))
            except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
                key = f"{row['id']}-{row['annotator']}_{row['position']}"
                message = f"line {reader.line_num} is not a question with its answer ({error})"
                problems.append(Problem(file, key, message))
    except csv.Error as error:
        problems.append(Problem(file, f"line {reader.line_num}", f"is not readable ({error})"))
    if not problems:
        suspicions += open_end(file, content)
    return turns


def _turn(row: Mapping[str, str], line: int) -> Turn:
    cells = [ast.literal_eval(cell) for cell in ast.literal_eval(row["answer_coordinates"])]
    texts = ast.literal_eval(row["answer_text"])
    if not row["question"].strip():
        raise ValueError("the question is empty")
    if not isinstance(texts, list) or len(texts) != len(cells) or not cells:
        raise ValueError(f"{len(cells)} cells, but {len(texts)} texts")
    return Turn(
        f"{row['id']}-{row['annotator']}",
        int(row["position"]),
        row["question"],
        row["table_file"],
        tuple((int(line), int(column)) for line, column in cells),
        tuple(map(str, texts)),
        line,
    )


def _collect_history(file: str, turns: Sequence[Turn], problems: list[Problem]) -> dict[str, list[Turn]]:
    """Return {question id: previous questions} for the question sequences of a file."""
    histories: dict[str, list[Turn]] = {}
    # In a damaged file missing questions are expected.
    damaged = any(problem.file == file for problem in problems)
    sorted_turns = sorted(turns, key=lambda turn: (turn.conversation, turn.position))
    for conversation, group in groupby(sorted_turns, key=lambda turn: turn.conversation):
        sequence = list(group)
        if [turn.position for turn in sequence] != list(range(len(sequence))) and not damaged:
            message = f"line {sequence[0].line}: the positions of its {len(sequence)} questions are not 0, 1, ..."
            problems.append(Problem(file, conversation, message))
        if len({turn.table_file for turn in sequence}) > 1:
            problems.append(Problem(file, conversation, "its questions are about several tables"))
        for index, turn in enumerate(sequence):
            histories[turn.key] = sequence[:index]
    return histories
