"""Whether configurations differ by more than chance, as a table with the interval of every difference drawn."""

from __future__ import annotations

from mate_cli.metrics.specs.names import MetricName
from mate_cli.metrics.specs.spec import MetricSpec
from mate_cli.reports.compare.report import Report
from mate_cli.reports.compare.significance import Difference, Significance
from mate_cli.reports.html_elements import Markup, element

MINUS = "\u2212"


def significance_section(report: Report) -> Markup | None:
    """Returns the paired tests against one configuration, None when nobody asked for them."""
    found = report.significance
    if found is None or not (found.differences or found.notes):
        return None
    notes = [f"{note if note.startswith('p ') else note[0].upper() + note[1:]}." for note in found.notes]
    title = element("h2", f"Against {found.against}", element("small", MetricName.parse(found.metric).title))
    table = difference_table(found) if found.differences else None
    return element("section", title, table, element("p", " ".join(notes), class_="note"), id="significance")


def difference_table(found: Significance) -> Markup:
    """Returns a line per configuration, the axis of the intervals being the same for all."""
    widest = max(max(abs(one.low), abs(one.high)) for one in found.differences) or 1.0
    spec = MetricName.parse(found.metric).spec
    names = ("Configuration", "Score", "Difference", "95 % interval", "", "p", "Questions", "Seeds")
    numeric = {1, 2, 3, 5, 6, 7}
    heads = [
        element("th", name, class_="number" if i in numeric else None, scope="col") for i, name in enumerate(names)
    ]
    rows = [difference_row(one, widest, spec) for one in found.differences]
    head = element("thead", element("tr", heads, class_="sort"))
    return element("div", element("table", head, element("tbody", rows), class_="tests"), class_="scroll")


def difference_row(one: Difference, widest: float, spec: MetricSpec) -> Markup:
    """Returns one test; a difference that chance hardly makes is bold and has a word beside its p."""
    word = "better" if spec.is_better(one.difference, 0) else "worse"
    verdict = element("small", f" {word}" if one.is_significant else " not clear")
    p = "< 0.001" if one.p < 0.001 else f"{one.p:.3f}"
    cells = (
        (spec.text(one.score), one.score),
        (spec.difference_text(one.difference), one.difference),
        (f"{spec.difference_text(one.low)} to {spec.difference_text(one.high)}", one.low),
    )
    return element(
        "tr",
        element("th", one.label, scope="row"),
        [element("td", text.replace("-", MINUS), class_="number", data_value=f"{value:.8g}") for text, value in cells],
        element("td", interval(one, widest), aria_hidden="true"),
        element("td", p, verdict, class_="number", data_value=f"{one.p:.8g}"),
        element("td", f"{one.questions:,}", class_="number", data_value=one.questions),
        element("td", one.seeds, class_="number", data_value=one.seeds),
        class_="significant" if one.is_significant else None,
    )


def interval(one: Difference, widest: float) -> Markup:
    """Draws an interval around the line of no difference in the middle."""
    left, right, middle = (50 + 50 * value / widest for value in (one.low, one.high, one.difference))
    return element(
        "span",
        element("i", class_="zero"),
        element("i", class_="whisker", style=f"left:{left:.1f}%;width:{right - left:.1f}%"),
        element("i", class_="dot", style=f"left:{middle:.1f}%"),
        class_="interval",
    )
