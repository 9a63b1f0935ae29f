"""Perturbations of questions and tables whose answer stays correct, for tests of robustness.

Each perturbation defines the questions whose answer it may change. These questions are excluded and counted. All
questions about one table get the same perturbed table. Gold cells keep their text, and their coordinates move with the
table.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

import numpy as np
from numpy.random import Generator

from mate_cli.data.datasets.catalogue import TableDataset
from mate_cli.errors import ConfigError, DataError
from mate_cli.tables.denotation import read_float
from mate_cli.tables.example import DescribedExample, TableExample, group_by_table
from mate_cli.tables.table import Cell, Table, find_table_formats

FOLDER = "evaluation/perturbed"
"""Folder of the results below a run folder, with a subfolder for each perturbation and seed."""
LENGTHS = (512, 1024, 2048, 4096)
"""Sizes of the tables grown by `length_N`, in tokens as counted by `count_tokens`."""
_ROW_ORDER = (
    r"first|last|next|previous|prior|above|below|before|after|top|bottom|follow\w*|preced\w*|consecutive\w*|final|row|"
    r"rows|earliest|latest|second|third|fourth|fifth|\d+(?:st|nd|rd|th)|listed|order|beginning|end"
)
_COUNTS = (
    r"how (?:many|much|long)|number|amount|total|sum|average|mean|difference|more|less|fewer|most|least|than|all|each|"
    r"every|only|any|none|no|not|never|same|both|other|another|there|between|over|under|max\w*|min\w*|several|multiple|"
    r"many|few|half|majority|range|\w{2,}est"
)
_COLUMNS = r"columns?|fields?|headers?|headings?|left\w*|righ\w+"
_LONG_WORD, _WORD = re.compile(r"[^\W\d_]{5,}"), re.compile(r"\w+")
_TOKEN = re.compile(r"\d{1,3}|[^\W\d_]{1,6}|[^\w\s]|_")
_WHOLE_NUMBER = re.compile(r"[1-9]\d{0,2}(,\d{3})+|[1-9]\d{4,}")

Examples = Sequence[TableExample]
Tables = Sequence[Table]
TablePerturber = Callable[[Examples, Tables, Generator], Examples]
"""Function that perturbs the questions about one table, given all tables of the split and a random generator.

It returns the questions unchanged that it cannot perturb.
"""


@dataclass(frozen=True)
class Perturbation:
    """A perturbation of questions or tables, such as a new order of rows.

    Args:
        summary: noun phrase that describes the perturbation.
        perturb: function that perturbs the questions about one table.
        words: pattern of the words whose questions are excluded, because their answer may change.
        about: topic of these questions.
        adds_rows: whether questions with aggregations, or without gold cells, are excluded. Statements are not.
    """

    summary: str
    perturb: TablePerturber
    words: str = "(?!)"
    about: str = ""
    adds_rows: bool = False

    def find_reason(self, example: TableExample) -> str:
        """Return why a perturbation could change the gold answer of a question, else ""."""
        answer = example.answer
        if (
            type(example) not in (TableExample, DescribedExample)
            or example.sentences
            or example.links
            or example.unjudged
        ):
            return "about documents or a database"
        if re.search(rf"\b(?:{self.words})\b", _text(example), re.IGNORECASE):
            return f"about {self.about}"
        has_cells = answer and (answer.coordinates or answer.label is not None)
        is_aggregated = answer and answer.aggregation not in (None, "none")
        return "without known cells" if self.adds_rows and (is_aggregated or not has_cells) else ""


def perturb_examples(examples: Examples, name: str, seed: int) -> tuple[dict[str, TableExample], dict[str, str]]:
    """Apply a perturbation in `PERTURBATIONS`, such as permuted rows, to a split's questions.

    Args:
        examples: all questions of a split. Their tables are the source of distracting rows and columns.
        name: name of the perturbation.
        seed: seed of the perturbation. The result also depends on the id of each table, but not on the order of tables.

    Returns:
        Perturbed questions, and reasons why questions are excluded, both by example id.
    """
    perturbation, variants_by_id = PERTURBATIONS[name], dict[str, TableExample]()
    reasons = {example.example_id: reason for example in examples if (reason := perturbation.find_reason(example))}
    groups = [[examples[index] for index in indices] for indices in group_by_table(examples)]
    tables = [group[0].table for group in groups]
    for table, group in zip(tables, groups, strict=True):
        included_examples = [example for example in group if example.example_id not in reasons]
        rng = np.random.default_rng((seed, crc32(f"{name} {table.table_id}".encode())))
        variants = perturbation.perturb(included_examples, tables, rng) if included_examples else ()
        for example, variant in zip(included_examples, variants, strict=True):
            if variant == example:
                reasons[example.example_id] = "that it cannot change"
            variants_by_id[variant.example_id] = variant
    # A question of a conversation is answered given the predicted answers of its previous questions.
    broken = {example.conversation for example in examples if example.example_id in reasons} - {""}
    for example in examples:
        if example.conversation in broken:
            reasons.setdefault(example.example_id, "in a conversation with an excluded question")
    return {key: example for key, example in variants_by_id.items() if key not in reasons}, reasons


def _grid(table: Table) -> np.ndarray:
    """Return the cells of a table as an object array [1 + rows, columns], header first."""
    return np.array([table.header, *table.rows], dtype=object)


def _arrange(examples: Examples, grid: np.ndarray, order: np.ndarray | None = None, axis: int = 0) -> Examples:
    """Return the questions with a rearranged table, and cell coordinates that match the table.

    Args:
        examples: questions about one table.
        grid: cells of the new table as from `_grid`, with added rows and columns after the old ones.
        order: order of the body rows or columns, as indices from 0. None keeps the order.
        axis: whether `order` is that of the body rows (0) or of the columns (1).
    """
    orders = [np.arange(len(grid) - 1), np.arange(grid.shape[1])]
    orders[axis] = orders[axis] if order is None else order
    rows, columns = orders
    row_places, column_places = np.argsort(rows).tolist(), np.argsort(columns).tolist()
    header, *body = map(tuple, grid[np.append(0, 1 + rows)][:, columns])
    table = replace(examples[0].table, header=header, rows=tuple(body))
    table = replace(table, formats=find_table_formats(table) if table.formats else ())
    rearranged_examples = []
    for example in examples:
        cells = [example.answer.coordinates if example.answer else (), example.previous_cells]
        gold, previous = (tuple((row_places[row], column_places[column]) for row, column in part) for part in cells)
        answer = example.answer and replace(example.answer, coordinates=gold)
        rearranged_examples.append(replace(example, table=table, answer=answer, previous_cells=previous))
    return rearranged_examples


def _permute(count: int, rng: Generator) -> np.ndarray:
    """Return a random permutation of `count` indices, not the identity if `count` > 1."""
    order = rng.permutation(count)
    return order if (np.diff(order) != 1).any() else order[::-1]


def _mix(old_count: int, added_count: int, rng: Generator) -> np.ndarray:
    """Return an order of indices that inserts added table rows or columns at random positions.

    Indices below `old_count` stay in order. The other `added_count` indices are those of the added lines.
    """
    return np.argsort([*np.sort(rng.random(old_count)), *rng.random(added_count)], kind="stable")


def _text(example: TableExample) -> str:
    return " ".join((example.question, *example.history))


def _phrase(text: str) -> str:
    """Normalize a text to words between spaces, so that `in` compares whole words."""
    return f" {' '.join(_WORD.findall(text.casefold()))} "


def _is_mentioned(cell: Cell, questions: str) -> bool:
    return bool(_WORD.search(cell.text)) and _phrase(cell.text) in questions


def _gold_cells(examples: Examples) -> set[tuple[int, int]]:
    answers = [example.answer.coordinates for example in examples if example.answer]
    return {cell for cells in (*answers, *(example.previous_cells for example in examples)) for cell in cells}


def _add_lines(axis: int) -> TablePerturber:
    """Return a function that inserts rows (axis 0) or columns (axis 1) from other tables.

    The number of inserted lines is half the number of lines of the table, rounded up. Their cells are repeated to fill
    the table. Lines with the text of an answer, with a cell that a question mentions, or with the header of an existing
    column are skipped.
    """

    def perturb_table(examples: Examples, tables: Tables, rng: Generator) -> Examples:
        table, added_lines = examples[0].table, list[list[Cell]]()
        grid = _grid(table)
        count, length = grid.shape[axis] - (axis == 0), grid.shape[1 - axis] - axis
        questions = "|".join(_phrase(_text(example)) for example in examples)
        answers = [_phrase(text) for example in examples if example.answer for text in example.answer.texts]
        for source_table in (tables[index] for index in rng.permutation(len(tables))):
            lines = _grid(source_table)[1:] if axis == 0 else _grid(source_table).T
            is_full = 2 * len(added_lines) >= count
            if is_full or source_table.table_id == table.table_id or not (source_table.rows and source_table.header):
                continue
            line = rng.choice(lines)
            cells = [Cell(cell.text) for cell in (*line[:axis], *np.resize(line[axis:], length))]
            is_repeated = axis == 1 and cells[0].text in [cell.text for cell in table.header]
            has_answer = any(answer in _phrase(cell.text) for answer in answers for cell in cells)
            if not (is_repeated or has_answer or any(_is_mentioned(cell, questions) for cell in cells)):
                added_lines.append(cells)
        if added_lines:
            line_grid = np.array(added_lines, dtype=object)
            grid = np.append(grid, line_grid if axis == 0 else line_grid.T, axis)
        return _arrange(examples, grid, _mix(count, len(added_lines), rng), axis)

    return perturb_table


def count_tokens(cells: Iterable[Cell]) -> int:
    """Count the tokens of table cells by a regular expression, without a model's tokenizer.

    Tokens are parts of words and numbers, and punctuation marks.
    """
    return sum(len(_TOKEN.findall(cell.text)) for cell in cells)


def _grow_to(tokens: int) -> TablePerturber:
    """Return a function that enlarges a table to `tokens` tokens by adding random rows.

    The value of each cell is sampled from its column, except from the rows of gold cells, their values, and values that
    a question mentions. A condition that selects a gold row therefore never selects an added row.
    """

    def perturb_table(examples: Examples, tables: Tables, rng: Generator) -> Examples:
        grid, gold = _grid(examples[0].table), {row for row, _ in _gold_cells(examples)}
        choices, added_lines, size = list[list[Cell]](), list[list[Cell]](), count_tokens(grid.flat)
        questions = "|".join(_phrase(_text(example)) for example in examples)
        for column in grid[1:].T:
            gold_texts = {_phrase(column[row].text) for row in gold}
            cells = [
                cell for row, cell in enumerate(column) if row not in gold and _phrase(cell.text) not in gold_texts
            ]
            choices.append([cell for cell in cells if not _is_mentioned(cell, questions)])
        while choices and all(choices):
            row = [cells[rng.integers(len(cells))] for cells in choices]
            if (size := size + max(1, count_tokens(row))) > tokens:
                break
            added_lines.append(row)
        rows = _mix(len(grid) - 1, len(added_lines), rng)
        return _arrange(examples, np.array([*grid, *added_lines], dtype=object), rows)

    return perturb_table


def _permute_rows(examples: Examples, tables: Tables, rng: Generator) -> Examples:
    grid = _grid(examples[0].table)
    return _arrange(examples, grid, _permute(len(grid) - 1, rng))


def _permute_columns(examples: Examples, tables: Tables, rng: Generator) -> Examples:
    grid = _grid(examples[0].table)
    return _arrange(examples, grid, _permute(grid.shape[1], rng), axis=1)


def _abbreviate_headers(examples: Examples, tables: Tables, rng: Generator) -> Examples:
    grid = _grid(examples[0].table)
    grid[0] = [Cell(_LONG_WORD.sub(lambda word: f"{word[0][:3]}.", cell.text), cell.links) for cell in grid[0]]
    return _arrange(examples, grid)


def _blank_headers(examples: Examples, tables: Tables, rng: Generator) -> Examples:
    """Remove all header texts of a table.

    Questions that mention a header word stay unchanged and are excluded.
    """
    grid = _grid(examples[0].table)
    words = {word for cell in grid[0] for word in _WORD.findall(cell.text.casefold()) if len(word) > 2}
    grid[0] = [Cell("", cell.links) for cell in grid[0]]
    pairs = zip(examples, _arrange(examples, grid), strict=True)
    return [q if words & {*_WORD.findall(_text(q).casefold())} else variant for q, variant in pairs]


def _misspell(examples: Examples, tables: Tables, rng: Generator) -> Examples:
    """Add typing errors to questions: swap two inner letters in a third of the longer words.

    Longer words have five or more letters. Their third is rounded up.
    """

    def swap(text: str) -> str:
        words = [*_LONG_WORD.finditer(text)]
        for word in (words[index] for index in rng.permutation(len(words))[: -(-len(words) // 3)]):
            start = word.start() + int(rng.integers(1, len(word[0]) - 2))
            text = text[:start] + text[start + 1] + text[start] + text[start + 2 :]
        return text

    return [replace(example, question=swap(example.question)) for example in examples]


def _reformat_numbers(examples: Examples, tables: Tables, rng: Generator) -> Examples:
    """Add or remove thousands separators in whole numbers from 10,000, except in gold cells."""
    table, grid, gold = examples[0].table, _grid(examples[0].table), _gold_cells(examples)
    for row, column, cell in table.cells():
        if (row, column) not in gold and (number := _WHOLE_NUMBER.fullmatch(cell.text)):
            text = cell.text.replace(",", "") if number[1] else f"{int(cell.text):,}"
            grid[1 + row, column] = Cell(text if read_float(text) == read_float(cell.text) else cell.text, cell.links)
    return _arrange(examples, grid)


def _added_rows(summary: str, perturb: TablePerturber) -> Perturbation:
    return Perturbation(summary, perturb, f"{_ROW_ORDER}|{_COUNTS}", "the order or number of rows", adds_rows=True)


PERTURBATIONS = {
    "rows": Perturbation("permuted rows", _permute_rows, _ROW_ORDER, "the order of rows"),
    "columns": Perturbation("permuted columns", _permute_columns, _COLUMNS, "columns"),
    "extra_rows": _added_rows("distracting rows of other tables", _add_lines(0)),
    "extra_columns": Perturbation("distracting columns of other tables", _add_lines(1), _COLUMNS, "columns"),
    "headers": Perturbation("abbreviated headers", _abbreviate_headers),
    "blank_headers": Perturbation("blank headers, for questions that mention no header", _blank_headers),
    "spelling": Perturbation("swapped letters of question words", _misspell),
    "numbers": Perturbation("reformatted numbers outside of the gold cells", _reformat_numbers),
    **{f"length_{n}": _added_rows(f"rows of the same type, up to {n:,} tokens", _grow_to(n)) for n in LENGTHS},
}
"""Perturbations by name."""


def check_perturbations(names: Iterable[str]) -> None:
    """Raise `ConfigError` for an unknown perturbation name, with a list of all perturbations."""
    if unknown := [name for name in names if name not in PERTURBATIONS]:
        hint = f"Choose from {', '.join(PERTURBATIONS)}"
        raise ConfigError(f"unknown perturbation {unknown[0]}", where="perturb", remedy=hint)


class PerturbedDataset:
    """Wrapper of a dataset that perturbs its questions, to measure the effect on scores.

    All other attributes are those of the original dataset.

    Args:
        dataset: original dataset.
        name: name of the perturbation.
        seed: seed of the perturbation.

    Attributes:
        suffix: suffix of question ids in exported files, which distinguishes perturbed from original questions.
        folder: folder of the results, relative to the run folder.
        only: ids of the questions to return, by split. All questions of other splits are returned.
        excluded: number of excluded questions by reason, for each split that was read.
    """

    def __init__(self, dataset: TableDataset, name: str, seed: int) -> None:
        self.dataset, self.name, self.seed = dataset, name, seed
        self.suffix, self.folder = f"@{name}-{seed}", f"{FOLDER}/{name}/{seed}"
        self.only: dict[str, Collection[str]] = {}
        self.excluded: dict[str, Counter[str]] = {}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any attribute of the dataset
        return getattr(self.__dict__["dataset"], name)

    def first_examples(self, split: str, count: int | None) -> list[TableExample]:
        """Return the perturbed questions of a split. `count` has no effect.

        Only `only` limits the number of perturbed questions.
        """
        return self.examples(split)

    def examples(self, split: str) -> list[TableExample]:
        """Return the perturbed questions of a split, except questions that cannot be perturbed.

        Raises:
            DataError: all questions are excluded.
        """
        examples = self.dataset.examples(split)
        variants, reasons = perturb_examples(examples, self.name, self.seed)
        names = [e.example_id for e in examples if e.example_id in self.only.get(split, (e.example_id,))]
        self.excluded[split] = Counter(reasons[name] for name in names if name in reasons)
        if included_examples := [variants[name] for name in names if name in variants]:
            return included_examples
        problem = f"{self.name} keeps no question of {split}: {self.describe_excluded(split)}"
        raise DataError(problem, where="perturb", remedy="Leave this perturbation out")

    def describe_excluded(self, split: str) -> str:
        """Describe how many questions of a split are excluded, by reason, or return ""."""
        return ", ".join(f"{count:,} {reason}" for reason, count in self.excluded[split].most_common())


def perturb_dataset(dataset: TableDataset, names: Iterable[str], seeds: Iterable[int]) -> list[PerturbedDataset]:
    """Return a perturbed copy of a dataset for each pair of a perturbation and a seed.

    Args:
        dataset: original dataset.
        names: names of the perturbations.
        seeds: seeds of each perturbation.
    """
    return [PerturbedDataset(dataset, name, seed) for name in dict.fromkeys(names) for seed in dict.fromkeys(seeds)]
