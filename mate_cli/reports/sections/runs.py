"""Report sections of single runs, and the comparison of two runs (`mate diff`)."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mate_cli.metrics.specs import SPLITS, MetricName
from mate_cli.quoting import format_command
from mate_cli.reports.compare.configuration import FIELDS, settings
from mate_cli.reports.compare.names import TARGET, Comparison, Difference
from mate_cli.reports.compare.questions import (
    Prediction,
    Questions,
    ScoredQuestion,
    describe_unscored,
    keep_scored,
    load_questions,
)
from mate_cli.reports.compare.report import Report, preference, reason_text
from mate_cli.reports.format import NOTHING, duration_text, plural
from mate_cli.reports.runs.load import LoadedRun, clean, is_number
from mate_cli.reports.sections.questions import verdict
from mate_cli.reports.view import Column, ReportSection, Row, View, ViewCell
from mate_cli.runs.identity import ABSENT, CODE, SEED_REPEAT_KEYS, differing_keys, is_ignored

MAX_SETTINGS, FIRST = 20, 100
"""Maximum number of settings to group by, and number of rows rendered in the page.

Page scripts render later rows on demand.
"""
FILES = (("config", "config.yaml"), ("record", "record.json"), ("predictions", "predictions/"))


def runs_section(report: Report, *, wide: bool) -> ReportSection:
    """Return a table of single runs with commands, to filter and group.

    Args:
        report: comparison of runs.
        wide: not used.
    """

    def content() -> Mapping[str, Any]:
        metric = report.names.get(report.metric or "")
        keys = list_varying_settings(report)
        run_values = [{key: run.setting(key) for key in FIELDS} | settings(run) for run in report.runs]
        differing = [key for key in keys if len({values.get(key, "") for values in run_values}) > 1]
        rows = [run_row(run, values, report, keys) for run, values in zip(report.runs, run_values, strict=True)]
        return {
            "rows": rows[:FIRST],
            "later": partial(compact_run_rows, rows[FIRST:]),
            "groups": [("", "nothing"), *((key, key) for key in differing)],
            "count": plural(len(report.runs), "run"),
            "metric": metric.title if metric else "Metric",
            "metric_with_unit": metric.title_with_unit if metric else "",
        }

    return ReportSection("runs", "Runs", "Runs", template="runs", content=content)


def compact_run_rows(rows: Sequence[Mapping[str, Any]], link: Callable[[Path], str]) -> Mapping[str, Any]:
    """Convert the rows of runs to compact JSON, from which the page's script builds HTML.

    Each text is stored once in `texts`. The rows contain its index.

    Args:
        rows: rows from `run_row`.
        link: function that returns the link to a run folder.

    Returns:
        `rows`: list of values per row. `texts`: all distinct texts.
    """
    texts: dict[str, int] = {}

    def place(text: str) -> int:
        return texts.setdefault(text, len(texts))

    def compact(row: Mapping[str, Any]) -> list[Any]:
        home, name = link(row["run"].folder), row["name"]
        parent, has_slash = (home[: -len(name) - 1], 1) if home.endswith(f"{name}/") else (home, 0)
        files = [place(f"{text}\n{file}") for text, file in row["files"]]
        settings = [place(f"{key}\n{value}") for key, value in row["settings"].items()]
        command = [place(word) for word in row["command"].split(" ")] if row["command"] else []
        text_ids = [place(row[key]) for key in ("above", "network", "reason", "started")]
        numbers = [row["seed"], *(row["score"] or ("", "")), row["seconds"] or 0, row["time"]]
        return [name, place(parent), has_slash, place(row["run"].status), *text_ids, *numbers, files, settings, command]

    # The order matters, because building the rows fills `texts`.
    return {"rows": [compact(row) for row in rows], "texts": list(texts)}


def list_varying_settings(report: Report) -> list[str]:
    """Return settings by which a page can group runs: main fields, then differing settings."""
    keys = differing_keys([settings(run, (*SEED_REPEAT_KEYS, *FIELDS)) for run in report.runs])
    return [*FIELDS, *[key for key in keys if not key.endswith(TARGET)][:MAX_SETTINGS]]


def run_row(run: LoadedRun, values: Mapping[str, str], report: Report, keys: Sequence[str]) -> Mapping[str, Any]:
    """Return the HTML template values of one run, such as its name, status, score and command.

    Args:
        run: the run.
        values: settings of the run.
        report: comparison of runs.
        keys: names of the displayed settings.
    """
    folder, _, name = shown_name(run, report).rpartition("/")
    seconds = run.number("wall_seconds") or None
    return {
        "run": run,
        "network": run.setting("model"),
        "name": name,
        "above": folder,
        "files": [(text, file) for text, file in FILES if (run.folder / file).exists()],
        "settings": {key: values[key] for key in keys if values.get(key)},
        "reason": "" if run.status == "finished" else reason_text(run, report.created),
        "seed": run.text("seed"),
        "score": score_texts(run, report.metric),
        "seconds": seconds,
        "time": duration_text(seconds),
        "started": run.text("started")[:16].replace("T", " ") or NOTHING,
        "command": command_text(run),
    }


def score_texts(run: LoadedRun, metric: str | None) -> tuple[str, str] | None:
    """Format a run's score in full precision and as displayed. Return None without a score."""
    score = run.metrics.get(metric or "")
    return None if score is None else (f"{score:.8g}", run.names[metric or ""].spec.text(score))


def shown_name(run: LoadedRun, report: Report) -> str:
    """Return the path of a run folder, relative to the folder that was searched for runs."""
    for root in report.folders:
        if run.folder.is_relative_to(root) and run.folder != Path(root):
            return clean(run.folder.relative_to(root))
    return run.name


def command_text(run: LoadedRun) -> str:
    """Return the command line that started a run, or "" if the run did not record it."""
    argv = run.record.get("argv")
    if not isinstance(argv, list) or not argv:
        return ""
    program = Path(str(argv[0])).name.replace("__main__.py", "mate")
    return clean(format_command(*program.split(), *map(str, argv[1:])))


def environment_section(report: Report, *, wide: bool) -> ReportSection:
    """Return the hardware and the package versions of the runs.

    Args:
        report: comparison of runs.
        wide: not used.
    """

    def content() -> Mapping[str, Any]:
        counts_by_name: dict[str, Counter[str]] = defaultdict(Counter)
        for name, value in (fact for run in report.runs for fact in environment_facts(run).items()):
            counts_by_name[name][value] += 1
        return {"rows": [(name, environment_text(counts, len(report.runs))) for name, counts in counts_by_name.items()]}

    return ReportSection("environment", "Hardware and versions", "Environment", template="facts", content=content)


def environment_facts(run: LoadedRun) -> dict[str, str]:
    """Return the recorded device, host, code version and package versions of a run."""
    entries = {"Device": run.text("device"), "Host": run.text("host"), "Code version": run.text("code_version")}
    versions = {clean(name): clean(version) for name, version in run.part("versions").items()}
    return {name: value for name, value in (entries | versions).items() if value}


def environment_text(counts: Counter[str], total: int) -> str:
    """Format the values of a fact, such as a package version, with the number of runs of each.

    The numbers are omitted if all runs have the same value.

    Args:
        counts: number of runs of each value.
        total: number of all runs.
    """
    if len(counts) == 1 and counts.total() == total:
        return next(iter(counts))
    return ", ".join(f"{value} ({count} of {total} runs)" for value, count in counts.most_common())


MAX_COLUMNS, MAX_DIFFERENCES, MAX_COMMON = 10, 60, 200


def settings_section(report: Report, *, wide: bool) -> ReportSection:
    """Return the common and the differing settings of configurations.

    Args:
        report: comparison of runs.
        wide: not used.
    """

    def content() -> Mapping[str, Any] | None:
        parts = [comparison_content(part) for part in report.comparisons if part.common or part.differences]
        first, *tail = map(settings, report.runs)
        overlap = {key: value for key, value in first.items() if all(values.get(key) == value for values in tail)}
        title = f"{plural(len(overlap), 'setting')} that all runs share"
        section = {"parts": parts, "shared": list(overlap.items())[:MAX_COMMON], "shared_title": title}
        return section if parts or overlap else None

    return ReportSection("settings", "Settings that differ", "Settings", template="settings", content=content)


def comparison_content(comparison: Comparison) -> Mapping[str, Any]:
    """Return the template values of the HTML table that compares settings.

    The values contain the common settings as text, and a row per setting that differs.
    """
    labels = comparison.labels[:MAX_COLUMNS]
    hints = [
        count_line(len(comparison.labels), "configuration", MAX_COLUMNS),
        count_line(len(comparison.differences), "setting", MAX_DIFFERENCES),
    ]
    rows = comparison.differences[:MAX_DIFFERENCES]
    return {
        "title": comparison.title,
        "hint": ", ".join(filter(None, hints)),
        "common": comparison.common,
        "several": len(comparison.labels) > 1,
        "labels": labels,
        "rows": [(difference.key, [value_of(difference, label) for label in labels]) for difference in rows],
    }


def value_of(difference: Difference, label: str) -> tuple[str | None, bool]:
    """Return a configuration's value of a differing setting, and whether the value is unique.

    Returns:
        The value, None if the configuration lacks the setting. True if at least three configurations are compared and
        no other configuration has this value.
    """
    pair = next(((value, labels) for value, labels in difference.values.items() if label in labels), None)
    if pair is None or pair[0] == ABSENT:
        return None, False
    value, labels = pair
    return value, len(labels) == 1 and sum(map(len, difference.values.values())) > 2


def count_line(count: int, noun: str, most: int) -> str:
    """Return the note `first 10 of 12 settings` if not all rows are shown, else "".

    Args:
        count: number of all rows.
        noun: singular name of a row.
        most: maximum number of shown rows.
    """
    return f"first {most} of {plural(count, noun)}" if count > most else ""


MAX_QUESTIONS = 20
LABELS = ("A", "B")
Pair = tuple[LoadedRun, LoadedRun]


def difference_section(runs: Pair, most: int = MAX_QUESTIONS) -> ReportSection:
    """Return the differences between two runs: scores, settings, versions, data and answers.

    Args:
        runs: first and second run.
        most: maximum number of shown questions whose answer changed.
    """
    paths = run_names([run.folder for run in runs])
    hint = ", ".join(f"{name}: {path}" for name, path in zip(LABELS, paths, strict=True))
    choices = [{key: run.setting(key) for key in FIELDS} for run in runs]
    # Classes are not compared if the option names already differ.
    classes = tuple(f"{key}{TARGET}" for key in FIELDS if choices[0][key] != choices[1][key])
    code = [{f"{CODE} of {clean(file)}": clean(mark) for file, mark in run.part(CODE).items()} for run in runs]
    parts = zip(choices, runs, code, strict=True)
    values = [choice | settings(run, (*classes, CODE)) | files for choice, run, files in parts]
    main, minor = (
        [{k: v for k, v in entries.items() if is_ignored(k) is flag} for entries in values] for flag in (False, True)
    )
    views = [
        *score_views(runs),
        words_view("Settings", "Setting", main),
        words_view("Seed, hardware and folders", "Setting", minor),
        words_view("Versions", "Package", [environment_facts(run) for run in runs]),
        data_view(runs),
        *question_views(runs, most),
    ]
    equal_titles = [view.title.lower() for view in views if not view.rows]
    notes = (hint, *[f"the same in both: {', '.join(equal_titles)}"] * bool(equal_titles))
    full_views = tuple(view for view in views if view.rows)
    return ReportSection("difference", "Two runs side by side", "Difference", full_views, notes)


def run_names(folders: Sequence[Path]) -> list[str]:
    """Return the paths of run folders, relative to their common parent folder."""
    paths = [folder.resolve() for folder in folders]
    parent = os.path.commonpath(paths)
    return [clean(Path(os.path.relpath(path, parent))) for path in paths]


def score_views(runs: Pair) -> Iterator[View]:
    """Yield a table of the scores of two runs with their changes, and another for test."""
    names = {full: name for run in runs for full, name in run.names.items() if not name.baseline}
    metrics = sorted(names.values(), key=MetricName.rank)
    for title, of_test in (("Scores", False), ("Scores on test", True)):
        selection = [metric for metric in metrics if (metric.split == "test") is of_test]
        rows = tuple(score_row(metric, *(run.metrics.get(metric.full) for run in runs)) for metric in selection)
        if rows or not of_test:
            yield View(title, (*map(Column, LABELS), Column("Change")), rows, "Score")


def score_row(metric: MetricName, first: float | None, second: float | None) -> Row:
    """Build the table row of a metric: the scores of two runs, and the change.

    Args:
        metric: the metric.
        first: score of the first run, None if missing.
        second: score of the second run, None if missing.
    """
    cells = [ViewCell.of(score, metric.spec.text, metric.spec.scale) for score in (first, second)]
    delta = None if first is None or second is None else second - first
    return Row(metric.title, (*cells, ViewCell.of(delta, metric.spec.difference_text, metric.spec.scale)))


def words_view(title: str, head: str, facts: Sequence[Mapping[str, str]]) -> View:
    """Build a table of settings or other texts that differ between two runs.

    Args:
        title: title of the table.
        head: heading of the column of names.
        facts: entries by name, one mapping per run.
    """
    keys = dict.fromkeys(key for entries in facts for key in entries)
    differing = [key for key in keys if len({entries.get(key, "") for entries in facts}) > 1]
    rows = (Row(key, tuple(ViewCell(entries.get(key) or NOTHING) for entries in facts)) for key in differing)
    return View(title, word_columns(LABELS), tuple(rows), head)


def word_columns(names: Iterable[str]) -> tuple[Column, ...]:
    """Build table columns for text instead of numbers."""
    return tuple(Column(name, is_number=False) for name in names)


def data_view(runs: Pair) -> View:
    """Build a table of the numbers of examples that differ between the data of two runs."""
    counts = [{k: float(v) for k, v in run.part("data").items() if is_number(v)} for run in runs]
    keys = dict.fromkeys(key for numbers in counts for key in numbers)
    rows = []
    for key in keys:
        values = [numbers.get(key) for numbers in counts]
        if values[0] != values[1]:
            cells = [ViewCell.of(value, "{:,.0f}".format) for value in values]
            delta = (values[1] or 0) - (values[0] or 0)
            rows.append(Row(clean(key), (*cells, ViewCell.of(delta, "{:+,.0f}".format))))
    return View("Data", (*map(Column, LABELS), Column("Change")), tuple(rows), "Examples")


def question_views(runs: Pair, most: int) -> Iterator[View]:
    """Yield a table of the questions that two runs answer differently, on dev or else test."""
    for split in SPLITS:
        first, second = (load_questions(run, split) for run in runs)
        if first and second:
            yield questions_view(runs[0], split, first, second, most)
            return


def questions_view(run: LoadedRun, split: str, first: Questions, second: Questions, most: int) -> View:
    """Build a table of the questions that two runs answer differently.

    Questions whose correctness changed come first.

    Args:
        run: the first run, whose record declares user-defined scores.
        split: name of the split.
        first: predictions of the first run.
        second: predictions of the second run.
        most: maximum number of rows.
    """
    side_a, side_b = keep_scored(first), keep_scored(second)
    pairs = [(question, prediction, side_b[question]) for question, prediction in side_a.items() if question in side_b]
    score = common_score([prediction for _, *pair in pairs for prediction in pair], split, run)
    changed = [(question, a, b) for question, a, b in pairs if a.text.split() != b.text.split()]
    rights = [[is_right(question, prediction, score) for prediction in pair] for question, *pair in changed]
    order = sorted(range(len(changed)), key=lambda index: (-abs(rights[index][1] - rights[index][0]), index))
    rows = tuple(question_row(*changed[index], rights[index]) for index in order[:most])
    won, lost = (sum(sign * (b - a) > 0 for a, b in rights) for sign in (1, -1))
    summary = f"{len(changed):,} of {len(pairs):,} answers on {split} changed: {won:,} better, {lost:,} worse"
    notes = [summary + describe_unscored(first)]
    notes += [f"the first {most} are shown"] * (len(changed) > most)
    return View("Answers that changed", word_columns(("Right answer", *LABELS)), rows, "Question", notes=tuple(notes))


def question_row(question: ScoredQuestion, old: Prediction, new: Prediction, rights: Sequence[float]) -> Row:
    """Build the table row of a question: gold answer, and the predictions of two runs.

    Each prediction is preceded by a mark for its correctness.

    Args:
        question: the question.
        old: prediction of the first run.
        new: prediction of the second run.
        rights: correctness of both predictions, from 0 to 1.
    """
    pairs = zip(rights, (old, new), strict=True)
    answers = [f"{verdict(score)['mark']} {prediction.text or NOTHING}" for score, prediction in pairs]
    gold = " / ".join(question.answers) or NOTHING
    return Row(question.text or question.question_id, tuple(map(ViewCell, (gold, *answers))))


def common_score(predictions: Sequence[Prediction], split: str, run: LoadedRun) -> str:
    """Return the most important score that all predictions have, by name, else "".

    The result is empty if there is none.

    Args:
        predictions: predictions of one or several runs.
        split: split of the questions.
        run: run whose record declares user-defined scores.
    """
    names = set.intersection(*(set(prediction.scores) for prediction in predictions)) if predictions else set()
    shares = [metric for name in names if (metric := run.parse(f"{split}/{name}")).spec.is_share]
    return min(shares, key=preference).score if shares else ""


def is_right(question: ScoredQuestion, prediction: Prediction, score: str) -> float:
    """Return how correct a prediction is, from 0 to 1, by its recorded score if available.

    Args:
        question: question with its gold answers.
        prediction: prediction of a run.
        score: name of the score to use. If empty, the correctness is 1 if the prediction equals a gold answer
            regardless of case, else 0.
    """
    if score:
        return prediction.scores[score]
    return float(prediction.text.casefold() in {answer.casefold() for answer in question.answers})
