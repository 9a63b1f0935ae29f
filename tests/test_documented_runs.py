"""Measured figures of the documents: those of the records beside them, or with the day when they were measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean

import pytest
from documented_tables import NOT_RECORDED, RECORDED, DocumentedTable, documented_tables

from mate_cli.reports.runs.load import LoadedRun, load_runs

TABLES = documented_tables()
RUNS = Path(__file__).parents[1] / "docs" / "runs"
NOT_MEASURED = {
    "memory_and_time.md: size | tokens | 16 examples need": "computed, see tests/models/test_memory.py",
    "reference/checkpoints.md: release | opened by": "versions of files",
    "reference/reading_tables.md: text of a cell": "examples of numbers",
    "papers/tapas.md:  | SQA | WTQ | WikiSQL": "settings, see tests/test_paper_settings.py",
    "memory_and_time.md: stage | examples": "estimates, as its text says",
}
"""Tables with decimal numbers that nobody measured, by how their names begin."""
GROWTH = {
    "the lexical ranker": ("lexical", ""),
    "MATE, lexical features": ("mate", "true"),
    "TAPAS, lexical features": ("tapas", "true"),
    "MATE, without": ("mate", "false"),
    "TAPAS, without": ("tapas", "false"),
    "SAT, without": ("sat", "false"),
    "TableETC, without": ("etc", "false"),
    "Linformer, without": ("linformer", "false"),
    "MATE, without, 1,433 steps": ("mate", "false", "1433"),
}
"""Rows of the table of growth: the network, `model.lexical_features`, and steps where these are not of whole epochs."""
VARIANTS = {"standard, norm before": "pre_norm"}
"""Names of rows for variants of `tools/benchmarks/depth.py`."""
Growth = Mapping[tuple[tuple[str, ...], int], Mapping[int, tuple[float, float]]]
"""Hits@1 in percent of dev and test, by row and number of training questions, then by seed."""


def runs_of(*folders: str) -> list[LoadedRun]:
    runs = load_runs([RUNS / folder for folder in folders]).runs
    assert {run.status for run in runs} == {"finished"}
    return list(runs)


def growth() -> Growth:
    found: dict[tuple[tuple[str, ...], int], dict[int, tuple[float, float]]] = defaultdict(dict)
    for run in runs_of("hybridqa_growth", "hybridqa_steps"):
        row = run.setting("model"), run.config.get("model.lexical_features", "")
        if run.config["trainer.max_epochs"] == "null":
            row = (*row, run.config["trainer.max_steps"])
        scores = 100 * run.metrics["dev/hits@1"], 100 * run.metrics["test/hits@1"]
        found[row, int(run.number("train", "data"))][int(run.text("seed"))] = scores
    return found


def mean_scores() -> Iterator[tuple[str, str, str]]:
    for (row, size), seeds in growth().items():
        dev, test = (mean(split) for split in zip(*seeds.values(), strict=True))
        yield next(name for name, key in GROWTH.items() if key == row), f"{size:,}", f"{dev:.1f} / {test:.1f}"


def differences(features: str, size: int) -> dict[int, tuple[float, float]]:
    """Of MATE and TAPAS in percent, dev and test, by seed."""
    scores = growth()
    mate, tapas = (scores[(model, features), size] for model in ("mate", "tapas"))
    return {
        seed: tuple(a - b for a, b in zip(mate[seed], tapas[seed], strict=True)) for seed in mate.keys() & tapas.keys()
    }


def signed(values: Sequence[float]) -> str:
    return " / ".join("0.0" if abs(value) < 0.05 else f"{value:+.1f}" for value in values)


def differences_with_all_questions() -> Iterator[tuple[str, str, str]]:
    found = differences("false", 22935)
    for seed, pair in found.items():
        yield f"seed {seed}", "Hits@1, dev / test", signed(pair)
    yield "all three", "Hits@1, dev / test", signed([mean(split) for split in zip(*found.values(), strict=True)])


def differences_by_size() -> Iterator[tuple[str, str, str]]:
    sizes = (1350, 3000, 6000, 12000, 22935)
    found = {size: differences("true", size) for size in sizes}
    for seed in (1, 2):
        for size in sizes:
            yield f"seed {seed}", f"{size:,}", signed(found[size][seed])
        together = zip(*(found[size][seed] for size in sizes), strict=True)
        yield f"seed {seed}", "the five together", signed([mean(split) for split in together])


def depths(measure: str, form: Callable[[str, float], str]) -> Iterator[tuple[str, str, str]]:
    for folder, suffix in (("plain", ""), ("relations", ", with relations")):
        (run,) = runs_of(f"depth/{folder}")
        for name, value in run.metrics.items():
            _, variant, layers, kind = name.split("/")
            if kind == measure:
                row = next((row for row, other in VARIANTS.items() if other == variant), variant)
                yield row + suffix, f"N = {layers}" if layers == "2" else layers, form(variant, value)


def changes() -> Iterator[tuple[str, str, str]]:
    return depths("change", lambda variant, value: f"{value:.2f}" if variant == "dt_fixup" else f"{value:,.0f}")


def bounds() -> Iterator[tuple[str, str, str]]:
    return depths("bound", lambda variant, value: f"{value:.2f}" if variant == "dt_fixup" else f"{value:,.0f}")


FIGURES: Mapping[tuple[str, int], Callable[[], Iterator[tuple[str, str, str]]]] = {
    ("results/dt_fixup.md: scheme | N = 2", 0): changes,
    ("results/dt_fixup.md: scheme | N = 2", 1): bounds,
    ("results/hybridqa.md: Hits@1, dev / test | 1,350", 0): mean_scores,
    ("results/hybridqa.md: MATE - TAPAS, all questions", 0): differences_with_all_questions,
    ("results/hybridqa.md: MATE - TAPAS, dev / test", 0): differences_by_size,
}
"""Figures of recorded tables as (row, column, text), by how a table's name begins and its place among those that do."""
TOLD_ELSEWHERE = ("p of questions", "p of both")
"""Heads of rows and columns of recorded tables whose figures need predictions."""


def recorded() -> list[DocumentedTable]:
    return [table for table in TABLES if RECORDED.match(table.below)]


def begins(table: DocumentedTable, names: Mapping[str, str]) -> bool:
    return any(table.name.startswith(name) for name in names)


def test_every_measured_table_says_where_it_comes_from():
    silent = [
        table.name
        for table in TABLES
        if table.has_figures
        and not begins(table, NOT_MEASURED)
        and not (table.folders or NOT_RECORDED.search(table.below))
    ]
    assert silent == []
    assert [name for name in NOT_MEASURED if not any(table.name.startswith(name) for table in TABLES)] == []


@pytest.mark.parametrize(("name", "place"), FIGURES, ids=[f"{name}, {place}" for name, place in FIGURES])
def test_figures(name, place):
    table = [table for table in recorded() if table.name.startswith(name)][place]
    figures = {(row, column): text for row, column, text in FIGURES[name, place]()}
    shown = {(row, column): text for row, column, text in table.cells() if not {row, column} & set(TOLD_ELSEWHERE)}
    assert len(shown) >= 4
    assert {key: figures.get(key) for key in shown} == shown


def test_no_run_of_the_table_of_growth_is_left_out():
    (table,) = (
        table for table in recorded() if table.name.startswith("results/hybridqa.md: Hits@1, dev / test | 1,350")
    )
    assert {(row, column) for row, column, _ in mean_scores()} == {(row, column) for row, column, _ in table.cells()}
