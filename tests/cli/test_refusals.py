"""A refusal leaves all that was there, byte for byte, and nothing else; damage makes nothing unreachable."""

import json
import shutil

import pytest
import yaml
from finished_runs import SMALL
from hostile_runs import content_of

from mate_cli.cli.app import main

WORDS = ["experiment=quickstart_cells", *SMALL, "trainer.max_steps=2", "trainer.limit_train=8", "trainer.limit_dev=2"]
WORDS += ["hardware.micro_batch=4", "trainer.batch_size=4", "logger=none"]
STRANGE = (
    *("notes.md", "predictions/dev.json", "evaluation/dev.json", "stderr.txt", "traceback.txt", "wandb/x"),
    "a/b/c.csv",
)
REFUSALS = {
    "data that are missing": ["data=wtq", "data.root=nowhere", "task=table_qa", "encoding=table"],
    "an empty folder of data": [
        *("data=wtq", "data.root={here}/empty", "data.download=false", "task=table_qa", "encoding=table"),
    ],
    "weights that are missing": ["init=path", "init.checkpoint=nowhere"],
    "weights of something else": ["init=path", "init.checkpoint={here}/empty"],
    "a label that does not fit": ["encoding=masked"],
    "a callback that is none": ["+callbacks.x._target_=pathlib.Path"],
    "an option that is reserved": ["+trainer.options.max_steps=3"],
    "a positions' limit": ["encoding.max_tokens=100000"],
    "a fault in a class": ["model.size=unheard_of"],
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("words", REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_leaves_all_that_was_there(tmp_path, words, capsys):
    folder = tmp_path / "o" / "train" / "quickstart_cells" / "first"
    (tmp_path / "empty").mkdir()
    for name in STRANGE:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    before = content_of(tmp_path)
    words = [word.format(here=tmp_path) for word in words]
    assert main(["train", *WORDS, *words, f"paths.outputs={tmp_path / 'o'}", "name=first"]) == 2
    assert content_of(tmp_path) == before
    shutil.rmtree(tmp_path / "o")
    assert main(["train", *WORDS, *words, f"paths.outputs={tmp_path / 'o'}", "name=first"]) == 2
    assert not (tmp_path / "o").exists()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    outputs = tmp_path_factory.mktemp("runs")
    assert main(["train", *WORDS, f"paths.outputs={outputs}", "name=x", "trainer.log_every=1"]) == 0
    return outputs / "train" / "quickstart_cells" / "x"


@pytest.fixture
def run(finished, tmp_path):
    """A copy that says it was interrupted."""
    folder = shutil.copytree(finished, tmp_path / "run")
    record = json.loads((folder / "record.json").read_text())
    (folder / "record.json").write_text(json.dumps(record | {"status": "interrupted"}))
    return folder


def cut(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


@pytest.mark.parametrize("metrics", [True, False])
def test_a_last_state_that_is_damaged_changes_nothing(run, metrics, capsys):
    cut(run / "checkpoints" / "last.ckpt")
    if not metrics:
        (run / "metrics.jsonl").unlink()
    before = content_of(run)
    assert main(["run", str(run)]) == 2
    assert "last.ckpt" in capsys.readouterr().err
    assert content_of(run) == before


def test_a_folder_of_a_run_without_its_record_is_not_trained_over(finished, capsys):
    outputs = finished.parents[2]
    copy = shutil.copytree(finished, finished.with_name("copied"))
    (copy / "record.json").unlink()
    before = content_of(copy)
    assert main(["train", *WORDS, f"paths.outputs={outputs}", "name=copied"]) == 2
    assert "a run of this name exists" in capsys.readouterr().err
    assert content_of(copy) == before
    shutil.rmtree(copy)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("damage", ["cut", "empty", "missing"])
def test_a_record_that_is_damaged_is_made_again(run, damage, capsys):
    file = run / "record.json"
    before = json.loads(file.read_text())
    {"cut": lambda: cut(file), "empty": lambda: file.write_text(""), "missing": file.unlink}[damage]()
    assert main(["evaluate", f"run={run}", "hardware.threads=1"]) == 0
    assert "made again from config.yaml" in capsys.readouterr().out
    file.write_text("")
    assert main(["run", str(run)]) == 0
    after = json.loads(file.read_text())
    same = ("experiment", "overrides", "settings", "seed", "started", "metrics", "weights_sha256", "model", "data")
    assert {key: after[key] for key in same} == {key: before[key] for key in same}
    assert after["status"] == "finished"


def test_lines_that_are_no_rows_are_told_and_stay(run, capsys):
    file = run / "metrics.jsonl"
    state = (run / "checkpoints" / "last.ckpt").read_bytes()
    assert state
    file.write_text("my own note\n" + file.read_text() + '{"step": "x"}\n')
    content = file.read_text()
    from mate_cli.runs.loggers import MetricsFile
    from mate_cli.runs.metrics_file import read_rows
    from mate_cli.runs.record import RunFolder

    rows = MetricsFile(RunFolder(run), 1, 1)
    assert file.read_text() == content
    rows.log_metrics({"time": 1.0}, 2)
    assert "2 lines are no rows and are left out" in capsys.readouterr().out
    assert (run / "metrics.jsonl.damaged").read_text() == content
    assert [row["step"] for row in read_rows(file)][-1] == 2
    file.write_text('{"step": 1, "time": 1}\n')
    MetricsFile(RunFolder(run), 5, 1).log_metrics({"time": 1.0}, 6)
    assert "rows of steps 2 to 4 are lost" in capsys.readouterr().out


def test_a_configuration_that_was_removed_is_written_again(run, monkeypatch):
    from mate_cli.pipelines import stages

    train = stages.train_run

    def remove_and_train(*arguments):
        (run / "config.yaml").unlink()
        train(*arguments)

    before = yaml.safe_load((run / "config.yaml").read_text())
    monkeypatch.setattr(stages, "train_run", remove_and_train)
    assert main(["run", str(run)]) == 0
    assert yaml.safe_load((run / "config.yaml").read_text())["model"] == before["model"]


def test_messages_name_what_is_wrong(finished, run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    table = tmp_path / "own.csv"
    table.write_text("a,b\n1,2\n")
    assert main(["predict", f"run={finished}", "table=own.csv", "output=own.csv", "question=which?"]) == 2
    assert "output=own.csv: is also an input file" in capsys.readouterr().err
    assert table.read_text() == "a,b\n1,2\n"
    values = yaml.safe_load((run / "config.yaml").read_text())
    del values["seed"]
    (run / "config.yaml").write_text(yaml.safe_dump(values))
    assert main(["train", *WORDS, "trainer.log_every=1", f"resume={run}"]) == 2
    message = capsys.readouterr().err
    assert "was started without seed=1. Start a new run without resume" in message
    copy = shutil.copytree(finished, tmp_path / "lost")
    shutil.rmtree(copy / "checkpoints")
    assert main(["run", str(copy)]) == 0
    assert "already finished, but its weights are gone" in " ".join(capsys.readouterr().out.split())


def test_half_a_configuration_that_a_killed_process_left_keeps_nobody_from_looking(run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    draft = run / ".config.yaml.0123456789ab.draft"
    draft.mkdir()
    (draft / "config.yaml").write_text("encoding: {max_tokens: many")
    assert main(["inspect", f"run={run}"]) == 0, capsys.readouterr().err


@pytest.mark.parametrize("line", ["evaluate run={run}", "run {run}", "export run={run} to=x", "inspect run={run}"])
def test_a_group_where_a_number_belongs_is_one_line(run, line, capsys):
    values = yaml.safe_load((run / "config.yaml").read_text())
    values["encoding"]["cell_trim_length"] = {"a": 1}
    (run / "config.yaml").write_text(yaml.safe_dump(values))
    assert main(line.format(run=run).split()) == 2
    assert "encoding.cell_trim_length: must be an integer" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"# f\xfcr\ndefaults: [quickstart_cells]\n", "conf/experiment/mine.yaml: is not in UTF-8"),
        (b"defaults: -1\n", "defaults must be a list"),
    ],
)
def test_a_file_of_ones_own_that_is_wrong_is_named(tmp_path, monkeypatch, capsys, content, said):
    monkeypatch.chdir(tmp_path)
    for group, text in (("experiment", content), ("sweep", b"defaults: -1\n")):
        (tmp_path / "conf" / group).mkdir(parents=True)
        (tmp_path / "conf" / group / "mine.yaml").write_bytes(text)
    for words in (["train", "experiment=mine", "--dry"], ["explain", "seed", "experiment=mine"]):
        assert main(words) == 2
        assert said in capsys.readouterr().err
    assert main(["train", "sweep=mine", "seed=1,2"]) == 2
    assert main(["list", "experiments"]) == 0


@pytest.mark.parametrize("key", ["model", "+callbacks.x"])
def test_a_target_that_is_a_list_is_refused(key, capsys):
    assert main(["train", *WORDS, f"{key}._target_=[a,b]"]) == 2
    assert "must be the name of a class" in capsys.readouterr().err
