"""Hybrider, as typed, on the sample data."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from mate_cli.cli.app import main
from mate_cli.data.baselines import tfidf_cell_ranking
from mate_cli.data.datasets.hybridqa.reader import Sample
from mate_cli.papers.hybrider.system import Hybrider
from mate_cli.pipelines.assembly import load_best
from mate_cli.pipelines.systems.base import TrainedStage
from mate_cli.runs.configuration import load_config
from mate_cli.runs.record import RunFolder

SMALL = [
    *("experiment=hybridqa_hybrider", "data=sample", "init=random", "model.size=tiny", "init.tokenizer=sample"),
    *("logger=none", "trainer.limit_train=16", "trainer.limit_dev=12", "trainer.batch_size=8", "trainer.max_steps=2"),
    "hardware.threads=1",
]
STAGES = {"ranking": "dev/row_accuracy", "hopping": "dev/hop_accuracy", "reading": "dev/gold_f1"}


@pytest.fixture(scope="module")
def chain(tmp_path_factory) -> Path:
    outputs = tmp_path_factory.mktemp("hybrider")
    assert main(["train", *SMALL, f"paths.outputs={outputs}"]) == 0
    (folder,) = outputs.glob("train/hybridqa_hybrider/*")
    return folder


def record(folder: Path) -> dict:
    return json.loads((folder / "record.json").read_text())


def answers(path: Path) -> dict[str, str]:
    return {row["question_id"]: row["pred"] for row in json.loads(path.read_text())}


@pytest.mark.long
def test_three_stages_leave_records_and_one_answer_per_question(chain):
    ours = record(chain)
    assert (ours["status"], ours["task"], list(ours["stages"])) == ("finished", "hybrider", list(STAGES))
    for name, metric in STAGES.items():
        assert metric in record(chain / name)["metrics"]
    assert {"dev/em", "dev/f1/passage", "test/hits@1"} <= ours["metrics"].keys()
    assert len(answers(chain / "predictions" / "test.json")) == 12


@pytest.mark.long
def test_predict_answers_questions_without_answers(chain, tmp_path):
    released = json.loads(Sample().read_released("test.json")["test.json"])
    asked = [{key: row[key] for key in ("question_id", "question", "table_id")} for row in released[:5]]
    questions, output = tmp_path / "questions.json", tmp_path / "out.json"
    questions.write_text(json.dumps(asked))
    assert main(["predict", f"run={chain}", f"input={questions}", f"output={output}"]) == 0
    recorded = answers(chain / "predictions" / "test.json")
    assert answers(output) == {row["question_id"]: recorded[row["question_id"]] for row in asked}


@pytest.mark.long
def test_a_question_that_is_linked_to_nothing_is_answered_by_the_nearest_cell(chain):
    example = replace(Sample().examples("test")[0], question="?")
    stages = {}
    for name in STAGES:
        folder = RunFolder(chain / name)
        config = load_config(folder.path)
        stages[name] = TrainedStage(name, load_best(config, folder), config)
    row, column = tfidf_cell_ranking(example.table, "?")[0]
    found = Hybrider().answer(stages, [example], "questions")
    assert found.texts == {example.example_id: example.table.rows[row][column].text}
    assert found.metrics["hits@1"] == float((row, column) in example.answer.coordinates)


NOT_THERE = {
    "system=hybrider": "Hybrider needs stages named ranking, hopping, reading, but the stages are",
    "system.compared_by=selection": "unknown stage 'selection'. Choose from cell_selection, span_reading",
}
"""What a system asks for, and what is said where it is missing."""


@pytest.mark.parametrize("word", NOT_THERE)
def test_the_stages_must_be_those_of_the_system(word, tmp_path, capsys):
    assert main(["train", "experiment=quickstart", word, f"paths.outputs={tmp_path}", "logger=none"]) == 2
    assert NOT_THERE[word] in " ".join(capsys.readouterr().err.split())
    assert not list(tmp_path.iterdir())
