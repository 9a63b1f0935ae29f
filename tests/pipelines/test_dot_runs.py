"""A run of two encoders from one command: killed, resumed and asked again."""

import json
from pathlib import Path

import forked_commands
import pytest
from finished_runs import only_run
from forked_commands import finish

from mate_cli.cli.app import main

ARGUMENTS = [
    *("experiment=quickstart_dot", "logger=none", "trainer.limit_train=16", "trainer.limit_dev=4"),
    *("trainer.batch_size=4", "trainer.max_steps=8", "trainer.checkpoint_every=2", "trainer.log_every=1"),
    *("hardware.micro_batch=4", "hardware.threads=1", "model.keep=40", "model.hidden_dropout=0.1"),
]


TABLE = "region,month,sales\nNorth,March,1204\nSouth,March,870\nNorth,April,980\n"


def start(folder: Path, *more: str):
    return forked_commands.start("train", *ARGUMENTS, f"paths.outputs={folder}", *more)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "outputs"
    finish(start(folder))
    return only_run(folder)


@pytest.mark.long
def test_it_answers_the_same_from_its_folder_and_its_export(whole, tmp_path):
    here = ["hardware.threads=1"]
    assert main(["evaluate", f"run={whole}", "split=test", *here]) == 0
    again = json.loads((whole / "evaluation" / "test.json").read_text())
    metrics = json.loads((whole / "record.json").read_text())["metrics"]
    assert again == {name: value for name, value in metrics.items() if name.startswith("test/")}
    assert main(["export", f"run={whole}", f"to={tmp_path / 'exported'}", *here]) == 0
    table = tmp_path / "sales.csv"
    table.write_text(TABLE)
    found = []
    for model in (f"run={whole}", f"checkpoint={tmp_path / 'exported'}"):
        output = tmp_path / f"{len(found)}.json"
        asked = [f"table={table}", "question=who sold the most ?", f"output={output}"]
        assert main(["predict", model, *asked, *here]) == 0
        found.append(json.loads(output.read_text())["answers"])
    assert found[0] == found[1]
    assert found[0][0]["cells"]
