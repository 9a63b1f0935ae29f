"""Observed attention flow on the page: a table and two figures for each configuration that was analysed."""

from __future__ import annotations

from collections.abc import Iterator

from mate_cli.reports.attention_flow import PAPER, NetworkFlow, ratio_figure, read_flows
from mate_cli.reports.compare.report import Report
from mate_cli.reports.format import NOTHING
from mate_cli.reports.html_elements import Markup, element
from mate_cli.reports.plots.attention_flow import flow_heat_maps
from mate_cli.reports.plots.style import as_svg

MOST_SHOWN = 6


def flow_section(report: Report) -> Markup | None:
    """Returns what was observed of the best configurations, None where no run was analysed."""
    shown = list(analysed(report))
    if not shown:
        return None
    parts = [
        element(
            "figure",
            element("h3", f"{label}: {network.title[0].lower()}{network.title[1:]}"),
            flow_element(network),
            Markup(as_svg(ratio_figure(network), f"flow-{place}-{inner}")),
            Markup(as_svg(flow_heat_maps(tuple(PAPER), network.attention), f"flow-heads-{place}-{inner}")),
        )
        for place, (label, flows) in enumerate(shown[:MOST_SHOWN])
        for inner, network in enumerate(flows)
    ]
    note = "From tokens in body cells, the mean over tokens, heads, layers and examples. Ratio: to uniform attention "
    note += "without padding. Paper: a TAPAS after WikiTableQuestions (Eisenschlos et al. 2021, table 7). Written by "
    note += "mate evaluate run=FOLDER split=dev analysis=attention_flow."
    if len(shown) > MOST_SHOWN:
        note += f" {len(shown) - MOST_SHOWN} more configurations have been analysed."
    return element("section", element("h2", "Attention flow"), parts, element("p", note, class_="note"), id="flow")


def analysed(report: Report) -> Iterator[tuple[str, list[NetworkFlow]]]:
    """Yields the label of each configuration that was analysed, and what was found of its first such run."""
    for group in report.groups:
        flows = next((flows for run in group.runs if (flows := read_flows(run.folder))), None)
        if flows:
            yield group.label, flows


def flow_element(network: NetworkFlow) -> Markup:
    """Returns the table: a row per target, ratio and percent of every panel, and the paper's."""
    first = network.panels[0]
    names = [name for panel in network.panels for name in (f"{panel.label}: ratio", "%")]
    head = element(
        "tr", [element("th", name) for name in ("to", *names, "uniform %", "paper: ratio", "%", "uniform %")]
    )
    rows = []
    for target in first.attention:
        ratios = [(panel.ratio(target), panel.attention[target]) for panel in network.panels]
        cells = [
            text for ratio, share in ratios for text in (NOTHING if ratio is None else f"{ratio:.2f}", f"{share:.2f}")
        ]
        attention, uniform = PAPER[target]
        cells += [f"{number:.2f}" for number in (first.uniform[target], attention / uniform, attention, uniform)]
        rows.append(element("tr", element("th", target, scope="row"), [element("td", cell) for cell in cells]))
    table = element("table", element("thead", head), element("tbody", rows))
    return element("div", table, class_="scroll")
