"""A benchmark's tables, figures and page, from a record that is written here."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from rich.console import Console

from mate_cli.errors import RunError
from mate_cli.reports.benchmark.results import (
    BOTH,
    FORWARD,
    MeasuredCase,
    measured_figures,
    parse_name,
    parse_results,
    read_benchmark,
    shape_title,
    variant_title,
)
from mate_cli.reports.benchmark.tables import (
    case_table,
    error_text,
    overview_tables,
    percent_text,
    ratio_text,
    time_text,
)
from mate_cli.reports.benchmark.views import (
    COSTS,
    benchmark_figures,
    print_benchmark,
    scaling_frame,
    write_benchmark_figures,
)
from mate_cli.reports.format import NOTHING
from mate_cli.reports.plots.style import as_svg
from mate_cli.reports.runs.load import load_runs
from tests.reports.runs import build_run

SLOW = "one call took 31.0 s, the limit is 12 s"


def read_results(folder):
    return parse_results(load_runs([folder]).runs[0])


def build_benchmark(folder):
    """Attention at two lengths of one shape, dense 1 ms and segments a quarter of it per 32 tokens squared."""
    metrics, facts = {"machine/threads": 1.0, "machine/peak_gflops_per_second": 150.4}, {"machine/cpu": "A <fast> one"}
    for tokens in (512, 2048):
        for name, cost in (("dense", 1.0), ("segments", 0.25)):
            for direction, factor in ((FORWARD, 1), (BOTH, 3)):
                place = f"attention/{name}/tall/{tokens}/1/{direction}"
                metrics[f"{place}/ms"] = cost * factor * (tokens / 512) ** 2
                metrics[f"{place}/gflop"] = cost
                metrics[f"{place}/peak_mb"] = 10.0 * cost * tokens
                if name != "dense":
                    metrics[f"{place}/speedup_vs_dense"] = 4.0
        metrics[f"attention/segments/tall/{tokens}/1/forward/max_error"] = 1.3e-6
        metrics[f"attention/segments/tall/{tokens}/1/plan/ms"] = 1.0
        metrics[f"attention/bound/tall/{tokens}/1/forward/speedup_vs_dense"] = 9.0
        metrics[f"attention/bound/tall/{tokens}/1/forward/gflop"] = 0.25
    facts["attention/bucketed/tall/512/1/forward_backward/not_run"] = SLOW
    facts["attention/triton/tall/512/1/forward/not_run"] = facts[
        "attention/triton/tall/512/1/forward_backward/not_run"
    ] = "no GPU"
    return build_run(folder, command="benchmark", metrics=metrics, facts=facts, overrides=["benchmark=attention"])


@pytest.fixture
def results(tmp_path):
    return read_results(build_benchmark(tmp_path / "run"))


def test_names_are_read_back():
    case = MeasuredCase("attention", "tall", 512, "mixed")
    assert parse_name("attention/segments/tall/512/mixed/forward/ms") == (case, "segments", "forward", "ms")
    assert parse_name("encoder/tapas/512/tall/1/plan/ms") == (
        MeasuredCase("encoder", "tall", 512, "1"),
        "tapas",
        "plan",
        "ms",
    )
    for name in ("machine/threads", "attention/dense/tall/long/1/forward/ms", "dev/hits@1", "a/b/c/1/1/d/e"):
        assert parse_name(name) is None


def test_a_table_has_a_row_per_variant_and_only_columns_with_figures(results):
    table = case_table(results, MeasuredCase("attention", "tall", 512, "1"))
    assert table.title == "Attention, tall tables, 512 tokens, batch 1"
    assert [" ".join(column.title.split()) for column in table.columns] == [
        "forward ms",
        "times dense",
        "fwd+bwd ms",
        "times dense",
        "peak MB",
        "max error",
    ]
    assert [(row.label, tuple(cell.text for cell in row.cells)) for row in table.rows] == [
        ("dense", ("1.00", NOTHING, "3.00", NOTHING, "5,120", NOTHING)),
        ("segments", ("0.25", "4.00", "0.75", "4.00", "1,280", "1e-06")),
        ("bound", (NOTHING, "9.00", NOTHING, NOTHING, NOTHING, NOTHING)),
    ]
    assert [cell.mark for cell in table.rows[1].cells] == ["best", "", "best", "", "", ""]
    assert table.notes == (f"bucketed forward+backward not run: {SLOW}", "triton not run: no GPU")


def test_a_benchmark_of_thousands_of_figures_is_shown_whole(tmp_path):
    metrics = {f"attention/dense/tall/{tokens}/1/forward/ms": float(tokens) for tokens in range(1, 2501)}
    build_run(tmp_path / "run", command="benchmark", metrics=metrics)
    assert len(read_results(tmp_path / "run").cases) == 2500


def test_the_overview_lists_speed_by_length(results):
    (table,) = overview_tables(results, FORWARD)
    assert [column.title for column in table.columns] == ["512\nx 1", "2,048\nx 1"]
    assert [(row.label, row.kind, *((cell.text, cell.mark) for cell in row.cells)) for row in table.rows] == [
        ("segments", "", ("4.00", "best"), ("4.00", "best")),
        ("bound", "bound", ("9.00", ""), ("9.00", "")),
    ]


def test_there_is_no_overview_of_the_bound_alone(tmp_path):
    metrics = {"attention/bound/tall/512/1/forward/speedup_vs_dense": 9.0}
    assert not overview_tables(read_results(build_run(tmp_path / "run", metrics=metrics)), FORWARD)


def test_figures_draw_every_measured_point(results):
    figures = {cost.name: figure for cost, figure in benchmark_figures(results)}
    assert list(figures) == ["time", "flops", "memory"]
    upper, lower = figures["time"].axes
    assert (upper.get_xscale(), upper.get_yscale()) == ("log", "log")
    assert [line.get_label() for line in upper.get_lines()] == ["dense", "segments"]
    assert upper.get_lines()[1].get_xydata().tolist() == [[512, 0.25], [2048, 4.0]]
    assert lower.get_lines()[0].get_ydata().tolist() == [3, 48]
    assert [text.get_text() for text in upper.get_xticklabels()] == ["512", "2K"]
    assert [line.get_label() for line in figures["flops"].axes[0].get_lines()] == ["dense", "segments = bound"]


def test_a_variant_keeps_its_colour_in_all_figures(results):
    colors = [
        {line.get_label().split(" = ")[0]: line.get_color() for line in figure.axes[0].get_lines()}
        for _, figure in benchmark_figures(results)
    ]
    assert colors[0] == colors[1] == colors[2]


def test_no_figure_is_drawn_of_a_single_length(tmp_path):
    metrics = {"attention/dense/tall/512/1/forward/ms": 1.0}
    results = read_results(build_run(tmp_path / "run", command="benchmark", metrics=metrics))
    assert [scaling_frame(results, cost) for cost in COSTS] == [None, None, None]


def test_figures_are_written_as_png_and_svg(results, tmp_path):
    files = write_benchmark_figures(results, tmp_path)
    assert [file.name for file in files][:2] == ["time.png", "time.svg"]
    assert files[0].read_bytes().startswith(b"\x89PNG")
    for _, figure in benchmark_figures(results):
        ElementTree.fromstring(as_svg(figure, "x"))


def full_record(folder, kind):
    """Every figure of a case, each as long as it gets."""
    values = {"ms": 12215.0, "cpu_ms": 24430.0, "share_of_peak": 0.58, "peak_mb": 12345.0}
    ratios = {"attention": ("dense", "bucketed"), "encoder": ("bert", "tapas", "padded")}[kind]
    values |= {f"speedup_vs_{name}": 11.25 for name in ratios} | {"max_error": 1.3e-6}
    names = {"attention": ("dense_mask", "linformer"), "encoder": ("mate_segments_padded", "transformers_tapas")}[kind]
    metrics = {
        f"{kind}/{name}/{'tall/32768' if kind == 'attention' else '32768/tall'}/mixed/{direction}/{figure}": value
        for name in names
        for direction in (FORWARD, BOTH)
        for figure, value in values.items()
    }
    plan = {f"encoder/{names[0]}/32768/tall/mixed/plan/{name}": 0.25 for name in ("ms", "share_of_forward_backward")}
    return build_run(folder, command="benchmark", metrics=metrics | (plan if kind == "encoder" else {}))


@pytest.mark.parametrize("width", [90, 100, 120])
@pytest.mark.parametrize("kind", ["attention", "encoder"])
def test_the_terminal_fits(tmp_path, kind, width):
    console = Console(width=width, force_terminal=False)
    with console.capture() as capture:
        print_benchmark(read_results(full_record(tmp_path / "run", kind)), console)
    lines = [line.rstrip() for line in capture.get().splitlines()]
    assert max(map(len, lines)) <= width
    assert not any("…" in line for line in lines)
    assert f"{kind.capitalize()}, tall tables, 32,768 tokens, mixed batch" in lines
    assert any("CPU ms" in line for line in lines) == (width == 120 or kind == "attention")


def test_other_benchmarks_are_none_of_these(tmp_path):
    folder = build_run(tmp_path / "run", command="benchmark", metrics={"tokenization/speedup": 3.0})
    assert read_results(folder) is None
    assert measured_figures(read_benchmark(folder)) == {"tokenization/speedup": 3.0}
    with pytest.raises(RunError, match="no such folder"):
        read_benchmark(tmp_path / "nowhere")


def test_numbers_are_written_short():
    assert [time_text(value) for value in (0.3272, 41.94, 99.96, 12215.4)] == ["0.33", "41.9", "100", "12,215"]
    assert [ratio_text(value) for value in (0.834, 9.99, 11.23)] == ["0.83", "9.99", "11.2"]
    assert [percent_text(value) for value in (0.0042, 0.58, 1.0)] == ["0.4%", "58%", "100%"]
    assert [error_text(value) for value in (6.4e-7, 1.13)] == ["6e-07", "1.1"]


def test_networks_and_tables_have_names_that_people_know():
    names = ["transformers_tapas", "mate_native", "tapas@256", "dot_minilm:1", "mate_segments_padded", "own_net"]
    assert [variant_title(name) for name in names] == [
        "TAPAS, of transformers",
        "MATE, native",
        "TAPAS, first 256 tokens",
        "DoT, minilm:1",
        "MATE, segments, padded",
        "own, net",
    ]
    assert [shape_title(name) for name in ("tall", "hybridqa_like", "wtq")] == [
        "tall",
        "HybridQA-like",
        "WikiTableQuestions",
    ]


def test_what_is_approximate_or_beyond_the_bound_says_so(tmp_path):
    metrics = {}
    for tokens in (512, 2048):
        for name, gain in (("segments", 9.5), ("bucketed", 10.0), ("bound", 9.0), ("native", 4.0)):
            place = f"attention/{name}/tall/{tokens}/1/forward"
            metrics[f"{place}/speedup_vs_dense"] = gain
            if name == "bucketed":
                metrics[f"{place}/approximate"] = 1.0
    results = read_results(build_run(tmp_path / "run", command="benchmark", metrics=metrics))
    (table,) = overview_tables(results, FORWARD)
    assert [row.label for row in table.rows] == ["segments", "bucketed ≈", "native", "bound"]
    exact, nearly = table.notes
    assert exact.startswith("Beyond the bound, which counts pairs alone: segments; they also avoid")
    assert nearly == "Beyond the bound as not all pairs are computed: bucketed ≈"
    assert not any(set(table.notes) & set(case_table(results, case).notes) for case in results.cases)
    of_one = {name: value for name, value in metrics.items() if "/512/" in name}
    alone = read_results(build_run(tmp_path / "alone", command="benchmark", metrics=of_one))
    (case,) = alone.cases
    assert {exact, nearly} <= set(case_table(alone, case).notes)
