"""What the page shows of networks that leave out tokens: how they score answers."""

from __future__ import annotations

from mate_cli.reports.compare.report import Report
from mate_cli.reports.html_elements import Markup, element
from mate_cli.reports.plots.figures import margin_frames
from mate_cli.reports.plots.score_margins import score_margins
from mate_cli.reports.plots.style import as_svg


def pruning_section(report: Report) -> Markup | None:
    """Returns the histograms of score margins, None where no network scores tokens."""
    frames = margin_frames(report)
    if not frames:
        return None
    figures = [
        element(
            "figure",
            element("h3", f"{frame.dataset}, {frame.split}"),
            Markup(as_svg(score_margins(frame), f"margins-{place}")),
        )
        for place, frame in enumerate(frames)
    ]
    note = "Each question's answer against the tokens of its table that are kept, by what the pruning network says of "
    note += "them. To the right of 0 answers are told from the rest. All seeds of a configuration together."
    heading = element("h2", "Score margins of answers")
    return element("section", heading, figures, element("p", note, class_="note"), id="pruning")
