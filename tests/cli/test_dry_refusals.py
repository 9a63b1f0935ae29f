"""What a training refuses `--dry` refuses, in the same words; nothing is left behind."""

from __future__ import annotations

import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from mate_cli.cli.app import main
from mate_cli.cli.config_dir import list_options

CELLS = ["experiment=quickstart_cells", "debug=fast", "logger=none"]
FAST = "debug=fast logger=none"
QUICK = f"experiment=quickstart_cells {FAST}"
MONITOR = f"{QUICK} callbacks=early_stopping +callbacks.early_stopping.monitor="
SLURM = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "2", "SLURM_JOB_NAME": "job", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
LSF = {"LSB_JOBID": "7", "LSB_DJOB_RANKFILE": "/nonexistent", "JSM_NAMESPACE_SIZE": "1"}
LSF |= {"JSM_NAMESPACE_RANK": "0", "JSM_NAMESPACE_LOCAL_RANK": "0"}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """An empty folder with a cache apart."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MATE_DATA", raising=False)


def refusal(capsys, *words: str) -> str:
    """Return the last line of a command that is refused."""
    assert main(["train", *words]) == 2
    return capsys.readouterr().err.splitlines()[-1]


REFUSED = {
    "experiment=quickstart_cells debug=fast logger.wandb.project=a/b": "logger.wandb.project: must be a name of at",
    "experiment=quickstart_cells debug=fast +logger.wandb.foo=a": "logger.wandb.foo: unknown key.",
    f"{QUICK} logger=mlflow logger.mlflow.tracking_uri=http://127.0.0.1:9": "cannot be reached",
    f"{QUICK} +callbacks.a={{_target_:pytorch_lightning.callbacks.ModelCheckpoint,filename:{'x' * 300}}}": (
        "callbacks.a.filename: is not the name of a file."
    ),
    f"{MONITOR}val_loss": "no validation computes val_loss. Did you mean dev/hits@1?",
    f"{MONITOR}dev/hits@2": "no validation computes dev/hits@2. Did you mean dev/hits@1 or dev/hits@3",
    f"{QUICK} model.size=null": "model.size: must be text or a group of keys (got None).",
    f"{QUICK} model._target_=torch.nn.Identity": "torch.nn.Identity is not a TableEncoder.",
    f"{QUICK} task._target_=torch.nn.Identity": "torch.nn.Identity is not a TableTask.",
    f"{QUICK} optimizer._target_=torch.optim.SGD": "to conf/optimizer/sgd.yaml",
    f"{QUICK} resume=nowhere": "nowhere: this is not a run folder.",
    f"{QUICK} resume=last": "no run of quickstart_cells to resume",
    f"{QUICK} hardware.devices=3": "hardware.devices: trainer.batch_size=4 cannot be divided among 3",
    f"{QUICK} trainer.batch_size=1000000": "fewer than trainer.batch_size=1000000.",
    f"{QUICK} encoding.max_tokens=8": "no training example can be encoded: ",
    f"{QUICK} trainer.max_steps=null trainer.max_epochs=null": "length of training is not limited.",
    f"{QUICK} init=minilm model.size=minilm:2": "its vocabulary is 30522 word pieces",
    f"{QUICK} hardware=gpu": "hardware.accelerator: PyTorch finds no GPU here.",
    f"{QUICK} hardware.devices=2 hardware.nodes=2": "no processes were started on 2 nodes.",
    f"experiment=quickstart_dot scale=small model.pruner.size=medium {FAST}": (
        "its size is 384 wide, 6 layers, 8 heads, 1536 inside, the network's is 512 wide"
    ),
    f"experiment=pretrain_mate scale=small {FAST}": "Get it with mate data download data=hybridqa",
    f"experiment=wtq_mate scale=small data.download=false {FAST}": "data/wtq: there is no such folder",
    "experiment=wtq_tapas_cs scale=small stages.masked_lm.run=pretrain_tapas stages.cs=null": (
        "there is no finished run of pretrain_tapas. Train it first: mate train experiment=pretrain_tapas."
    ),
    "experiment=wtq_tapas_cs scale=small stages.masked_lm=null stages.cs.run=pretrain_both_tapas": (
        "mate train experiment=pretrain_both_tapas stages.masked_lm.run=pretrain_tapas."
    ),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("line", REFUSED)
def test_a_training_and_its_plan_refuse_alike(line, tmp_path, capsys):
    for dry in ([], ["--dry"]):
        assert REFUSED[line] in refusal(capsys, *line.split(), *dry)
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_taken_is_refused_by_both(tmp_path, capsys):
    run = tmp_path / "outputs" / "train" / "quickstart_cells" / "a"
    run.mkdir(parents=True)
    (run / "record.json").write_text("{}")
    for words in ([*CELLS, "name=a"], [*CELLS, "name=a", "--dry"]):
        assert "a run of this name exists" in refusal(capsys, *words)


def test_a_server_that_answers_anything_is_there(monkeypatch, capsys):
    class Refuse(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_error(403)

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setitem(sys.modules, "mlflow", None)
    with HTTPServer(("127.0.0.1", 0), Refuse) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        words = [*CELLS, "logger=mlflow", f"logger.mlflow.tracking_uri=http://127.0.0.1:{server.server_port}"]
        assert "needs the package mlflow" in refusal(capsys, *words, "--dry")
        server.shutdown()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("variables", [SLURM, LSF], ids=["Slurm", "LSF"])
def test_one_process_in_a_job_of_several_tasks_trains_alone(variables, monkeypatch, capsys):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert main(["train", *CELLS, "trainer.max_steps=1"]) == 0
    assert "trainer.options" not in capsys.readouterr().err


@pytest.mark.long
def test_steps_of_the_configuration_are_told_without_corpus_and_vocabulary(capsys):
    for scale, steps in (("paper", "1,000,000 of 512"), ("small", "500 of 32")):
        assert main(["train", "experiment=pretrain_mate", f"scale={scale}", "logger=none", "--dry"]) == 2
        assert f"  steps       {steps}" in capsys.readouterr().out


@pytest.mark.long
def test_what_pretraining_costs_is_measured_before_its_corpus_is_prepared(capsys):
    main(["train", "experiment=pretrain_mate", "scale=small", "logger=none", "model.size=minilm:1", "--dry"])
    out = capsys.readouterr().out
    assert re.search(r"^  time        (about|at least) \d", out, re.MULTILINE)
    assert "tokens and time are those of the sample tables" in out


def test_jobs_whose_runs_are_missing_are_planned_and_named_once(capsys):
    words = ["-m", "experiment=wtq_tapas_cs", "scale=small", "logger=none", "stages.masked_lm.run=pretrain_tapas"]
    assert main(["train", *words, "stages.cs=null", "seed=1,2,3", "--dry"]) == 2
    out = capsys.readouterr().out
    assert re.findall(r"^ +(\d)  seed=(\d)  ", out, re.MULTILINE) == [("0", "1"), ("1", "2"), ("2", "3")]
    (line,) = [line for line in out.splitlines() if line.startswith("cannot be trained")]
    assert line.startswith("cannot be trained: job 0 (seed=1) and 2 more: stages.masked_lm.run: there is no finished")


@pytest.mark.long
def test_the_lexical_ranker_and_the_quick_start_fit_other_scales(capsys):
    for experiment, scale in (("hybridqa_lexical", "small"), ("quickstart_cells", "minilm")):
        words = [f"experiment={experiment}", f"scale={scale}", "debug=fast", "logger=none", "--dry"]
        assert main(["train", *words]) == 0, capsys.readouterr().err
    assert "lexical from random" in capsys.readouterr().out


DATA = ("is not on disk", "there is no such folder", "there is no finished run of", "are missing")
"""What is not here where there are no data."""


@pytest.mark.long
@pytest.mark.parametrize("experiment", list_options("experiment"))
def test_every_experiment_fits_the_small_scale(experiment, capsys):
    code = main(["train", f"experiment={experiment}", "scale=small", "logger=none", "--dry"])
    said = capsys.readouterr().err
    assert code == 0 or any(text in said for text in DATA), said


@pytest.mark.long
@pytest.mark.parametrize("sweep", sorted({*list_options("sweep")} - {"learning_rate"}))
def test_every_sweep_fits_the_small_scale(sweep, capsys):
    paper = {"dot_table2", "dot_baselines"}  # beside those whose weights have the paper's sizes
    words = ["init=minilm"] if sweep in paper else ["model.size=minilm:3"] if sweep == "xh_hops" else []
    main(["train", "-m", f"sweep={sweep}", "scale=small", "logger=none", *words, "seed=1", "--dry"])
    out = capsys.readouterr().out
    refused = [line for line in out.splitlines() if line.startswith("cannot be trained")]
    known = (*DATA, "its size is 384 wide") if sweep.startswith("dot_table") else DATA
    assert all(any(text in line for text in known) for line in refused), refused
    assert re.search(r"^ +0  ", out, re.MULTILINE)
