"""Outcomes that a user would not notice: answer types never selected, runs and sweeps that end early."""

import json
from types import SimpleNamespace

import pytest

from mate_cli.cli.commands.list import list_runs
from mate_cli.cli.commands.note import run_plain
from mate_cli.cli.sweeps.sweep_summary import print_summary
from mate_cli.data.loading.batching import plan_schedule
from mate_cli.errors import ConfigError
from mate_cli.lit_modules.base import COMPUTED, Selection
from mate_cli.pipelines.inference.tables import _with_selection
from mate_cli.pipelines.run import record_never_selected
from mate_cli.runs.record import NOT_LEARNT, RunFolder, RunRecord
from mate_cli.tables.example import Answer
from mate_cli.tables.questions import TableAnswerResult
from mate_cli.tables.table import Cell, Table

NAMES = {"command": "train", "experiment": "cells", "dataset": "sample", "model": "mate", "task": "table_qa"}
NAMES |= {"attention": "auto", "init": "random", "seed": 1, "overrides": []}


def selection(aggregation: str) -> Selection:
    return Selection(((0, 0),), (1.0,), 1.0, aggregation)


@pytest.mark.parametrize(
    ("answers", "loss_counts", "selected", "told"),
    [
        ([Answer((), aggregation="sum")] * 12, {}, ["none", "count"], "no sum was ever selected; "),
        ([Answer((), aggregation="sum")] * 12, {}, ["none", "sum"], None),
        ([Answer(("7",), number=7.0)] * 3, {COMPUTED: None}, ["none"], "no number was ever computed; "),
        ([Answer(("7",), number=7.0)] * 3, {COMPUTED: None}, ["none", "sum"], None),
    ],
)
def test_aggregations_that_are_never_selected_are_reported(answers, loss_counts, selected, told):
    record, task = RunRecord(**NAMES), SimpleNamespace(selection=selection, loss_counts=loss_counts)
    record_never_selected(record, task, [SimpleNamespace(answer=answer) for answer in answers], selected, {})
    assert (told in record.facts[NOT_LEARNT]) if told else NOT_LEARNT not in record.facts


@pytest.mark.parametrize("is_right", [True, False])
def test_aggregations_that_are_never_right_are_reported(is_right):
    record = RunRecord(**NAMES)
    examples = {str(n): SimpleNamespace(answer=Answer((), aggregation="sum")) for n in range(3)}
    task = SimpleNamespace(
        selection=lambda _: selection("sum"), loss_counts={}, is_correct=lambda prediction, example: is_right
    )
    predictions = [SimpleNamespace(example_id=name) for name in examples]
    record_never_selected(record, task, list(examples.values()), predictions, examples)
    assert (NOT_LEARNT in record.facts) != is_right
    assert is_right or "no sum was ever right on 3 dev questions" in record.facts[NOT_LEARNT]


def test_a_count_over_no_cells_is_zero_and_says_why():
    table = Table("sales", (Cell("Region"),), ((Cell("North"),),))
    asked = TableAnswerResult(
        source="t", question="how many in Atlantis?", table=table, row_numbers=(1,), rows_in_file=1
    )
    answered = _with_selection(asked, Selection((), (), 0.5, "count"), "0", False)
    assert (answered.value, answered.answer) == (0.0, "0")
    assert any("No cell was selected" in warning for warning in answered.warnings)


def test_the_list_of_runs_says_that_a_run_stopped_early(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = RunFolder(tmp_path / "outputs/train/cells/a")
    folder.write_text("config.yaml", "seed: 1\n")
    folder.write_record(RunRecord(**NAMES, status="finished", reason="stopped early at step 45 of 112"))
    assert any("stopped early at step 45 of 112" in line for line in list_runs([]))


def test_an_interrupted_sweep_counts_jobs_that_were_not_started(tmp_path, capsys):
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    for number in range(2):
        folder = RunFolder(tmp_path / f"run{number}")
        folder.write_record(RunRecord(**NAMES, status="finished"))
        note = {"job": number, "overrides": [f"seed={number}"], "folder": str(folder.path), "before": False}
        (jobs / f"{number}.json").write_text(json.dumps({**note, "reason": None}))
    print_summary([jobs / "0.json", jobs / "1.json"], None, 18, ["sweep=learning_rate", "seed=1,2"])
    out = capsys.readouterr().out
    assert "2 of 20 jobs finished, 18 not started" in out
    assert "mate train -m sweep=learning_rate seed=1,2 resume=missing" in out


def test_three_usable_examples_allow_a_batch_of_three():
    with pytest.raises(ConfigError, match=r"trainer\.batch_size=3 or less"):
        plan_schedule(3, batch_size=4, micro_batch=1, max_epochs=1, max_steps=None)


def test_a_note_may_be_typed_as_a_setting(tmp_path, capsys):
    folder = RunFolder(tmp_path / "a")
    folder.write_text("config.yaml", "seed: 1\n")
    run_plain([f"run={folder.path}", "text=first real run"])
    run_plain([str(folder.path)])
    assert capsys.readouterr().out == "first real run\n"
