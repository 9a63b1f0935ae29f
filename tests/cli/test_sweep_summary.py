"""The table at the end of a sweep keeps what tells jobs apart, at 80 columns too."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from mate_cli.cli.sweeps.sweep_summary import SweepJob, common_root, reason_lines, summary_table
from mate_cli.metrics.specs import MetricName, MonitoredResult

REASON = "OutOfMemoryError: 12.4 GB needed, 8.0 GB free. Lower hardware.micro_batch"


def job(number: int, model: str, status: str = "finished", reason: str = "") -> SweepJob:
    result = MonitoredResult(MetricName.parse("dev/hits@1"), 0.123) if status == "finished" else None
    folder = Path(f"/outputs/train/hybridqa_{model}/2026-11-27_02-41-4{number}_0")
    words = ("scale=small", f"model={model}", f"seed={number}")
    return SweepJob(number, words, status, result, reason, folder, before=False)


@pytest.mark.parametrize("models", [("mate", "mate", "mate"), ("mate", "linformer", "sat")])
def test_folders_and_reasons_are_whole_at_80_columns(models):
    jobs = [job(0, models[0]), job(1, models[1], "failed", REASON), job(2, models[2], "failed", REASON)]
    console = Console(file=io.StringIO(), width=80)
    console.print(summary_table(jobs, common_root(jobs)))
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    for one in jobs:
        assert one.folder.name in text
        assert f"seed={one.number}" in text
    assert list(reason_lines(jobs)) == [f"jobs 1, 2 failed: {REASON}"]
