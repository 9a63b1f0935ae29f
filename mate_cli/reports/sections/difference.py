"""Two runs side by side: scores, settings, data, answers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from mate_cli.metrics.specs import BASELINE, SPLITS, MetricName
from mate_cli.reports.compare.configuration import FIELDS, settings
from mate_cli.reports.compare.names import TARGET
from mate_cli.reports.compare.questions import Prediction, Questions, ScoredQuestion, load_questions
from mate_cli.reports.compare.report import preference
from mate_cli.reports.format import NOTHING
from mate_cli.reports.page.runs import environment_facts
from mate_cli.reports.runs.load import LoadedRun, clean, is_number
from mate_cli.reports.view import Column, ReportSection, Row, View, ViewCell
from mate_cli.runs.identity import CODE, is_ignored

MAX_QUESTIONS = 20
NAMES = ("A", "B")
RIGHT, WRONG, PARTLY = "✓", "✗", "◐"
Pair = tuple[LoadedRun, LoadedRun]


def difference_section(runs: Pair, most: int = MAX_QUESTIONS) -> ReportSection:
    """Compare two runs.

    Args:
        runs: the first and the second.
        most: how many of the questions whose answer changed are shown.
    """
    places = run_names([run.folder for run in runs])
    hint = ", ".join(f"{name}: {place}" for name, place in zip(NAMES, places, strict=True))
    choices = [{key: run.setting(key) for key in FIELDS} for run in runs]
    classes = tuple(f"{key}{TARGET}" for key in FIELDS if choices[0][key] != choices[1][key])  # their names say it
    code = [{f"{CODE} of {clean(file)}": clean(mark) for file, mark in run.part(CODE).items()} for run in runs]
    parts = zip(choices, runs, code, strict=True)
    named = [choice | settings(run, (*classes, CODE)) | files for choice, run, files in parts]
    telling, others = (
        [{k: v for k, v in facts.items() if is_ignored(k) is of} for facts in named] for of in (False, True)
    )
    views = [
        *score_views(runs),
        words_view("Settings", "Setting", telling),
        words_view("Seed, hardware and folders", "Setting", others),
        words_view("Versions", "Package", [environment_facts(run) for run in runs]),
        data_view(runs),
        *question_views(runs, most),
    ]
    same = [view.title.lower() for view in views if not view.rows]
    notes = (hint, *[f"the same in both: {', '.join(same)}"] * bool(same))
    shown = tuple(view for view in views if view.rows)
    return ReportSection("difference", "Two runs side by side", "Difference", shown, notes)


def run_names(folders: Sequence[Path]) -> list[str]:
    """Name runs by as much of their folders as differs."""
    places = [folder.resolve() for folder in folders]
    parent = os.path.commonpath(places)
    return [clean(Path(os.path.relpath(place, parent))) for place in places]


def score_views(runs: Pair) -> Iterator[View]:
    """Yield the scores of both and how they changed; those of the test split stand apart."""
    known = {name for run in runs for name in run.metrics if not name.startswith(BASELINE)}
    metrics = sorted(map(MetricName.parse, known), key=MetricName.rank)
    for title, of_test in (("Scores", False), ("Scores on test", True)):
        selection = [metric for metric in metrics if (metric.split == "test") is of_test]
        rows = tuple(score_row(metric, *(run.metrics.get(metric.full) for run in runs)) for metric in selection)
        if rows or not of_test:
            yield View(title, (*map(Column, NAMES), Column("Change")), rows, "Score")


def score_row(metric: MetricName, first: float | None, second: float | None) -> Row:
    """Return one score of both runs, and its change."""
    spec, scale = metric.spec, metric.scale
    cells = [ViewCell() if score is None else ViewCell(spec.text(score), scale * score) for score in (first, second)]
    if first is not None and second is not None:
        change = ViewCell(spec.difference_text(second - first), scale * (second - first))
    else:
        change = ViewCell()
    return Row(metric.title, (*cells, change))


def words_view(title: str, head: str, facts: Sequence[Mapping[str, str]]) -> View:
    """Return the entries in which two runs differ."""
    keys = dict.fromkeys(key for entries in facts for key in entries)
    differing = [key for key in keys if len({entries.get(key, "") for entries in facts}) > 1]
    rows = (Row(key, tuple(ViewCell(entries.get(key) or NOTHING) for entries in facts)) for key in differing)
    return View(title, word_columns(NAMES), tuple(rows), head)


def word_columns(names: Iterable[str]) -> tuple[Column, ...]:
    """Return columns of words."""
    return tuple(Column(name, is_number=False) for name in names)


def data_view(runs: Pair) -> View:
    """Return the counts of examples in which two runs differ."""
    counts = [{k: float(v) for k, v in run.part("data").items() if is_number(v)} for run in runs]
    keys = dict.fromkeys(key for numbers in counts for key in numbers)
    rows = []
    for key in keys:
        values = [numbers.get(key) for numbers in counts]
        if values[0] == values[1]:
            continue
        cells = [ViewCell() if value is None else ViewCell(f"{value:,.0f}", value) for value in values]
        change = (values[1] or 0) - (values[0] or 0)
        rows.append(Row(clean(key), (*cells, ViewCell(f"{change:+,.0f}", change))))
    return View("Data", (*map(Column, NAMES), Column("Change")), tuple(rows), "Examples")


def question_views(runs: Pair, most: int) -> Iterator[View]:
    """Yield the questions of a split whose answer changed: of dev where both have it, else of test."""
    for split in SPLITS:
        first, second = (load_questions(run, split) for run in runs)
        if first and second:
            yield questions_view(split, first, second, most)
            return


def questions_view(split: str, first: Questions, second: Questions, most: int) -> View:
    """Return the questions that both were asked and answered differently, those won and lost first."""
    both = [(question, prediction, second[question]) for question, prediction in first.items() if question in second]
    score = common_score([prediction for _, *pair in both for prediction in pair], split)
    changed = [(question, old, new) for question, old, new in both if old.text.split() != new.text.split()]
    rights = [[is_right(question, prediction, score) for prediction in pair] for question, *pair in changed]
    order = sorted(range(len(changed)), key=lambda place: (-abs(rights[place][1] - rights[place][0]), place))
    rows = tuple(question_row(*changed[place], rights[place]) for place in order[:most])
    won, lost = (sum(sign * (new - old) > 0 for old, new in rights) for sign in (1, -1))
    notes = [f"{len(changed):,} of {len(both):,} answers on {split} changed: {won:,} better, {lost:,} worse"]
    notes += [f"the first {most} are shown"] * (len(changed) > most)
    return View("Answers that changed", word_columns(("Right answer", *NAMES)), rows, "Question", notes=tuple(notes))


def question_row(question: ScoredQuestion, old: Prediction, new: Prediction, rights: Sequence[float]) -> Row:
    """Return a question with the right answer and both answers, each with a mark that says how right it is."""
    marks = [RIGHT if right >= 1 else WRONG if right <= 0 else PARTLY for right in rights]
    answers = [f"{mark} {prediction.text or NOTHING}" for mark, prediction in zip(marks, (old, new), strict=True)]
    gold = " / ".join(question.answers) or NOTHING
    return Row(question.text or question.question_id, tuple(map(ViewCell, (gold, *answers))))


def common_score(predictions: Sequence[Prediction], split: str) -> str:
    """Return the score that all answers have and that sums a run up best, empty without any."""
    shared = set.intersection(*(set(prediction.scores) for prediction in predictions)) if predictions else set()
    shares = [name for name in shared if MetricName.parse(f"{split}/{name}").is_share]
    return min(shares, key=lambda name: preference(f"{split}/{name}"), default="")


def is_right(question: ScoredQuestion, prediction: Prediction, score: str) -> float:
    """Return how right an answer is, from 0 to 1: its score, else whether it is one of the right ones."""
    if score:
        return prediction.scores[score]
    return float(prediction.text.casefold() in {answer.casefold() for answer in question.answers})
