"""What the groups trainer, callbacks and logger hand to Lightning, and what is refused before anything is written."""

from __future__ import annotations

import json
import signal
import sys
from importlib.util import find_spec

import forked_commands
import pytest
import pytorch_lightning as pl
import torch
from configurations import run_config
from finished_runs import only_run
from forked_commands import finish, wait_for_step
from safetensors.torch import load_file

from mate_cli.cli.app import main
from mate_cli.cli.config.validate import target_problems
from mate_cli.errors import ConfigError
from mate_cli.pipelines.trainer import RESERVED, build_callbacks, check_trainer

LIGHTNING = "pytorch_lightning.callbacks"
TINY = [
    *("experiment=quickstart_cells", "logger=none", "hardware.threads=1", "hardware.micro_batch=4"),
    *("trainer.limit_train=32", "trainer.limit_dev=8", "trainer.batch_size=8", "trainer.max_steps=8"),
    *("trainer.log_every=2", "trainer.val_every=0.5", "trainer.checkpoint_every=1"),
]


def add(group, target, **options):
    """Words that add a part to a group."""
    return [f"+{group}.mine._target_={target}", *(f"+{group}.mine.{key}={value}" for key, value in options.items())]


IO_PLUGIN = "{_target_: pytorch_lightning.plugins.AsyncCheckpointIO}"
SWA, FINETUNING = (f"{LIGHTNING}.{name}" for name in ("StochasticWeightAveraging", "BackboneFinetuning"))
REFUSED = {
    "no such keyword": (["+trainer.options.profilr=simple"], "no such keyword. Did you mean profiler?"),
    "a value": (["+trainer.options.profiler=slow"], "trainer.options: pl.Trainer rejects these options: "),
    "a type": (["+trainer.options.max_time=[1]"], "trainer.options: pl.Trainer rejects these options: "),
    "saving elsewhere": ([f"+trainer.options.plugins=[{IO_PLUGIN}]"], "options.plugins: AsyncCheckpointIO is not"),
    "a class of another kind": (add("callbacks", "torch.nn.Identity"), "callbacks.mine: torch.nn.Identity is not"),
    "a callback as logger": (add("logger", f"{LIGHTNING}.Timer"), f"logger.mine: {LIGHTNING}.Timer is not"),
    "no class": (["+logger.mine.project=x"], "logger.mine: has no class. Add +logger.mine._target_=..."),
    "epochs": (add("callbacks", SWA, swa_lrs=0.1), "use callbacks=weight_averaging"),
    "finetuning": (add("callbacks", FINETUNING), "it counts Lightning epochs, and a run is one."),
    "accumulation": (
        add("callbacks", f"{LIGHTNING}.GradientAccumulationScheduler", scheduling="{0: 2}"),
        "trainer.batch_size and hardware.micro_batch",
    ),
    "what a class refuses": (
        ["callbacks=early_stopping", "+callbacks.early_stopping.mode=most"],
        "callbacks.early_stopping: pytorch_lightning.callbacks.EarlyStopping cannot be built: `mode` can be min, max",
    ),
    "two bars": (["callbacks=rich_progress_bar", *add("callbacks", f"{LIGHTNING}.TQDMProgressBar")], "progress bar"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", REFUSED)
def test_what_a_run_could_not_begin_with_is_refused(name):
    words, said = REFUSED[name]
    with pytest.raises(ConfigError) as refused:
        check_trainer(run_config(words))
    assert said in str(refused.value)


@pytest.mark.parametrize("remedy", RESERVED)
def test_keywords_that_promises_rest_on_are_refused_with_what_to_use_instead(remedy):
    config = run_config(["+trainer.options={}"])
    for name in RESERVED[remedy]:
        config.trainer.options = {name: 1}
        with pytest.raises(ConfigError) as refused:
            check_trainer(config)
        assert str(refused.value) == f"trainer.options.{name}: is set by the run itself. {remedy}."


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("logger", "module", "package"),
    [
        ("TensorBoardLogger", "tensorboard", "tensorboard"),
        ("CometLogger", "comet_ml", "comet-ml"),
        ("MLFlowLogger", "mlflow", "mlflow"),
    ],
)
@pytest.mark.parametrize("text", [None, "raise RuntimeError('built for another Python')"])
def test_a_package_that_is_missing_or_broken_is_named(text, tmp_path, monkeypatch, logger, module, package):
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    if text is None:
        monkeypatch.setitem(sys.modules, module, None)
    else:
        (tmp_path / f"{module}.py").write_text(text)
    with pytest.raises(ConfigError, match=rf"logger\.mine: needs the package .*: pip install {package}\.$"):
        check_trainer(run_config(["logger=none", *add("logger", f"pytorch_lightning.loggers.{logger}")]))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "words",
    [
        ["+trainer.options.profiler=simple", "+trainer.options.max_time=00:00:10:00"],
        ["+trainer.options.profiler._target_=pytorch_lightning.profilers.SimpleProfiler"],
        ["+trainer.options.plugins._target_=pytorch_lightning.plugins.TorchSyncBatchNorm"],
        add("callbacks", f"{LIGHTNING}.ModelCheckpoint", save_last="true"),
        add("callbacks", f"{LIGHTNING}.RichModelSummary"),
        ["callbacks=[early_stopping,weight_averaging,rich_progress_bar]"],
        ["callbacks=early_stopping", "callbacks.early_stopping=null"],
    ],
    ids=lambda words: words[0],
)
def test_what_lightning_offers_beside_passes(words):
    check_trainer(run_config(words))


def test_a_callback_follows_the_metric_of_the_task():
    config = run_config(["callbacks=early_stopping"])
    ours = [next(iter(build_callbacks(config, monitor).values())) for monitor in ("dev/hits@1", "dev/perplexity")]
    assert [(one.monitor, one.mode) for one in ours] == [("dev/hits@1", "max"), ("dev/perplexity", "min")]
    chosen = run_config(["callbacks=early_stopping", "+callbacks.early_stopping.monitor=dev/hits@3"])
    assert next(iter(build_callbacks(chosen, "dev/hits@1").values())).monitor == "dev/hits@3"


def test_nothing_is_written_of_what_is_refused(tmp_path, capsys):
    words = [*TINY, f"paths.outputs={tmp_path / 'outputs'}", "+trainer.options.devices=2"]
    assert main(["train", *words]) == 2
    error = capsys.readouterr().err
    assert (error.count("\n"), "Use the keys of hardware." in error) == (1, True), error
    assert list(tmp_path.iterdir()) == []


def test_classes_of_the_package_of_all_of_lightning_are_known():
    if find_spec("lightning"):
        pytest.skip("the package lightning is installed")
    target = "lightning.pytorch.callbacks.EarlyStopping"
    (problem,) = target_problems({"mine": {"_target_": target}}, "callbacks")
    assert f"there is no {target} here: write {LIGHTNING}.EarlyStopping" in problem


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("trainer.options.profiler=simple", "To add it, write +trainer.options.profiler=..."),
        ("task.metrics=[{_target_: my_module.Mine}]", "To add it, write +task.metrics=..."),
        ("callbacks.early_stopping.patience=2", "It is a key of callbacks=early_stopping."),
        ("logger.mode=online", "Did you mean logger.wandb.mode?"),
    ],
)
def test_what_is_not_chosen_says_how_it_is_added(capsys, word, said):
    assert main(["train", "experiment=quickstart_cells", word]) == 2
    assert said in capsys.readouterr().err


OWN = """
import pytorch_lightning as pl

class Count(pl.Callback):
    def __init__(self, every: int = 1) -> None:
        self.every, self.batches = every, 0

    def state_dict(self):
        return {"batches": self.batches} if self.batches else {}

    def load_state_dict(self, state):
        self.batches = state["batches"]

    def on_train_batch_end(self, trainer, module, *given):
        self.batches += 1
        if trainer.global_step % self.every == 0:
            module.log("own/batches", float(self.batches))
"""


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A folder with a callback of one's own, and its file in the group."""
    (tmp_path / "my_callbacks.py").write_text(OWN)
    file = tmp_path / "conf" / "callbacks" / "count.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("count:\n  _target_: my_callbacks.Count\n  every: 2\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


@pytest.mark.long
def test_a_callback_of_ones_own_is_added_by_yaml_and_logs_to_the_file(clone):
    assert main(["train", *TINY, "callbacks=count", "+trainer.options.profiler=simple", "paths.outputs=outputs"]) == 0
    (folder,) = clone.glob("outputs/train/quickstart_cells/*")
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    counted = [row for row in rows if "own/batches" in row]
    assert counted[-1]["own/batches"] > counted[0]["own/batches"] > 0
    assert all(row.keys() == {"step", "own/batches"} for row in counted)
    assert "train/loss" in next(row for row in rows if row["step"] == 2)
    assert "run_training_epoch" in (folder / "fit-profile.txt").read_text()


@pytest.fixture(scope="module")
def averaged(tmp_path_factory):
    """The folder of a run whose weights are averaged, undisturbed."""
    outputs = tmp_path_factory.mktemp("averaged")
    finish(forked_commands.start("train", *AVERAGED, f"paths.outputs={outputs}"))
    return only_run(outputs)


AVERAGED = [*TINY, "callbacks=weight_averaging", "callbacks.weight_averaging.decay=0.5", "model.hidden_dropout=0.1"]


@pytest.mark.long
def test_the_final_weights_are_averages(averaged, tmp_path):
    assert main(["train", *TINY, "model.hidden_dropout=0.1", f"paths.outputs={tmp_path}"]) == 0
    final = load_file(averaged / "checkpoints" / "final.safetensors")
    plain = load_file(only_run(tmp_path) / "checkpoints" / "final.safetensors")
    state = torch.load(averaged / "checkpoints" / "last.ckpt", weights_only=True)
    assert all(torch.equal(final[name], state["state_dict"][name]) for name in final)
    assert all(torch.equal(plain[name], state["current_model_state"][name]) for name in plain)
    assert any(not torch.equal(final[name], plain[name]) for name in final)


@pytest.mark.long
def test_averages_outlive_a_kill(averaged, tmp_path):
    process = forked_commands.start("train", *AVERAGED, f"paths.outputs={tmp_path}")
    wait_for_step(tmp_path, 2, process)
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    finish(forked_commands.start("train", *AVERAGED, f"paths.outputs={tmp_path}", "resume=last"))
    for name in ("best", "final"):
        file = f"checkpoints/{name}.safetensors"
        assert (only_run(tmp_path) / file).read_bytes() == (averaged / file).read_bytes()


def test_lightning_has_the_callbacks_that_are_shipped():
    assert isinstance(
        build_callbacks(run_config(["callbacks=weight_averaging"]), "dev/f1")["weight_averaging"], pl.Callback
    )
