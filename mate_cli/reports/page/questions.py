"""Questions that configurations answer differently, side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from mate_cli.metrics.parts import IN_PASSAGE
from mate_cli.metrics.specs.names import MetricName, subset_title
from mate_cli.reports.compare.answer_tables import AnswerTable, read_tables
from mate_cli.reports.compare.disagreements import Disagreement, GivenAnswer, disagreements
from mate_cli.reports.compare.grouping import Configuration
from mate_cli.reports.compare.questions import ScoredQuestion, taken_apart
from mate_cli.reports.compare.report import Report
from mate_cli.reports.compare.tables import dataset_of
from mate_cli.reports.format import NOTHING, plural
from mate_cli.reports.html_elements import Markup, element, options
from mate_cli.reports.page.page_data import score_names
from mate_cli.reports.page.question_table import question_table
from mate_cli.reports.plots.style import paint_of

MOST_QUESTIONS, MOST_GROUPS, MOST_TEXTS, FIRST = 40, 8, 2, 6


def questions_section(report: Report) -> Markup | None:
    """Returns the questions on which the best configurations disagree most, with a field to search them."""
    groups = report.groups[:MOST_GROUPS]
    names = (name for name in score_names(report) if MetricName.parse(name).is_share)
    every = ((name, disagreements(groups, name, MOST_QUESTIONS)) for name in names)
    metric, found = next(((name, questions) for name, questions in every if questions), ("", ()))
    if not found:
        return None
    labels = list(dict.fromkeys(answer.label for one in found for answer in one.answers))
    places = {group.label: place for place, group in enumerate(groups)}
    tables, missing = tables_of(found, groups, taken_apart(metric)[0], report.cache)
    cards = [question_card(one, tables.get(one.question.question_id), places) for one in found]
    choices = options([("", "any"), *((label, label) for label in labels)])
    menus = [
        element("label", f"{word} ", element("select", choices, id=f"question-{word.lower()}"), class_="control")
        for word in ("Right", "Wrong")
    ]
    field = element("input", type="search", id="question-filter", placeholder="words in question or answer")
    count = element("output", plural(len(found), "question"), id="question-count", role="status")
    note = f"The {plural(len(found), 'question')} with the widest spread of {MetricName.parse(metric).title}, "
    note += f"best {MOST_GROUPS} configurations at most. ✓ right, ✗ wrong, ◐ partly or for some seeds."
    note += f" Tables are not shown: {missing.rstrip('.')}." if missing else ""
    return element(
        "section",
        element("h2", "Where they disagree"),
        element("div", menus, element("label", "Search ", field, class_="control"), count, class_="controls script"),
        element("ol", cards, class_="questions", id="question-list", data_first=FIRST),
        element("button", "Show more", type="button", class_="more script", id="question-more"),
        element("p", note, class_="note"),
        id="questions",
    )


def tables_of(
    found: Sequence[Disagreement], groups: Sequence[Configuration], split: str, cache: Path | None
) -> tuple[dict[str, AnswerTable], str]:
    """Returns the tables of questions by their ids, and why some are not there; a data set at a time."""
    runs = {group.label: group.runs for group in groups}
    datasets = {group.label: dataset_of(group) for group in groups}
    asked: dict[str, list[Disagreement]] = {}
    for one in found:
        asked.setdefault(datasets[one.answers[0].label], []).append(one)
    tables: dict[str, AnswerTable] = {}
    missing: dict[str, None] = {}
    for questions in asked.values():
        told = [run for one in questions for answer in one.answers for run in runs[answer.label]]
        read = read_tables(dict.fromkeys(told), split, [one.question.question_id for one in questions], cache)
        tables |= read.by_question
        missing |= {read.missing: None} if read.missing else {}
    return tables, "; ".join(missing)


def question_card(found: Disagreement, table: AnswerTable | None, places: Mapping[str, int]) -> Markup:
    """Returns one question: its text, the right answer, what each configuration said, and the table."""
    question = found.question
    gold = " / ".join(question.answers) or NOTHING
    facts = [subset_title(question.source), question.table_id.replace("_", " ")]
    detail = " · ".join(fact for fact in facts if fact)
    return element(
        "li",
        element("p", question.text or question.question_id, class_="question"),
        element("p", "Answer ", element("strong", gold), element("small", detail) if detail else None, class_="gold"),
        element("dl", [answer_row(answer, question, places[answer.label]) for answer in found.answers]),
        question_table(table, found.answers, places) if table else None,
        data_right=json.dumps([answer.label for answer in found.answers if answer.score >= 1.0]),
        data_wrong=json.dumps([answer.label for answer in found.answers if answer.score <= 0.0]),
    )


def answer_row(answer: GivenAnswer, question: ScoredQuestion, place: int) -> Markup:
    """Returns what one configuration said, with a mark that does not rely on colour."""
    kind, mark, word = verdict(answer.score)
    said = [element("span", prediction_text(text, count, answer)) for text, count in answer.texts[:MOST_TEXTS]]
    if is_link(answer, question):
        said.append(element("small", "the cell that links to the passage with the answer"))
    more = len(answer.texts) - MOST_TEXTS
    rest = element("small", f"and {more} more") if more > 0 else None
    sign = element("span", mark, class_="mark", role="img", aria_label=word, title=f"{word}, {100 * answer.score:.0f}")
    swatch = element("i", class_="swatch", style=f"--paint:{paint_of(place)}")
    return element(
        "div", element("dt", swatch, answer.label), element("dd", sign, element("span", said, rest)), class_=kind
    )


def is_link(answer: GivenAnswer, question: ScoredQuestion) -> bool:
    """Whether what is right here is not the answer itself, but the cell whose passage holds it."""
    texts = {" ".join(text.lower().split()) for text in question.answers}
    own = (" ".join(text.lower().split()) for text, _ in answer.texts)
    return answer.score >= 1.0 and question.source == IN_PASSAGE.name and not any(text in texts for text in own)


def verdict(score: float) -> tuple[str, str, str]:
    """Says how right an answer is: its class, its mark, its word."""
    if score >= 1.0:
        return ("right", "✓", "right")
    return ("wrong", "✗", "wrong") if score <= 0.0 else ("partly", "◐", "partly right")


def prediction_text(text: str, count: int, answer: GivenAnswer) -> list[object]:
    """Returns a prediction, with the number of seeds that made it where they differ."""
    seeds = sum(number for _, number in answer.texts)
    tail = element("small", f" {count} of {seeds} seeds") if len(answer.texts) > 1 else None
    return [text or NOTHING, tail]
