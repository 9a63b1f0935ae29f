"""A benchmark's tables and figures, from a record that is written here."""

from __future__ import annotations

import io
from types import MappingProxyType

import pytest
from rich.console import Console

from mate_cli.errors import RunError
from mate_cli.reports.benchmark import (
    COSTS,
    BenchmarkCase,
    case_table,
    draw_cost,
    error_text,
    measured_figures,
    parse_results,
    print_benchmark,
    read_benchmark,
    time_text,
)
from mate_cli.reports.format import NOTHING
from mate_cli.reports.runs.load import load_runs
from tests.reports.runs import build_run

SLOW = "one call took 31.0 s, the limit is 12 s"
CASE = BenchmarkCase("attention", "tall", 512, "1")


def read_results(folder):
    return parse_results(load_runs([folder]).runs[0])


def build_benchmark(folder, about=MappingProxyType({})):
    """Attention at two lengths of one shape, dense 1 ms and segments a quarter of it per 32 tokens squared."""
    metrics, facts = (
        {"machine/threads": 1.0, "machine/peak_gflops_per_second": 2000.0},
        {"machine/cpu": "A <fast> one", **about},
    )
    for tokens in (512, 2048):
        for name, cost in (("dense", 1.0), ("segments", 0.25)):
            for direction, factor in (("forward", 1), ("forward_backward", 3)):
                place = f"attention/{name}/tall/{tokens}/1/{direction}"
                metrics[f"{place}/ms"] = cost * factor * (tokens / 512) ** 2
                metrics[f"{place}/gflop"] = cost
                metrics[f"{place}/peak_mb"] = 10.0 * cost * tokens
        metrics[f"attention/segments/tall/{tokens}/1/forward/max_error"] = 1.3e-6
        metrics[f"attention/segments/tall/{tokens}/1/plan/ms"] = 1.0
    facts["attention/bucketed/tall/512/1/forward_backward/not_run"] = SLOW
    for direction in ("forward", "forward_backward"):
        facts[f"attention/triton/tall/512/1/{direction}/not_run"] = "no GPU"
    return build_run(folder, command="benchmark", metrics=metrics, facts=facts, overrides=["benchmark=attention"])


@pytest.fixture
def results(tmp_path):
    return read_results(build_benchmark(tmp_path / "run"))


def test_a_table_has_a_row_per_variant_and_only_columns_with_figures(results):
    table = case_table(results, CASE)
    assert table.title == "Attention, tall tables, 512 tokens, batch 1"
    assert {
        " ".join(column.title.split()): [cells[place].text for cells in (row.cells for row in table.rows)]
        for place, column in enumerate(table.columns)
    } == {
        "forward ms": ["1.00", "0.25"],
        "times dense": [NOTHING, "4.00"],
        "fwd+bwd ms": ["3.00", "0.75"],
        "GFLOP fwd": ["1.00", "0.25"],
        "of peak": ["17%", "17%"],
        "peak MB": ["5,120", "1,280"],
        "plan ms": [NOTHING, "1.00"],
        "max error": [NOTHING, "1e-06"],
    }
    assert [row.label for row in table.rows] == ["dense", "segments"]
    marks = [cell.mark for cell in table.rows[1].cells]
    assert marks.count("best") == 2
    assert table.notes == (f"bucketed forward+backward not run: {SLOW}", "triton not run: no GPU")


def test_encoders_are_compared_with_the_two_of_transformers(tmp_path):
    times = {"tapas": 4.0, "mate_auto": 2.0, "transformers_bert": 6.0, "transformers_tapas": 8.0}
    metrics = {f"encoder/{name}/tall/512/1/forward/ms": ms for name, ms in times.items()}
    results = read_results(build_run(tmp_path / "run", command="benchmark", metrics=metrics))
    table = case_table(results, BenchmarkCase("encoder", "tall", 512, "1"))
    assert [column.title for column in table.columns] == ["forward\nms", "times\nbert", "times\ntapas"]
    rows = {row.label: [cell.text for cell in row.cells] for row in table.rows}
    assert rows["mate_auto"] == ["2.00", "3.00", "4.00"]
    assert rows["transformers_bert"] == ["6.00", NOTHING, "1.33"]


def test_a_benchmark_of_thousands_of_figures_is_shown_whole(tmp_path):
    metrics = {f"attention/dense/tall/{tokens}/1/forward/ms": float(tokens) for tokens in range(1, 2501)}
    build_run(tmp_path / "run", command="benchmark", metrics=metrics)
    assert len(read_results(tmp_path / "run").cases) == 2500


def test_figures_draw_every_measured_point(results):
    upper, lower = draw_cost(results, "time").axes
    assert (upper.get_xscale(), upper.get_yscale()) == ("log", "log")
    assert [line.get_label() for line in upper.get_lines()] == ["dense", "segments"]
    assert upper.get_lines()[1].get_xydata().tolist() == [[512, 0.25], [2048, 4.0]]
    assert lower.get_lines()[0].get_ydata().tolist() == [3, 48]
    assert [text.get_text() for text in upper.get_xticklabels()] == ["512", "2,048"]
    colors = [[line.get_color() for line in draw_cost(results, name).axes[0].get_lines()] for name in COSTS]
    assert colors[0] == colors[1] == colors[2], "a variant keeps its colour"


def test_no_figure_is_drawn_of_a_single_length(tmp_path):
    metrics = {"attention/dense/tall/512/1/forward/ms": 1.0}
    results = read_results(build_run(tmp_path / "run", command="benchmark", metrics=metrics))
    assert [draw_cost(results, name) for name in COSTS] == [None, None, None]


def full_record(folder, kind):
    """Every figure of a case, each as long as it gets."""
    values = {"ms": 12215.0, "cpu_ms": 24430.0, "gflop": 12345.0, "peak_mb": 12345.0, "max_error": 1.3e-6}
    names = {
        "attention": ("dense_mask", "linformer", "dense", "bucketed"),
        "encoder": ("mate_segments", "transformers_tapas", "transformers_bert"),
    }[kind]
    metrics = {
        f"{kind}/{name}/tall/32768/mixed/{direction}/{figure}": value
        for name in names
        for direction in ("forward", "forward_backward")
        for figure, value in (values | {"examples_per_second": 12.5}).items()
    }
    return build_run(folder, command="benchmark", metrics=metrics | {"machine/peak_gflops_per_second": 9.0})


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("kind", ["attention", "encoder"])
def test_the_terminal_fits(tmp_path, kind, width):
    console = Console(width=width, force_terminal=False)
    with console.capture() as capture:
        print_benchmark(read_results(full_record(tmp_path / "run", kind)), console)
    lines = [line.rstrip() for line in capture.get().splitlines()]
    assert max(map(len, lines)) <= width
    assert not any("…" in line for line in lines)
    assert f"{kind.capitalize()}, tall tables, 32,768 tokens, mixed batch" in lines


def test_other_benchmarks_are_none_of_these(tmp_path):
    folder = build_run(tmp_path / "run", command="benchmark", metrics={"tokenization/speedup": 3.0})
    assert read_results(folder) is None
    assert measured_figures(read_benchmark(folder)) == {"tokenization/speedup": 3.0}
    with pytest.raises(RunError, match="no such folder"):
        read_benchmark(tmp_path / "nowhere")


def test_numbers_are_written_short():
    assert [time_text(value) for value in (0.3272, 41.94, 99.96, 12215.4)] == ["0.33", "41.9", "100", "12,215"]
    assert [error_text(value) for value in (6.4e-7, 1.13)] == ["6e-07", "1.1"]


@pytest.mark.parametrize(
    ("device", "named"), [("cpu", "A <fast> one, 1 thread"), ("H200", "H200, A <fast> one, 1 thread")]
)
def test_a_gpu_is_named_before_the_processor(tmp_path, device, named):
    results = read_results(build_benchmark(tmp_path / "run", {"machine/device": device}))
    console = Console(file=io.StringIO(), width=200)
    print_benchmark(results, console)
    assert f"\n{named}, PyTorch" in console.file.getvalue()
