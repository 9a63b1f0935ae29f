"""Commands on the folders of strangers: nothing is executed, sent, deleted, or written outside of the folder."""

import os
import random

import pytest
from configurations import run_config  # noqa: F401 - forked commands need what it loads
from finished_runs import SMALL
from foreign_runs import World, make_foreign
from forked_commands import start

from mate_cli.cli.app import main

SECONDS = 900
"""Only a command that hangs takes so long, however busy the machine is."""
FOLDERS = int(os.environ.get("MATE_FOREIGN", "480"))
COMMANDS = {
    "run": (["run", "{run}"], ()),
    "run there": (["run", "."], ()),
    "evaluate": (["evaluate", "run={run}", "hardware.threads=1", "data.limit=2"], ()),
    "predict": (["predict", "checkpoint={run}", "table=t.csv", "question=which?", "output=a.json"], ("a.json",)),
    "predict run": (["predict", "run={run}", "table=t.csv", "question=which?", "output=a.json"], ("a.json",)),
    "export": (["export", "run={run}", "to=made"], ("made",)),
    "inspect": (["inspect", "run={run}"], ("outputs/inspect",)),
    "compare": (["compare", "outputs", "html=a.html"], ("a.html",)),
    "diff": (["diff", "{run}", "outputs/train/mine/first"], ()),
    "explain": (["explain", "{run}", "optimizer.lr"], ()),
    "list": (["list", "experiments"], ()),
    "train": (
        ["train", "experiment=quickstart", "stages.cell_selection.run={run}", "resume=missing"],
        ("outputs/new",),
    ),
}
OFTEN = ("run", "run there", "run", "run there", "evaluate", *COMMANDS)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that its two steps are over of, and that says it was interrupted: all of it is scored again."""
    outputs = tmp_path_factory.mktemp("runs")
    words = ["experiment=quickstart_cells", *SMALL, "trainer.max_steps=2", "trainer.limit_train=8"]
    words += ["trainer.limit_dev=2", "trainer.checkpoint_every=1", "hardware.micro_batch=4", "trainer.batch_size=4"]
    words += ["logger=none", "name=x", f"paths.outputs={outputs}"]
    assert main(["train", *words]) == 0
    folder = outputs / "train" / "quickstart_cells" / "x"
    record = folder / "record.json"
    record.write_text(record.read_text().replace('"status": "finished"', '"status": "interrupted"'))
    return folder


def check_foreign(place, run, seed, monkeypatch):
    world = World(place, run)
    told = make_foreign(world, seed)
    world.before = world.look()
    name = random.Random(-1 - seed).choice(OFTEN)
    words, declared = COMMANDS[name]
    with monkeypatch.context() as patch:
        patch.chdir(world.run if name == "run there" else world.here)
        for key, value in world.environment.items():
            patch.setenv(key, value)
        patch.delenv("MATE_CACHE", raising=False)
        process = start(*(word.format(run=world.run) for word in words))
        try:
            process.wait(SECONDS)
        finally:
            process.send_signal(9)
        said = "".join(process.communicate())
    harms = world.harm(declared)
    world.server.close()
    assert not harms, (seed, name, told, harms, said)
    assert process.returncode in (0, 2), (seed, name, told, said)
    assert "Traceback" not in said, (seed, name, told, said)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(FOLDERS))
def test_a_stranger_can_do_no_harm(tmp_path, run, seed, monkeypatch):
    check_foreign(tmp_path / str(seed), run, seed, monkeypatch)
