"""SAT as its authors made it, from training to answers: input, masks and the selection of cells fit together."""

import json

import pytest

from mate_cli.cli.app import main
from mate_cli.data.datasets.hybridqa.reader import Sample

WORDS = ["model=sat", "model.variant=original", "encoding=sat", "encoding.rows=4", "encoding.max_tokens=64"]
SMALL = ["trainer.limit_train=48", "trainer.limit_dev=24", "trainer.batch_size=8", "trainer.max_steps=4"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A short training run."""
    folder = tmp_path_factory.mktemp("sat")
    words = [*WORDS, *SMALL, "hardware.threads=1", "logger=none", f"paths.outputs={folder}"]
    assert main(["train", "experiment=quickstart_cells", *words]) == 0
    (found,) = folder.glob("train/quickstart_cells/*")
    return found


@pytest.mark.long
def test_answers_are_cells_of_the_table_and_never_counts(run, tmp_path):
    asked = json.loads(Sample().read_released("test.json")["test.json"])[:12]
    questions, output = tmp_path / "questions.json", tmp_path / "answers.json"
    questions.write_text(json.dumps([{k: row[k] for k in ("question_id", "question", "table_id")} for row in asked]))
    assert main(["predict", f"run={run}", f"input={questions}", f"output={output}"]) == 0
    tables = {example.example_id: example.table for example in Sample().examples("test")}
    for row in json.loads(output.read_text()):
        assert row["pred"] in {cell.text for _, _, cell in tables[row["question_id"]].cells()}


def test_a_reader_refuses_it(tmp_path, capsys):
    words = ["experiment=quickstart_reader", "encoding=sat", f"paths.outputs={tmp_path}", "logger=none"]
    assert main(["train", *words]) == 2
    assert "Use encoding=cell" in capsys.readouterr().err
