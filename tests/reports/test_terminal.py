from __future__ import annotations

import io
from datetime import datetime, timezone

import pytest
from rich.console import Console

from mate_cli.metrics.subsets import IN_PASSAGE, IN_TABLE
from mate_cli.reports.compare.report import build_report
from mate_cli.reports.terminal import print_report, print_views
from mate_cli.reports.view import Column, Row, View, ViewCell
from mate_cli.terminal.console import report_console
from tests.reports.runs import build_demo, build_ranked, build_run

AT_80 = """\
Cell selection on hybridqa · 3,466 dev questions
                       Dev       Dev       Dev
Configuration       Hits@1    Hits@3    Hits@5 n
────────────────────────────────────────────────
mate             *74.4±0.1 *85.1±0.1 *88.3±0.1 3
tapas                 71.0      81.7      84.9 1

tfidf baseline        24.0      36.0      48.0

published
PointR + MATE         80.1      89.2      91.5
PointR + TAPAS        80.1      89.5      91.4
95 % interval by the number of questions (Wilson's binomial): 73.0 to 75.9 for
74.4 on 3,466 dev questions

Cost
                           Examples        Wall   Peak
Configuration Parameters per second        time memory Status
───────────────────────────────────────────────────────────────────────────
mate               22.7M       41.7 25 min 46 s 3.1 GB 3 finished
tapas              22.7M       18.8 56 min 40 s 3.1 GB 1 finished, 1 failed

Not finished
Run    Seed Network Status Reason
──────────────────────────────────────────
tapas2    2 tapas   failed ValueError: NaN

2 configurations, 5 runs: 4 finished, 1 failed. Scores in percent. Ranked by Dev
Hits@1.
Best of each column with a star (*).
Median ± half the interquartile range over n finished seeds.
Test figures, settings and more: sections=all, or the page.
"""


def printed(report, width=80, *, brief=False, **options) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False, **options)
    print_report(report, console, brief=brief)
    return console.file.getvalue()


def stripped(text: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def test_at_eighty_columns(tmp_path, monkeypatch):
    for seed in (1, 2, 3):
        build_run(tmp_path / f"mate{seed}", seed=seed)
    build_run(tmp_path / "tapas1", model="tapas")
    build_run(tmp_path / "tapas2", model="tapas", seed=2, status="failed", reason="ValueError: NaN")
    monkeypatch.chdir(tmp_path)
    assert stripped(printed(build_report(["."]), brief=True)) == AT_80


def test_one_system_is_a_table_of_scores_and_its_cost(tmp_path):
    build_run(tmp_path / "run", task="pointr")
    text = printed(build_report([tmp_path]), brief=True)
    assert len(text.splitlines()) < 25, "with the page's path"
    titles = [line for line in text.splitlines() if line.startswith(("Question answering", "Cost", "Settings"))]
    assert [title.rstrip() for title in titles] == ["Question answering on hybridqa · dev · 3,466 questions", "Cost"]
    assert "sections=all" in text
    everything = printed(build_report([tmp_path]))
    assert "Question answering on hybridqa · test" in everything
    assert "Settings" in everything


def test_without_a_score_on_dev_it_says_that_rows_are_not_ranked(tmp_path):
    build_run(tmp_path / "run", metrics={"test/em": 0.5})
    assert "Not ranked, as no run has a score on dev." in printed(build_report([tmp_path]), 120, brief=True)


@pytest.mark.parametrize("width", [80, 100, 120])
def test_no_line_is_wider_than_the_terminal_and_no_number_is_cut(tmp_path, width):
    text = printed(build_report([build_demo(tmp_path)]), width)
    tables = text.split("Not finished")[0]
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in tables
    assert "OutOfMemoryError" in text


@pytest.mark.sampled(2)
@pytest.mark.parametrize("status", ["finished", "failed"])
@pytest.mark.parametrize("width", [70, 80, 100])
def test_names_are_broken_between_words(tmp_path, width, status):
    throughput = {"examples_per_second": 9.3, "training_flops_per_example": 5.2e9}
    for number in (12000, 22935):
        config = {"trainer": {"limit_train": number}, "encoding": {"lexical_features": True, "top": number}}
        words = [f"trainer.limit_train={number}", f"encoding.top={number}"]
        build_run(tmp_path / f"{number}", config=config, throughput=throughput, settings=words)
        build_run(
            tmp_path / f"{number}{status}", seed=2, config=config, throughput=throughput, status=status, settings=words
        )
    text = printed(build_report([tmp_path]), width, brief=True)
    assert max(map(len, text.splitlines())) <= width
    costs = text.partition("\nCost")[2]
    for word in ("limit_train=12000", "limit_train=22935"):
        assert word in costs
    assert ("Status" in costs) is (status == "failed" or width == 100)


def test_the_number_of_runs_does_not_stand_alone(tmp_path):
    parts = ("", f"/{IN_TABLE.name}", f"/{IN_PASSAGE.name}")
    scores = {f"dev/hits@{top}{part}": 0.5 for top in (1, 3, 5) for part in parts}
    for number in (12000, 3000):
        build_run(tmp_path / f"{number}", config={"trainer": {"limit_train": number}}, metrics=scores)
    headings = [line.split() for line in printed(build_report([tmp_path])).splitlines() if line.startswith("Conf")]
    assert headings[0][-1] == "n"
    assert ["Configuration", "n"] not in headings


def test_parts_of_a_table_have_as_many_columns():
    columns = tuple(Column(f"{'much ' * 3}{place}") for place in range(4))
    console = Console(file=io.StringIO(), width=80, highlight=False)
    print_views([View("Scores", columns, (Row("network", (ViewCell("1.5"),) * 4),))], console)
    shown = [line.split() for line in console.file.getvalue().splitlines() if line.startswith("network")]
    assert shown == [["network", "1.5", "1.5"]] * 2


@pytest.mark.parametrize("width", [80, 100, 120])
def test_a_table_of_many_columns_is_shown_in_parts_that_all_name_their_rows(width):
    columns = tuple(Column(f"Wrong structure only {place}") for place in range(9))
    rows = tuple(Row(f"network · layers={n}", tuple(ViewCell(f"{n}{place}.5") for place in range(9))) for n in (2, 24))
    console = Console(file=io.StringIO(), width=width, highlight=False)
    print_views([View("Metrics", columns, rows, notes=("said once",))], console)
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    for n in (2, 24):
        shown = [line for line in lines if line.startswith(f"network · layers={n} ")]
        assert len(shown) > 1
        assert [cell for line in shown for cell in line.split()[3:]] == [f"{n}{place}.5" for place in range(9)]
    assert sum("said once" in line for line in lines) == 1


def test_plain_without_a_terminal_bold_in_one(tmp_path):
    report = build_report([build_demo(tmp_path)])
    assert "\x1b" not in printed(report)
    coloured = printed(report, force_terminal=True, color_system="truecolor")
    assert "\x1b[1;32m" in coloured
    assert "*74.4" not in coloured


def test_what_is_within_the_error_of_the_best_is_underlined(tmp_path):
    report = build_report([build_ranked(tmp_path)], published=False)
    text = printed(report)
    assert [line.split()[:3] for line in text.splitlines()[4:7]] == [
        ["mate", "*64.0±2.0", "3"],
        ["tapas", "†63.0", "1"],
        ["sat", "50.0", "1"],
    ]
    assert "With a dagger (†): not clearly worse" in text
    coloured = printed(report, force_terminal=True, color_system="truecolor")
    assert "\x1b[4m63.0" in coloured
    assert "Underlined: not clearly worse" in coloured
    assert "†" not in coloured


def test_settings_that_differ_are_listed_under_what_is_common(tmp_path):
    build_run(tmp_path / "a", model="tapas")
    build_run(tmp_path / "b", config={"optimizer": {"lr": 1e-5, "weight_decay": 0.01}})
    lines = [line.strip() for line in printed(build_report([tmp_path]), 120).splitlines()]
    assert any(line.startswith("optimizer.lr") and line.endswith("1e-05: mate; 5e-05: tapas") for line in lines)


def test_markup_in_names_is_printed_as_it_is(tmp_path):
    build_run(tmp_path / "a", model="[red]x[/red]", status="failed", reason="[/bold] [oops]")
    text = printed(build_report([tmp_path]), 120)
    assert "[red]x[/red]" in text
    assert "[/bold] [oops]" in text


def test_damage_is_a_warning_line(tmp_path):
    build_run(tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "record.json").write_text("{")
    lines = printed(build_report([tmp_path])).splitlines()
    assert next(line for line in lines if "b/record.json" in line).startswith("warning: ")


def test_many_configurations_are_cut_with_a_note(tmp_path):
    for number in range(45):
        build_run(tmp_path / f"{number}", model=f"m{number}", steps=0)
    assert "5 more on the page" in printed(build_report([tmp_path], now=datetime(2025, 1, 1, tzinfo=timezone.utc)))


def test_the_console_of_a_pipe_is_plain_and_wide(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    assert report_console().width == 120
    monkeypatch.setenv("COLUMNS", "90")
    assert report_console().width == 90


@pytest.mark.parametrize("width", [80, 100, 120])
def test_no_letter_of_a_reason_is_lost_beside_long_names(tmp_path, width):
    reason = "MlflowException: request to http://127.0.0.1:5056/api/2.0/mlflow/experiments/get-by-name has failed"
    names = [f"quickstart_cells/2026-01-01_1{number}-00-00_mine" for number in range(2)]
    for name in names:
        build_run(tmp_path / name, status="failed", reason=reason)
    file = io.StringIO()
    print_report(build_report([tmp_path]), Console(file=file, width=width))
    printed = file.getvalue()[file.getvalue().index("Not finished") :]
    assert max(map(len, printed.splitlines())) <= width
    column = printed.splitlines()[1].index("Reason")
    told = "".join(line[column:].strip() for line in printed.splitlines()[3:] if line[column:].strip())
    assert reason.replace(" ", "") in told.replace(" ", "")
