"""What configurations have in common and in which settings they differ, a column per configuration."""

from __future__ import annotations

from mate_cli.reports.compare.config_difference import Comparison, Difference
from mate_cli.reports.compare.grouping import ABSENT, IGNORED, settings
from mate_cli.reports.compare.report import Report
from mate_cli.reports.format import NOTHING, plural
from mate_cli.reports.html_elements import Markup, element
from mate_cli.reports.page.tables import count_line

MOST_COLUMNS, MOST_SETTINGS, MOST_COMMON = 10, 60, 200


def settings_section(report: Report) -> Markup | None:
    """Returns a table of differing settings per dataset and task, and the settings that all runs share."""
    parts = [comparison_view(one) for one in report.comparisons if one.common or one.differences]
    shared = shared_view(report)
    if not any(parts) and shared is None:
        return None
    return element("section", element("h2", "What differs"), parts, shared, id="settings")


def comparison_view(comparison: Comparison) -> Markup | None:
    """Returns one dataset and task: what its configurations share in words, then the table of what they do not."""
    facts = element("ul", [element("li", fact) for fact in comparison.common], class_="facts-line")
    hints = [
        count_line(len(comparison.labels), "configuration", MOST_COLUMNS),
        count_line(len(comparison.differences), "setting", MOST_SETTINGS),
    ]
    hint = ", ".join(filter(None, hints))
    title = element("h3", comparison.title or "All runs", element("small", hint) if hint else None)
    return element(
        "div",
        title,
        element("div", "All of them: " if len(comparison.labels) > 1 else None, facts, class_="common")
        if comparison.common
        else None,
        difference_table(comparison),
        class_="comparison",
    )


def difference_table(comparison: Comparison) -> Markup | None:
    """Returns the settings that differ, None for a lone configuration."""
    if not comparison.differences:
        return None
    labels = comparison.labels[:MOST_COLUMNS]
    head = element("tr", element("th", "Setting", scope="col"), [element("th", label, scope="col") for label in labels])
    rows = [
        element("tr", element("th", one.key, scope="row"), [value_cell(one, label) for label in labels])
        for one in comparison.differences[:MOST_SETTINGS]
    ]
    table = element("table", element("thead", head), element("tbody", rows), class_="settings")
    return element("div", table, class_="scroll")


def value_cell(difference: Difference, label: str) -> Markup:
    """Returns the value of one configuration; one that no other has stands out."""
    found = next(((value, labels) for value, labels in difference.values.items() if label in labels), None)
    if found is None or found[0] == ABSENT:
        return element("td", NOTHING, class_="nothing")
    value, labels = found
    odd = len(labels) == 1 and sum(map(len, difference.values.values())) > 2
    return element("td", element("code", value, title=value), class_="odd" if odd else None)


def shared_view(report: Report) -> Markup | None:
    """Returns, folded, every setting that is the same in all runs."""
    every = [settings(run, IGNORED) for run in report.runs]
    first = every[0] if every else {}
    same = {key: value for key, value in first.items() if all(one.get(key) == value for one in every)}
    if not same:
        return None
    rows = [
        element("tr", element("th", key, scope="row"), element("td", element("code", value)))
        for key, value in list(same.items())[:MOST_COMMON]
    ]
    table = element("table", element("tbody", rows), class_="settings")
    name = f"{plural(len(same), 'setting')} that all runs share"
    return element("details", element("summary", name), element("div", table, class_="scroll"))
