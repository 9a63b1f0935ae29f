"""Tables and figures of `analysis=attention_flow`, next to table 7 of the MATE paper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from mate_cli.errors import RunError
from mate_cli.files.io_errors import wrap_file_errors
from mate_cli.files.safe_load import read_object
from mate_cli.reports.compare.configuration import Configuration
from mate_cli.reports.compare.report import Report
from mate_cli.reports.format import plural
from mate_cli.reports.plots.style import COLORS, INK, new_panels
from mate_cli.reports.view import Column, ReportSection, Row, View, ViewCell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAME, HEAD = "attention_flow", "from body cells to"
TWO_DIGITS = "{:.2f}".format
PAPER: Mapping[str, tuple[float, float]] = {
    "[CLS]": (12.45, 0.28),
    "question": (37.08, 3.66),
    "header, other column": (3.89, 2.94),
    "header, own column": (1.72, 0.51),
    "table, neither": (23.59, 68.18),
    "table, same row": (3.51, 4.02),
    "table, same column": (13.16, 18.84),
    "table, same cell": (4.60, 1.57),
}
"""Percent of attention that table tokens pay to each type of token in the MATE paper.

Each pair contains the observed percentage and the percentage of uniform attention. The network is a TAPAS trained on
WikiTableQuestions. The uniform percentage distinguishes row from column: a column contains one of few columns of a
table's tokens, a row one of many rows.

Source: Eisenschlos et al. 2021 (MATE), table 7. The uniform share distinguishes row from column: a column contains one
of few columns of a table's tokens, a row one of many rows.
"""


@dataclass(frozen=True)
class NetworkFlow:
    """Mean attention of one network on each type of token, from `analysis=attention_flow`.

    Args:
        name: name of an inner network, empty for the network itself.
        title: title of the tables.
        attention: fractions of attention [layers][heads][targets].
        uniform: percent of uniform attention, by target.
        panels: mean percent of attention by target, for "all heads", then for each group of attention heads with the
            same mask.
    """

    name: str
    title: str
    attention: Sequence[Sequence[Sequence[float]]]
    uniform: Mapping[str, float]
    panels: Mapping[str, Mapping[str, float]]


def network_flows(findings: Mapping[str, Any]) -> list[NetworkFlow]:
    """Parse the results of `analysis=attention_flow`: one `NetworkFlow` per network.

    Raises:
        ValueError: the analysis was written with other types of tokens.
    """
    if list(findings["targets"]) != list(PAPER):
        raise ValueError("it has other targets than this version of mate")
    flows = []
    for network in findings["networks"]:
        attention = [[[float(share) for share in head] for head in layer] for layer in network["attention"]]
        all_heads = [(layer, head) for layer, heads in enumerate(attention) for head in range(len(heads))]
        uniform = {target: 100 * float(share) for target, share in zip(PAPER, network["uniform"], strict=True)}
        parts = {"all heads": all_heads} | {str(group["label"]): group["heads"] for group in network["groups"]}
        panels = {label: _means(attention, heads) for label, heads in parts.items()}
        owner = f" of its {network['name']}" if network["name"] else ""
        title = f"Attention flow{owner} on {findings['split']}, {plural(int(findings['examples']), 'example')}"
        flows.append(NetworkFlow(str(network["name"]), title, attention, uniform, panels))
    return flows


def read_flows(folder: Path) -> list[NetworkFlow]:
    """Read the attention flow of each network of a run from the results of an analysis.

    The result is empty if the file of the analysis is missing or unreadable.
    """
    file = folder / "analysis" / f"{NAME}.json"
    hint = "Analyse the run again"
    try:
        with wrap_file_errors(file, RunError, "not readable as an attention flow", hint):
            return network_flows(read_object(file, RunError, hint)) if file.is_file() else []
    except RunError:
        return []


def _means(attention: Sequence[Sequence[Sequence[float]]], heads: Sequence[Sequence[int]]) -> dict[str, float]:
    return {
        target: 100 * fmean(attention[layer][head][index] for layer, head in heads)
        for index, target in enumerate(PAPER)
    }


NOTE = (
    "percent of the attention of tokens in body cells, the mean over tokens, heads, layers and examples; ratio: to "
    "uniform attention without padding; paper: a TAPAS after WikiTableQuestions (table 7 of the MATE paper)"
)


def list_views(findings: Mapping[str, Any]) -> list[View]:
    """Build the attention flow tables of all networks in the results of an analysis."""
    return [view for network in network_flows(findings) for view in flow_views(network)]


def flow_views(network: NetworkFlow) -> Iterator[View]:
    """Yield tables of a network's attention, with a row per type of attended token.

    The first table contains all attention heads next to the numbers of the paper. If attention heads have different
    masks, a second table contains the groups of attention heads with the same mask. The last table includes heat maps.
    """
    all_heads, *panels = network.panels
    draw = partial(draw_heads, network)
    columns = [Column(name) for name in ("ratio", "%", "uniform %")]
    columns += [Column(f"paper: {name}", ("paper",), name) for name in ("ratio", "%", "uniform %")]
    rows = []
    for target, (attention, uniform) in PAPER.items():
        numbers = (network.uniform[target], attention / uniform, attention, uniform)
        cells = (ViewCell.of(number, TWO_DIGITS) for number in numbers)
        rows.append(Row(target, (*ratio_cells(network, all_heads, target), *cells)))
    yield View(network.title, tuple(columns), tuple(rows), HEAD, figures=tuple if panels else draw)
    if panels:
        names = tuple(Column(f"{label}: {name}", (label,), name) for label in panels for name in ("ratio", "%"))
        rows = [
            Row(target, tuple(cell for label in panels for cell in ratio_cells(network, label, target)))
            for target in PAPER
        ]
        yield View(f"{network.title}, by mask", names, tuple(rows), HEAD, figures=draw)


def ratio_cells(network: NetworkFlow, panel: str, target: str) -> tuple[ViewCell, ViewCell]:
    """Build two table cells for a token type: attention relative to uniform, and in percent.

    The first cell is empty if the uniform attention is 0.

    Args:
        network: attention flow of the network.
        panel: name of the group of attention heads, a key of `network.panels`.
        target: type of the attended tokens.
    """
    share, uniform = network.panels[panel][target], network.uniform[target]
    return ViewCell.of(share / uniform if uniform else None, TWO_DIGITS), ViewCell.of(share, TWO_DIGITS)


def figures(findings: Mapping[str, Any]) -> dict[str, Figure]:
    """Draw attention heat maps of each analyzed network, as {file name: figure}."""
    return {
        "_".join(filter(None, (NAME, network.name, "heads"))): draw_heads(network)[0]
        for network in network_flows(findings)
    }


COLUMNS = 4


def draw_heads(network: NetworkFlow) -> list[Figure]:
    """Draw a heat map per type of attended token, with each head's attention in percent.

    Rows are layers, columns are attention heads.
    """
    import numpy as np
    from matplotlib.colors import LinearSegmentedColormap

    values = 100 * np.array(network.attention)
    layers, heads = values.shape[:2]
    rows = -(-len(PAPER) // COLUMNS)
    figure, panels = new_panels(rows, COLUMNS, 9.4, rows * max(1.7, 0.6 + 0.14 * layers))
    shades = LinearSegmentedColormap.from_list("flow", ["#ffffff", COLORS[0]])
    for index, target in enumerate(PAPER):
        axes = panels[index // COLUMNS][index % COLUMNS]
        mesh = axes.pcolormesh(values[:, :, index], cmap=shades, vmin=0, vmax=100, edgecolors="none")
        axes.set_title(f"{target}: {values[:, :, index].mean():.1f} %", color=INK, fontsize=8.5)
        axes.set_xticks([0.5, heads - 0.5], ["1", str(heads)])
        axes.set_yticks([0.5, layers - 0.5], ["1", str(layers)])
        axes.grid(visible=False)
        axes.set_xlabel("head", color=INK, fontsize=8)
        if index % COLUMNS == 0:
            axes.set_ylabel("layer", color=INK, fontsize=8)
            axes.invert_yaxis()
    bar = figure.colorbar(mesh, ax=[axes for row in panels for axes in row], fraction=0.02, pad=0.01)
    bar.set_label("% of a head's attention", color=INK, fontsize=8)
    bar.ax.tick_params(colors=INK, labelsize=7.5, length=0)
    bar.outline.set_visible(False)
    return [figure]


MAX_SHOWN = 6


def flow_section(report: Report, *, wide: bool) -> ReportSection | None:
    """Return the attention flow of the best analyzed configurations.

    The tables come from `analysis=attention_flow`. The result is None if no run was analyzed.
    """
    flows = [views for group in report.groups if (views := list(first_flows(group)))]
    if not flows:
        return None
    more = len(flows) - MAX_SHOWN
    notes: tuple[str, ...] = (NOTE, "written by mate evaluate run=FOLDER split=dev analysis=attention_flow")
    notes += (f"{more} more configurations have been analysed",) if more > 0 else ()
    views_to_show = tuple(view for views in flows[:MAX_SHOWN] for view in views)
    return ReportSection("flow", "Attention flow", "Attention", views_to_show, notes)


def first_flows(group: Configuration) -> Iterator[View]:
    """Yield the attention tables of a configuration's first run that has been analyzed."""
    for network in next((flows for run in group.runs if (flows := read_flows(run.folder))), ()):
        for view in flow_views(network):
            yield replace(view, title=f"{group.label}: {view.title[0].lower()}{view.title[1:]}")
