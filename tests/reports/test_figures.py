from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from matplotlib.collections import PathCollection

from mate_cli.errors import RunError
from mate_cli.metrics.specs import MetricName
from mate_cli.reports.compare.report import build_report
from mate_cli.reports.compare.statistics import summarize
from mate_cli.reports.plots.figures import file_name, write_figures
from mate_cli.reports.plots.style import COLORS, as_svg, color_of, dash_of, mark_of
from mate_cli.reports.sections.curves import draw_curves, list_logged_metrics, read_logs
from mate_cli.reports.sections.results import metric_bars, score_bars, score_cell
from mate_cli.reports.view import Row
from tests.reports.runs import build_demo, build_run

EM = MetricName.parse("test/em")


@pytest.fixture
def logs(tmp_path):
    """Two runs of one configuration, and one of another that logged a single score."""
    curves = {"mate": ([0.1, 0.2], [0.2, 0.3]), "tapas": ([0.4],)}
    for model, seeds in curves.items():
        for seed, values in enumerate(seeds, 1):
            run = build_run(tmp_path / f"{model}{seed}", model=model, seed=seed, metrics={"dev/hits@1": values[-1]})
            lines = [{"step": step, "dev/hits@1": value, "train/loss": 1} for step, value in enumerate(values, 1)]
            lines.append({"step": 9, "train/loss": 0.5})
            (run / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return read_logs(build_report([tmp_path], by=["model"]), most=12)


def bar(label, *values):
    return Row(label, (replace(score_cell(EM, summarize(values)), dots=tuple(100 * value for value in values)),))


def test_curves_draw_a_line_per_run_in_percent(logs):
    (axes,) = draw_curves(logs, MetricName.parse("dev/hits@1")).axes
    lines = {line.get_gid(): line for line in axes.get_lines()}
    first, second = ([line for name, line in lines.items() if f"-g{place}-" in name] for place in (0, 1))
    assert sorted([len(first), len(second)]) == [1, 2], "a line per run"
    assert [10, 20] in [pytest.approx(list(line.get_ydata())) for line in lines.values()]
    for place, part in enumerate((first, second)):
        assert {(line.get_color(), line.get_marker()) for line in part} == {(color_of(place), mark_of(place))}
    assert axes.get_title(loc="left") == "Dev Hits@1 (%)"


def test_bars_begin_at_zero_and_carry_middle_and_spread():
    (axes,) = metric_bars(EM, [bar("a", 0.5, 0.7)]).axes
    assert axes.get_xlim()[0] == 0
    assert axes.patches[0].get_width() == pytest.approx(60)
    (whisker,) = axes.containers[1].lines[2]
    assert whisker.get_segments()[0][:, 0] == pytest.approx([60 - 5, 60 + 5])
    assert [text.get_text() for text in axes.texts] == ["60.0"]
    (dots,) = (one for one in axes.collections if isinstance(one, PathCollection))
    assert [x for x, _ in dots.get_offsets().tolist()] == pytest.approx([50, 70]), "single runs"


def test_a_long_name_keeps_its_beginning_and_its_end():
    label = f"mate · {'cell selection · ' * 5}lr=0.001"
    (shown,) = [text.get_text() for text in metric_bars(EM, [bar(label, 0.5)]).axes[0].get_yticklabels()]
    assert len(shown) < len(label)
    assert (shown[:4], shown[-8:]) == ("mate", "lr=0.001")


def test_svg_is_well_formed_unsized_and_themed(logs):
    drawing = as_svg(draw_curves(logs, MetricName.parse("dev/hits@1")), "chart")
    root = ElementTree.fromstring(drawing)
    assert "width" not in root.attrib
    assert "viewBox" in root.attrib
    assert "var(--ink)" in drawing
    assert "<!DOCTYPE" not in drawing
    assert "metadata" not in drawing
    assert "var(--c0)" in drawing
    assert COLORS[0] not in drawing


def test_colours_and_dashes_tell_forty_configurations_apart():
    assert len({(color_of(index), dash_of(index)) for index in range(32)}) == 32
    assert len({(color_of(index), mark_of(index)) for index in range(40)}) == 40


def test_frames_of_a_study(tmp_path):
    report = build_report([build_demo(tmp_path)])
    logs = read_logs(report, most=12)
    assert [metric.full for metric in list_logged_metrics(logs)][:3] == ["train/loss", "dev/hits@1", "dev/hits@3"]
    (axes,) = draw_curves(logs, MetricName.parse("train/loss")).axes
    drawn = {line.get_gid().rpartition("-")[0] for line in axes.get_lines()}
    assert drawn == {f"train/loss-g{place}" for place in range(len(report.groups))}
    assert [bar.label for bar in score_bars(report, MetricName.parse(report.metric))] == [
        group.label for group in report.groups
    ][:4]


@pytest.mark.long
def test_figures_are_written_as_png_and_svg(tmp_path):
    build_run(tmp_path / "outputs" / "run")
    files = write_figures(build_report([tmp_path / "outputs"]), tmp_path / "figures")
    assert {file.name for file in files[:2]} == {"bars_dev_hits_at_1.png", "bars_dev_hits_at_1.svg"}
    assert all(file.stat().st_size > 1000 for file in files)


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    build_run(tmp_path / "run")
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot be written"):
        write_figures(build_report([tmp_path]), tmp_path / "file")


def test_without_metrics_there_are_no_bars(tmp_path):
    build_run(tmp_path / "run", status="running", steps=0)
    report = build_report([tmp_path])
    assert score_bars(report, MetricName.parse("dev/hits@1")) == []
    assert list_logged_metrics(read_logs(report, most=12)) == []
    assert write_figures(report, tmp_path / "figures") == []


def test_file_names_hold_no_path():
    assert file_name("../a/b@1 $") == "___a_b_at_1__"
