"""The tables of a benchmark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from mate_cli.reports.benchmark.results import (
    APPROXIMATE,
    BOTH,
    BOUND,
    DIRECTIONS,
    FORWARD,
    PLAN,
    BenchmarkResults,
    MeasuredCase,
    shape_title,
)
from mate_cli.reports.view import Column, Row, View, ViewCell

Write = Callable[[float], str]


class FigureColumn(NamedTuple):
    """One figure of every variant.

    Args:
        over: the heading's first line.
        under: its second line.
        direction: forward, forward_backward or plan.
        figure: its name in the record.
        write: how it is written.
        best: marks the smallest.
        minor: left out where there is little room.
        unless: left out where this figure is known: one reference is enough.
    """

    over: str
    under: str
    direction: str
    figure: str
    write: Write
    best: bool = False
    minor: bool = False
    unless: str = ""


def time_text(value: float) -> str:
    """Write milliseconds: 0.03, 3.27, 41.9, 866, 12,215."""
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:,.{digits}f}"


def ratio_text(value: float) -> str:
    """Write how many times as fast: 0.83, 4.5, 11.2."""
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}"


def percent_text(value: float) -> str:
    """Write a share: 0.4%, 58%."""
    return f"{100 * value:.1f}%" if value < 0.0995 else f"{100 * value:.0f}%"


def megabytes_text(value: float) -> str:
    """Write megabytes."""
    return f"{value:,.0f}"


def error_text(value: float) -> str:
    """Write an error: 6e-07, 1.1."""
    return f"{value:.0e}" if value < 0.001 else f"{value:.2g}"


def _timed(direction: str, over: str, *references: str) -> tuple[FigureColumn, ...]:
    first = FigureColumn(over, "ms", direction, "ms", time_text, best=True)
    compared = [FigureColumn("times", name, direction, f"speedup_vs_{name}", ratio_text) for name in references]
    return first, FigureColumn("", "CPU ms", direction, "cpu_ms", time_text, minor=True), *compared


def _instead(direction: str) -> FigureColumn:
    """Return how our own TAPAS compares, where none of transformers was measured."""
    return FigureColumn("times", "dense", direction, "speedup_vs_dense", ratio_text, unless="speedup_vs_bert")


COLUMNS: dict[str, tuple[FigureColumn, ...]] = {
    "attention": (
        *_timed(FORWARD, "forward", "dense", "bucketed"),
        *_timed(BOTH, "fwd+bwd", "dense", "bucketed"),
        FigureColumn("of", "peak", BOTH, "share_of_peak", percent_text, minor=True),
        FigureColumn("peak", "MB", BOTH, "peak_mb", megabytes_text),
        FigureColumn("max", "error", FORWARD, "max_error", error_text),
    ),
    "encoder": (
        *_timed(FORWARD, "forward", "bert", "tapas"),
        _instead(FORWARD),
        *_timed(BOTH, "fwd+bwd", "bert", "tapas"),
        _instead(BOTH),
        FigureColumn("examples", "per s, fwd", FORWARD, "examples_per_second", ratio_text, minor=True),
        FigureColumn("examples", "per s, both", BOTH, "examples_per_second", ratio_text),
        FigureColumn("GFLOP", "fwd", FORWARD, "gflop", time_text, minor=True),
        FigureColumn("times", "padded", BOTH, "speedup_vs_padded", ratio_text),
        FigureColumn("of", "peak", BOTH, "share_of_peak", percent_text, minor=True),
        FigureColumn("peak", "MB", BOTH, "peak_mb", megabytes_text),
        FigureColumn("plan", "ms", PLAN, "ms", time_text, minor=True),
        FigureColumn("of", "step", PLAN, "share_of_forward_backward", percent_text),
    ),
    "training": (
        *_timed(BOTH, "step", "bert", "tapas"),
        _instead(BOTH),
        FigureColumn("times", "padded", BOTH, "speedup_vs_padded", ratio_text),
        FigureColumn("tokens", "per s", BOTH, "tokens_per_second", megabytes_text),
        FigureColumn("examples", "per s", BOTH, "examples_per_second", ratio_text),
        FigureColumn("of", "peak", BOTH, "share_of_peak", percent_text, minor=True),
        FigureColumn("peak", "MB", BOTH, "peak_mb", megabytes_text),
        FigureColumn("plan", "ms", PLAN, "ms", time_text, minor=True),
        FigureColumn("of", "step", PLAN, "share_of_forward_backward", percent_text),
    ),
}
"""Columns of the table of a case, by the kind of the benchmark."""
AGAINST = {"attention": "dense", "encoder": "bert", "training": "bert"}
"""The variant that the overview compares with."""


def case_table(results: BenchmarkResults, case: MeasuredCase) -> View:
    """Return the table of one case; columns without any figure are left out."""
    columns = [
        column
        for column in COLUMNS[case.kind]
        if is_known(results, case, column.direction, column.figure)
        and not (column.unless and is_known(results, case, column.direction, column.unless))
    ]
    values = {
        name: [results.figure(case, name, column.direction, column.figure) for column in columns]
        for name in results.variants
        if any(results.cases[case].get(name, {}).get(direction) for direction in DIRECTIONS)
    }
    best = [
        min((v for row in values.values() if (v := row[i]) is not None), default=None) if column.best else None
        for i, column in enumerate(columns)
    ]
    heads = [stack(column.over, column.under, minor=column.minor) for column in columns]
    writers = [column.write for column in columns]
    notes = (*list_skipped(results, case), *_gained_alone(results, case))
    return variants_view(results, case.title, heads, values, writers, best, notes)


def _gained_alone(results: BenchmarkResults, case: MeasuredCase) -> tuple[str, ...]:
    """Return what gains more than its pairs, of a case whose shape has no overview that says so."""
    if case.kind not in AGAINST or sum(other.shape == case.shape for other in results.cases) > 1:
        return ()
    figure = f"speedup_vs_{AGAINST[case.kind]}"
    gains = {n: [results.figure(case, n, direction, figure) for direction in DIRECTIONS] for n in results.variants}
    return explain_gains(results, gains)


def stack(over: str, under: str, *, minor: bool = False) -> Column:
    """Return a column with a heading of two lines."""
    return Column(f"{over}\n{under}", stacked=f"{over}\n{under}", minor=minor)


def variants_view(
    results: BenchmarkResults,
    title: str,
    columns: Sequence[Column],
    values: Mapping[str, Sequence[float | None]],
    writers: Sequence[Write],
    best: Sequence[float | None],
    notes: tuple[str, ...],
) -> View:
    """Return a row per variant.

    Args:
        results: all figures.
        title: above the table.
        columns: of the table.
        values: by variant, a number per column.
        writers: of the numbers of each column.
        best: the number of each column that is marked; None marks none.
        notes: below the table.
    """
    rows = tuple(
        Row(
            results.title(name),
            tuple(
                ViewCell() if value is None else ViewCell(write(value), value, mark="best" if value == least else "")
                for value, write, least in zip(row, writers, best, strict=True)
            ),
            "bound" if name == BOUND else "",
        )
        for name, row in values.items()
    )
    return View(title, tuple(columns), rows, "variant", notes=notes)


def is_known(results: BenchmarkResults, case: MeasuredCase, direction: str, figure: str) -> bool:
    """Tell whether a figure of a case was measured of any variant."""
    return any(results.figure(case, name, direction, figure) is not None for name in results.variants)


def list_skipped(results: BenchmarkResults, case: MeasuredCase) -> tuple[str, ...]:
    """Return which variants were not run, and why; the direction is named where the other one was run."""
    lines = []
    for name, reasons in results.reasons.get(case, {}).items():
        where = "" if len(reasons) == len(DIRECTIONS) else " ".join(["", *map(DIRECTIONS.__getitem__, reasons)])
        lines.append(f"{results.title(name)}{where} not run: {'; '.join(dict.fromkeys(reasons.values()))}")
    return tuple(lines)


def overview_tables(results: BenchmarkResults, direction: str = BOTH) -> list[View]:
    """Tabulate the speedup over dense attention (BertModel for encoders) at each length, for each shape of tables."""
    return [view for shape in results.shapes if (view := _overview(results, shape, direction)).rows]


def _overview(results: BenchmarkResults, shape: str, direction: str) -> View:
    against, cases = AGAINST[results.kind], [case for case in results.cases if case.shape == shape]
    figure = f"speedup_vs_{against}"
    cells = {
        name: [results.figure(case, name, direction, figure) for case in cases]
        for name in results.variants
        if any(results.figure(case, name, direction, figure) is not None for case in cases)
    }
    if not cells.keys() - {BOUND} or len(cases) < 2:
        cells = {}
    most = [max((v for n, row in cells.items() if n != BOUND and (v := row[i])), default=0) for i in range(len(cases))]
    heads = [stack(f"{case.tokens:,}", "mixed" if case.batch == "mixed" else f"x {case.batch}") for case in cases]
    title = f"{shape_title(shape)} tables: times as fast as {against}, {DIRECTIONS[direction]}"
    writers = [ratio_text] * len(cases)
    return variants_view(results, title, heads, cells, writers, most, explain_gains(results, cells))


def explain_gains(results: BenchmarkResults, cells: Mapping[str, list[float | None]]) -> tuple[str, ...]:
    """Return which variants gain more than the pairs that they save, and what else they save."""
    pairs = {name: zip(row, cells.get(BOUND, []), strict=False) for name, row in cells.items() if name != BOUND}
    beyond = [name for name, row in pairs.items() if any(gain and most and gain > most for gain, most in row)]
    if not beyond:
        return ()
    named = {exact: [results.title(n) for n in beyond if results.is_approximate(n) != exact] for exact in (True, False)}
    notes = []
    if named[True]:
        saved = "they also avoid scores of padding and moving all scores"
        notes.append(f"Beyond the bound, which counts pairs alone: {', '.join(named[True])}; {saved} through memory")
    if named[False]:
        notes.append(f"Beyond the bound as not all pairs are computed: {', '.join(named[False])}")
    return tuple(notes)


def describe_measurement(results: BenchmarkResults) -> str:
    """Return what the figures mean, in a few sentences."""
    sentences = [
        "Medians of rounds in which the variants take turns in one process; wall time, and time on all CPU cores.",
        "MB: peak memory of the call, above the memory in use before it.",
        "A (query, key) pair counts 4 x head size operations per head forward, and 2.5 times as many more backward;"
        f" of peak: against matrix products at {results.fact('peak_gflops_per_second')} GFLOP/s.",
    ]
    if any(map(results.is_approximate, results.variants)):
        sentences.append(f"{APPROXIMATE}: an approximation of the others.")
    if results.kind == "attention":
        sentences += [
            "bound: pairs that dense attention computes, padding included, over pairs that MATE's pattern needs.",
            "max error: of an output, against float64.",
        ]
    else:
        sentences += [
            "Times bert, tapas: as BertModel (sdpa) and TapasModel of transformers; dense: TAPAS of ours, all tokens.",
            "Plan: made once per batch, not part of the times; of step: its share of one forward+backward pass.",
        ]
        if any("@" in name for name in results.variants):
            sentences.append("First tokens: reads only the first tokens of each example.")
        if any(name.endswith("_padded") for name in results.variants):
            sentences.append("padded: padding as real tokens, in short rows that only the question attends to.")
    return " ".join(sentences)
