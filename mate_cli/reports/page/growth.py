"""How a score grows with the number of training examples, on the page."""

from __future__ import annotations

from mate_cli.reports.compare.growth import growth_frame
from mate_cli.reports.compare.report import Report
from mate_cli.reports.html_elements import Markup, element
from mate_cli.reports.plots.growth import growth_figure
from mate_cli.reports.plots.style import as_svg


def growth_section(report: Report) -> Markup | None:
    """Returns the figure, None where nothing was trained on several numbers of examples."""
    frame = growth_frame(report)
    if frame is None:
        return None
    note = "Configurations that differ only in how many examples they learnt from are one line: the mean over seeds, "
    note += "bars are the standard deviation. Published figures are from other sizes and all of the training data."
    return element(
        "section",
        element("h2", "Growth with data"),
        element("figure", Markup(as_svg(growth_figure(frame), "growth"))),
        element("p", note, class_="note"),
        id="growth",
    )
