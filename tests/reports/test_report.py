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


def test_what_a_run_did_not_learn_is_said_below_the_tables(tmp_path):
    fact = "train/loss is 0 in every step"
    build_run(tmp_path / "silent", model="sat", facts={"not learnt": fact})
    build_run(tmp_path / "other")
    notes = build_report([tmp_path]).notes
    assert [note for note in notes if "not learnt" in note] == [f"not learnt by sat: {fact}"]
