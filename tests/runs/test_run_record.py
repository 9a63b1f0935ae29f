import json
import math
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import mate_cli
from mate_cli.errors import RunError
from mate_cli.runs.folders import find_resumable, find_same, first_difference, new_folder
from mate_cli.runs.identity import configuration_name
from mate_cli.runs.metrics_file import seconds_so_far
from mate_cli.runs.record import Clock, RunFolder, RunRecord, code_version

NAMES = dict.fromkeys(("experiment", "dataset", "model", "attention", "init", "task"), "x")
CONFIG = {"seed": 1, "optimizer": {"lr": 1e-4, "betas": [0.9, 0.999]}, "hardware": {"micro_batch": 8}}


def record() -> RunRecord:
    return RunRecord(command="train", overrides=["seed=1"], seed=1, **NAMES)


def test_a_record_survives_writing_and_reading(tmp_path):
    folder = RunFolder(tmp_path / "run")
    written = record()
    written.metrics["dev/hits@1"] = 0.5
    folder.write_record(written)
    assert folder.read_record() == written
    assert [path.name for path in folder.path.iterdir()] == ["record.json"]


def test_a_summary_has_metrics_and_costs():
    run = record()
    run.metrics, run.throughput, run.parameters = {"dev/em": 0.5}, {"examples_per_second": 3.0}, 7
    assert run.summary() == {
        "dev/em": 0.5,
        "cost/parameters": 7,
        "cost/wall_seconds": 0.0,
        "cost/peak_memory_mb": 0.0,
        "cost/examples_per_second": 3.0,
    }


def test_the_time_of_killed_parts_counts_and_so_does_that_of_stages(tmp_path):
    whole, killed = RunFolder(tmp_path), RunFolder(tmp_path / "reading")
    assert seconds_so_far(whole, record()) == 0
    RunFolder(tmp_path / "selection").write_record(replace(record(), wall_seconds=60.0))
    killed.write_record(record())
    killed.write_text("metrics.jsonl", '{"step": 1, "time": 20.0}\n{"step": 2, "time": 30.0}\n{"st')
    assert seconds_so_far(killed, record()) == 30
    assert seconds_so_far(whole, record()) == 90
    assert seconds_so_far(whole, replace(record(), wall_seconds=100.0)) == 100
    assert 30 <= Clock(before=30.0)() < 90


def test_a_record_that_another_process_is_writing_is_no_stage(tmp_path):
    draft = tmp_path / ".record.json.0123456789ab.draft"
    draft.mkdir()
    (draft / "record.json").write_text('{"half": ')
    assert seconds_so_far(RunFolder(tmp_path), record()) == 0


@pytest.mark.parametrize("content", ["", "{", "[]", '{"command": "train"}', '{"nonsense": 1}'])
def test_a_damaged_record_is_named(tmp_path, content):
    (tmp_path / "record.json").write_text(content)
    with pytest.raises(RunError, match=r"record\.json: this is not a run folder with a readable record"):
        RunFolder(tmp_path).read_record()


def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch):
    folder = RunFolder(tmp_path)
    folder.write_text("config.yaml", "seed: 1\n")

    def full_disk(self: Path, *_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full_disk)
    with pytest.raises(RunError, match=r"no space left on device.*resume=last"):
        folder.write_text("config.yaml", "seed: 2\n")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"seed: 1\n"]


def test_a_file_in_the_place_of_the_outputs_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="the run folder cannot be made"):
        new_folder(tmp_path / "file", "train/quickstart")


def make_run(outputs: Path, name: str, config: dict) -> Path:
    folder = RunFolder(outputs / "train" / "x" / name)
    folder.write_text("config.yaml", json.dumps(config))
    return folder.path


def test_last_is_the_newest_run_of_the_same_configuration(tmp_path):
    make_run(tmp_path, "1", CONFIG)
    wanted = make_run(tmp_path, "2", CONFIG)
    make_run(tmp_path, "3", {**CONFIG, "seed": 2})
    assert find_resumable("last", tmp_path / "train/x", CONFIG).path == wanted


def test_another_machine_may_resume_but_another_experiment_may_not(tmp_path):
    path = make_run(tmp_path, "1", CONFIG)
    moved = {**CONFIG, "hardware": {"micro_batch": 2}}
    assert find_resumable(str(path), tmp_path / "train/x", moved).path == path
    other = {**CONFIG, "optimizer": {"lr": 1e-5, "betas": [0.9, 0.999]}}
    assert first_difference(path, other) == ("optimizer.lr", 1e-4, 1e-5)
    with pytest.raises(RunError, match=r"started with optimizer\.lr=0\.0001, not 1e-05"):
        find_resumable("last", tmp_path / "train/x", other)


def test_other_attention_is_another_run_and_another_log_is_not(tmp_path):
    attention, trainer = {"_target_": "mate_cli.attention.backends.auto.Auto"}, {"log_every": 5, "checkpoint_every": 20}
    path = make_run(tmp_path, "1", {**CONFIG, "attention": attention, "trainer": trainer})
    other = {**CONFIG, "attention": {"_target_": "lab.Own"}, "trainer": trainer}
    assert find_same(tmp_path / "train/x", other, {}) is None
    quiet = {**CONFIG, "attention": attention, "trainer": {"log_every": 50, "checkpoint_every": 200}}
    assert find_same(tmp_path / "train/x", quiet, {}).path == path


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        (["experiment=e", "seed=3", "hardware=gpu", "hardware.workers=2", "paths.outputs=/x", "resume=missing"], "e"),
        (["seed=3", "data.limit=4", "model=tapas", "init=minilm"], "e · init=minilm · model=tapas · data.limit=4"),
        (["init=minilm", "optimizer.lr=1e-4"], "e · init=minilm · optimizer.lr=1e-4"),
        (["+data.extra=[a]", "~debug"], "e · ~debug · +data.extra=[a]"),
    ],
)
def test_repeats_share_a_name_that_tells_configurations_apart(overrides, name):
    assert configuration_name("e", overrides) == name


def test_long_names_stay_short_and_different():
    first, second = (configuration_name("e", [f"data.extra=[{'x' * 200}]", f"model={model}"]) for model in "ab")
    assert max(len(first), len(second)) <= 120
    assert first != second


def test_a_value_that_does_not_fit_in_a_name_is_seen_to_be_cut():
    overrides = [f"data.key{number}=0.000{number}125" for number in range(8)]
    shown = configuration_name("e", overrides).split(" · ")[1:]
    whole = {override.removeprefix("data.") for override in overrides}
    assert all(setting in whole or "…" in setting for setting in shown)


def test_a_long_name_has_the_settings_of_the_network_before_files_of_data():
    files = [f"data.{split}=folder/of/files/{split}.jsonl" for split in ("train", "dev", "test")]
    name = configuration_name("wtq_mate", [*files, "optimizer.lr=1e-5", "task.allow_empty_column_selection=true"])
    assert name.startswith("wtq_mate · lr=1e-5 · allow_empty_column_selection=true")


@pytest.mark.parametrize("name", ["predictions/dev.json", "evaluation/other/dev.json", "checkpoints/best.safetensors"])
def test_nothing_is_written_through_a_link_out_of_the_run(tmp_path, name):
    run, outside, top = RunFolder(tmp_path / "run"), tmp_path / "outside", name.split("/")[0]
    outside.mkdir()
    (run.path / top).symlink_to(outside)
    for write in (lambda: run.write_json(name, {}), lambda: run.below(f"{top}/stage"), lambda: run.place(name)):
        with pytest.raises(RunError, match=f"run/{top}: is a link that leads out of this folder"):
            write()
    assert not list(outside.iterdir())


def test_nan_is_null_in_a_record_and_nan_again_when_it_is_read(tmp_path):
    RunFolder(tmp_path).write_record(replace(record(), metrics={"dev/em": float("nan"), "dev/f1": 0.5}))
    assert json.loads((tmp_path / "record.json").read_text(), parse_constant=pytest.fail)["metrics"]["dev/em"] is None
    read = RunFolder(tmp_path).read_record().metrics
    assert (math.isnan(read["dev/em"]), read["dev/f1"]) == (True, 0.5)


def test_the_commit_is_that_of_the_package_not_of_a_repository_around_it(tmp_path, monkeypatch):
    def git(*words):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=tmp_path, check=True)

    installed = tmp_path / "mate_cli" / "__init__.py"
    installed.parent.mkdir()
    installed.touch()
    monkeypatch.setattr(mate_cli, "__file__", str(installed))
    git("init", "--quiet")
    git("commit", "--quiet", "--allow-empty", "-m", "another project")
    first = code_version()
    assert re.fullmatch(r"wheel-[0-9a-f]{12}", first)
    (tmp_path / "other.py").touch()
    assert code_version() == first
    installed.write_text("changed = True\n")
    assert code_version() != first
    git("add", "mate_cli")
    git("commit", "--quiet", "-m", "its own")
    assert re.fullmatch(r"[0-9a-f]{12}", code_version())
