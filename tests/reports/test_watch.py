from __future__ import annotations

import io
import json
import os
import platform
from datetime import datetime, timezone
from functools import partial

import pytest
from rich.console import Console

from mate_cli.errors import ConfigError, RunError
from mate_cli.reports.compare.report import build_report
from mate_cli.reports.runs import watch as module
from mate_cli.reports.runs.running import runs_at_work
from mate_cli.reports.runs.watch import PAGE_SECONDS, watch
from mate_cli.reports.terminal.views import natural_width
from mate_cli.reports.terminal.watch import running_view, trend_text, watch_tables
from mate_cli.runs.liveness import own_process
from tests.reports.runs import build_run

ALIVE = {"status": "running", "process": own_process(), "host": platform.node()}
SCREEN, BACK = "\x1b[?1049h", "\x1b[?1049l"


def build_alive(folder, *, rows=(), **record):
    """A run whose process is this one."""
    run = build_run(folder, **(ALIVE | record))
    write_rows(run, *rows)
    return run


def write_rows(run, *rows):
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def change(run, **entries):
    record = json.loads((run / "record.json").read_text())
    (run / "record.json").write_text(json.dumps(record | entries))


class Clock:
    """Time that passes only while somebody sleeps; `deeds` happen in the sleeps, one after the other."""

    def __init__(self, *deeds):
        self.now, self.deeds = 100.0, list(deeds)

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        if not self.deeds:
            raise KeyboardInterrupt
        self.deeds.pop(0)()


@pytest.fixture
def follow(tmp_path, monkeypatch):
    """Watches tmp_path while the deeds happen; returns what was printed, seen last, and kept."""

    def watching(*deeds, terminal=False, **options):
        clock = Clock(*deeds)
        monkeypatch.setattr(module, "time", clock)
        monkeypatch.setenv("COLUMNS", "110")
        console = Console(file=io.StringIO(), width=110, height=40, force_terminal=terminal, color_system=None)
        kept = []

        def look():
            return build_report([tmp_path], now=datetime.fromtimestamp(clock.now, timezone.utc), **options)

        last = watch(look, kept.append, console, 5.0)
        return console.file.getvalue(), last, kept

    return watching


def nothing():
    pass


ROWS = (
    {"step": 10, "time": 20.0, "train/loss": 1.5, "train/lr": 1e-5},
    {"step": 20, "time": 41.0, "dev/hits@1": 0.25, "dev/hits@3": 0.5, "dev/hits@1/table": 0.3},
    {"step": 30, "time": 60.0, "train/loss": 1.25},
    {"step": 40, "time": 80.0, "dev/hits@1": 0.375, "dev/hits@3": 0.625},
)


def test_progress_is_read(tmp_path):
    build_alive(tmp_path / "run", rows=ROWS, total_steps=100)
    (one,) = runs_at_work(build_report([tmp_path]))
    assert (one.label, one.step, one.total, one.loss) == ("mate", 40, 100, 1.25)
    assert (one.metric.full, one.history) == ("dev/hits@1", (0.25, 0.375))
    assert one.seconds_left == pytest.approx(60 * 80 / 40)


def test_the_metric_that_ranks_is_followed(tmp_path):
    build_alive(tmp_path / "run", rows=ROWS)
    build_run(tmp_path / "done", model="tapas", metrics={"test/hits@3": 0.5})
    (one,) = runs_at_work(build_report([tmp_path]))
    assert (one.metric.full, one.total, one.seconds_left) == ("dev/hits@3", None, None)


def test_a_damaged_log_is_borne(tmp_path):
    run = build_alive(tmp_path / "run", total_steps="many")
    (run / "metrics.jsonl").write_text(
        '{"step": 1, "dev/hits@1": NaN}\n{"step": 2, "dev/x": "y"}\n[\nnull\n{"step": 1e999}'
    )
    (one,) = runs_at_work(build_report([tmp_path]))
    assert (one.step, one.total, one.metric, one.history) == (2, None, None, ())


def test_of_a_chain_the_stage_is_shown(tmp_path):
    chain = build_alive(tmp_path / "chain", task="pointr")
    build_run(chain / "cell_selection")
    build_alive(chain / "span_reading", task="span_reading")
    assert [one.run.folder.name for one in runs_at_work(build_report([tmp_path]))] == ["span_reading"]


def test_a_killed_run_is_not_at_work(tmp_path):
    build_alive(tmp_path / "run", process="999999999:1")
    assert runs_at_work(build_report([tmp_path])) == []


def test_lines_tell_changes_and_end_with_the_last_run(tmp_path, follow):
    first = build_alive(tmp_path / "1", rows=ROWS[:1])
    second = build_alive(tmp_path / "2", seed=2)
    text, last, _ = follow(
        partial(write_rows, first, *ROWS[:2]),
        partial(write_rows, first, *ROWS[:3]),
        partial(change, first, status="finished", metrics={"dev/hits@1": 0.375}),
        partial(change, second, status="failed", reason="OutOfMemoryError: no memory"),
    )
    assert [line.split(" ", 1)[1] for line in text.splitlines()] == [
        "mate seed 1: running",
        "mate seed 2: running",
        "mate seed 1: running, Hits@1 25.0 at its validation 1",
        "mate seed 1: finished, Dev Hits@1 37.5",
        "mate seed 2: failed, OutOfMemoryError: no memory",
    ]
    assert [run.status for run in last.runs] == ["finished", "failed"]


def test_lines_of_runs_that_have_ended_are_told_once(tmp_path, follow):
    build_run(tmp_path / "1", metrics={"dev/loss": 0.25})
    build_run(tmp_path / "2", seed=2, metrics={})
    build_alive(tmp_path / "3", seed=3, process="999999999:1")
    text, _, kept = follow()
    assert [line.split(" ", 1)[1] for line in text.splitlines()] == [
        "mate seed 1: finished",
        "mate seed 2: finished",
        "mate seed 3: lost: its process has gone, or has written nothing for long",
    ]
    assert len(kept) == 1


def test_lines_wait_a_minute_for_the_next_job_of_a_sweep(tmp_path, follow):
    run = build_alive(tmp_path / "1", rows=ROWS)
    slept = []
    text, _, _ = follow(partial(change, run, status="finished"), *[lambda: slept.append(5)] * 30)
    assert 50 <= sum(slept) <= 60
    assert len(text.splitlines()) == 2


def test_without_a_terminal_nobody_waits_for_a_first_run(follow):
    with pytest.raises(RunError, match="no runs below"):
        follow()


def test_a_terminal_waits_for_a_first_run_and_is_given_back(tmp_path, follow):
    text, last, kept = follow(nothing, lambda: build_alive(tmp_path / "run", rows=ROWS, total_steps=100), terminal=True)
    assert text.startswith(SCREEN)
    assert text.rstrip().endswith(BACK)
    assert text.index("no runs below") < text.index("Running")
    for part in ("40/100", "Hits@1 37.5", "2 min", "1.250", "▁█", "every 5 s  ·  Ctrl-C ends"):
        assert part in text
    assert last.runs[0].status == "running"
    assert kept == [last]


def test_what_the_user_mistyped_ends_it_at_once(tmp_path, follow):
    build_alive(tmp_path / "run")
    with pytest.raises(ConfigError, match="no such status"):
        follow(terminal=True, status=["done"])


def test_a_later_problem_is_shown_and_passes(tmp_path, follow):
    run = build_alive(tmp_path / "run", rows=ROWS)
    record = (run / "record.json").read_text()
    text, last, _ = follow(
        partial((run / "record.json").write_text, "{"),
        partial((run / "record.json").write_text, record),
        nothing,
        terminal=True,
    )
    assert "no runs below" in text
    assert last.runs[0].status == "running"


def test_the_page_follows_changes_but_not_too_often(tmp_path, follow):
    run = build_alive(tmp_path / "run", rows=ROWS)
    looks = 12
    changes = [partial(os.utime, run / "record.json", (2e9 + number, 2e9 + number)) for number in range(looks)]
    _, _, kept = follow(*changes, terminal=True)
    assert len(kept) == looks * 5 // PAGE_SECONDS + 1


def test_the_page_is_left_alone_while_nothing_changes(tmp_path, follow):
    build_alive(tmp_path / "run", rows=ROWS)
    assert len(follow(*[nothing] * 12, terminal=True)[2]) == 1


def test_a_small_screen_shows_the_most_urgent_first(tmp_path, follow):
    build_alive(tmp_path / "run", rows=ROWS)
    for seed in range(40):
        build_run(tmp_path / f"done{seed}", config={"optimizer": {"lr": seed + 1.0}}, steps=1)
    text = follow(terminal=True)[0]
    assert text.index("Running") < text.index("Cell selection")
    assert "more on the page" in text
    assert "Not finished" not in text


def test_tables_are_in_parts_where_they_have_no_room(tmp_path):
    levels = ("", "/easy", "/medium", "/hard", "/extra")
    metrics = {f"{split}/exact_set_match{level}": 0.4 for split in ("dev", "test") for level in levels}
    build_run(tmp_path / "a", metrics=metrics, dataset="mine")
    tables = list(watch_tables(build_report([tmp_path]), Console(width=60)))
    assert all(natural_width(table, Console()) <= 60 for table in tables[1:])
    assert len(tables) > 4


@pytest.mark.parametrize(("width", "there"), [(120, True), (62, False)])
def test_a_narrow_screen_has_fewer_columns(tmp_path, width, there):
    build_alive(tmp_path / "run", rows=ROWS, total_steps=100)
    console = Console(width=width, file=io.StringIO())
    console.print(running_view(runs_at_work(build_report([tmp_path])), width))
    text = console.file.getvalue()
    assert [word in text for word in ("Trend", "Running for")] == [there, there]
    for part in ("mate", "40/100", "2 min", "1.250", "Hits@1 37.5"):
        assert part in text


@pytest.mark.parametrize(
    ("history", "text"),
    [((), ""), ((0.5,), ""), ((0.5, 0.5), ""), ((0.0, 0.5, 1.0), "▁▅█"), (tuple(range(99)), "▁▂▃▃▄▅▆▆▇█")],
)
def test_trends(history, text):
    assert trend_text(history) == text
