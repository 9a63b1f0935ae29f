"""`mate train --dry`: what a run would train and cost; nothing is written."""

from __future__ import annotations

import re
from importlib.util import find_spec

import pytest

from mate_cli.cli import dry_run
from mate_cli.cli.app import main
from mate_cli.cli.config.resolve import resolve
from mate_cli.pipelines.estimate import Cost

HERE = ["logger=none", "hardware.threads=1"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """An empty folder, in which nothing may be written."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MATE_CACHE", str(tmp_path / "cache"))
    yield
    assert list(tmp_path.iterdir()) == []


def dry(capsys, *words: str) -> str:
    assert main(["train", *words, *HERE, "--dry"]) == 0
    return capsys.readouterr().out


def value(out: str, name: str) -> str:
    found = re.search(rf"^  {name} +(.*)$", out, re.MULTILINE)
    assert found, out
    return found[1]


def test_a_run_is_counted_and_timed(capsys):
    out = dry(capsys, "experiment=quickstart_cells", "trainer.max_epochs=2", "trainer.max_steps=null")
    counts = re.findall(r"(\d[\d,]*) (\w+)", value(out, "examples"))
    examples = {split: int(count.replace(",", "")) for count, split in counts}
    assert set(examples) == {"train", "dev", "test"}
    batch = int(re.search(r"of (\d+) =", value(out, "steps"))[1])
    assert value(out, "steps").startswith(f"{round(2 * examples['train'] / batch):,} of ")
    assert re.fullmatch(r"[\d,]{5,}", value(out, "parameters"))
    mean, most = map(int, re.match(r"(\d+) on average, (\d+) at most", value(out, "tokens")).groups())
    assert 10 < mean <= most
    assert re.match(r"about \d.* on this machine, by \d+ batch", value(out, "time"))


@pytest.mark.long
def test_work_that_takes_long_is_shown(capsys, monkeypatch):
    for name in ("PLAIN_DELAY", "PLAIN_SECONDS", "REFRESH"):
        monkeypatch.setattr(f"mate_cli.terminal.progress.{name}", 0.01)
    assert main(["train", "experiment=quickstart_cells", *HERE, "--dry"]) == 0
    shown = capsys.readouterr().err
    assert "counting examples" in shown
    assert "planning attention and timing steps" in shown


@pytest.mark.long
def test_a_chain_is_counted_by_stage(capsys):
    out = dry(capsys, "experiment=quickstart", "debug=fast")
    assert re.findall(r"^(cell selection|span reading)$", out, re.MULTILINE) == ["cell selection", "span reading"]
    assert out.count("  steps       2 of 4") == 2
    assert "\nall stages  about " in out


def test_steps_that_do_not_fit_the_time_take_at_least_so_long(capsys, monkeypatch):
    monkeypatch.setattr("mate_cli.cli.dry_run.SECONDS", 1e-4)
    monkeypatch.setattr("mate_cli.cli.dry_run.MIN_SECONDS", 1e-4)
    out = dry(capsys, "experiment=quickstart_cells")
    assert re.match(r"at least \d.*no batch finished within the time limit", value(out, "time"))


def test_absent_data_and_weights_are_named(capsys):
    out = dry(capsys, "experiment=wtq_mate")
    assert re.search(r"downloads   \d+ files of wtq from .*github", out)
    assert "downloads   weights of google/tapas-large" in out
    assert "not known   examples: data/wtq: there is no such folder" in out
    out = dry(capsys, "experiment=hybridqa_mate", "init=random", "init.tokenizer=sample", "model.size=tiny")
    assert "parameters  " in out
    assert "not known   examples and time: data/hybridqa: there is no such folder" in out


@pytest.mark.long
def test_a_corpus_is_not_prepared_to_be_counted(tmp_path_factory, capsys):
    table = tmp_path_factory.mktemp("tables") / "table.csv"
    table.write_text("region,sales\nnorth,3\n")
    words = ["init=random", "init.tokenizer=sample", "model.size=tiny", f"data.sources=[{table}]"]
    assert "the corpus is not prepared yet" in dry(capsys, "experiment=pretrain_mate", *words)


def test_what_cannot_be_planned_is_refused(capsys):
    assert main(["train", "experiment=quickstart_cells", "model=linformer", "attention=segments", *HERE, "--dry"]) == 2
    assert "Use attention=auto" in capsys.readouterr().err
    if find_spec("optuna"):
        assert main(["train", "sweep=learning_rate", "--dry"]) == 2
        assert "a search chooses its 20 jobs by the results of earlier jobs" in capsys.readouterr().err


def test_jobs_of_a_sweep_are_listed_and_summed(capsys):
    out = dry(capsys, "-m", "experiment=quickstart_cells", "debug=fast", "model=mate,tapas", "seed=1,2")
    assert re.findall(r"^ +\d +(model=\w+ seed=\d) +about [^,\n]+$", out, re.MULTILINE) == [
        f"model={model} seed={seed}" for model in ("mate", "tapas") for seed in (1, 2)
    ]
    assert re.search(r"^4 jobs, one after the other: about ", out, re.MULTILINE)


def test_shared_stages_of_jobs_are_summed_once(capsys, monkeypatch):
    costs = {"cell_selection": Cost(seconds=600, timed=1), "span_reading": Cost(seconds=1200, timed=1)}
    monkeypatch.setattr(dry_run, "stage_costs", lambda stages: [(stage, costs[stage.name]) for stage in stages])
    words = ["experiment=quickstart", "stages.cell_selection.shared=true"]
    stages = [resolve([*words, f"stages.span_reading.optimizer.lr={rate}"]).stages for rate in ("1e-4", "2e-4")]
    assert dry_run.print_sweep_costs([("a", stages[0]), ("b", stages[1][1:]), ("c", stages[1])]) == [None] * 3
    out = capsys.readouterr().out
    assert re.findall(r" ([abc]) +about (\d+ min)", out) == [("a", "30 min"), ("b", "20 min"), ("c", "30 min")]
    assert "3 jobs, one after the other, shared stages counted once: about 1 h 10 min" in out


def test_a_job_that_cannot_be_trained_is_named(capsys):
    words = ["-m", "experiment=quickstart_cells", "debug=fast", "init=random,bert", "model.size=tiny"]
    assert main(["train", *words, *HERE, "--dry"]) == 2
    out = capsys.readouterr().out
    assert "cannot be trained: job 1 (init=bert): init=bert: no bert of size tiny is published" in out
