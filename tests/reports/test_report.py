import pytest

from mate_cli.errors import RunError
from mate_cli.reports.compare.report import build_report
from tests.reports.runs import build_run


def test_benchmarks_are_no_runs(tmp_path):
    build_run(tmp_path / "benchmark", command="benchmark")
    with pytest.raises(RunError, match="only benchmarks were found, no runs"):
        build_report([tmp_path])
    trained = build_run(tmp_path / "train")
    assert [run.folder for run in build_report([tmp_path]).runs] == [trained]
