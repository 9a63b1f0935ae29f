"""The whole chain to the best answers of HybridQA: how it is put together, and once from end to end on small data."""

import json

import pytest
from finished_runs import finished_run
from table_releases import write

from mate_cli.cli.app import main
from mate_cli.cli.config.resolve import resolve
from mate_cli.data.datasets.hybridqa.reader import SAMPLE_ROOT
from mate_cli.errors import ConfigError, DataError, MateError
from mate_cli.pipelines.stages import validate_later_stages

ANSWERING = ("row_ranking", "cell_selection", "span_reading")
SMALL = [
    *("experiment=hybridqa_best", "debug=fast", "init=random", "init.tokenizer=sample", "model.size=tiny"),
    *("encoding.max_tokens=96", "logger=none", "hardware.threads=1", "stages.row_ranking.data.extra_train=[]"),
    *("stages.cell_selection.data.extra_train=[]", "stages.span_reading.data.extra_train=[]"),
]


@pytest.mark.long
def test_each_stage_begins_with_the_weights_of_the_one_before():
    plan = resolve(["experiment=hybridqa_best"])
    found = {stage.name: (stage.after, stage.init.get("checkpoint")) for stage in plan.stages}
    assert found == {
        "row_ranking": ("rows", None),
        "cell_selection": ("predictions", None),
        "passage_reading": ("weights", None),
        "span_reading": ("predictions", "stages.passage_reading"),
    }
    assert plan.system["cells"] == 5
    configs = {stage.name: stage for stage in plan.stages}
    assert configs["passage_reading"].data["name"] == "squad"
    assert configs["span_reading"].task["negatives"] == 1
    assert configs["cell_selection"].encoding["ranked_by"] == "stages.row_ranking"


def test_steps_can_be_left_out():
    plan = resolve(["experiment=hybridqa_best", "stages.passage_reading=null", "scale=small"])
    assert [stage.init["kind"] for stage in plan.stages] == ["random", "minilm", "minilm"]
    assert {stage.model["size"] for stage in plan.stages[1:]} == {"minilm:2"}
    selector, reader = plan.stages[1:]
    assert (selector.trainer.max_epochs, selector.encoding["max_tokens"]) == (1, 256)
    assert selector.encoding["best_rows"] == 4
    assert reader.task["negatives"] == 1


def test_a_test_of_the_setup_takes_two_steps_a_stage():
    stages = resolve(["experiment=hybridqa_best", "debug=fast", "stages.passage_reading.trainer.max_steps=3"]).stages
    assert [stage.trainer.max_steps for stage in stages] == [2, 2, 3, 2]


ALL_ROWS = ["encoding.best_rows=null", "encoding.ranked_by=null"]


def test_rows_are_ranked_by_a_stage_that_is_there():
    leaving_out = ["experiment=hybridqa_best", "stages.row_ranking=null"]
    with pytest.raises(ConfigError, match=r"no earlier stage named row_ranking ranks rows.*ranked_by=null to read all"):
        resolve(leaving_out)
    assert resolve([*leaving_out, *ALL_ROWS]).stages[0].name == "cell_selection"
    with pytest.raises(ConfigError, match="passes row rankings that no stage uses"):
        resolve(["experiment=hybridqa_best", *ALL_ROWS])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    (root / "hybridqa").symlink_to(SAMPLE_ROOT)
    for file, first in (("train-v1.1.json", 0), ("dev-v1.1.json", 50)):
        paragraphs = []
        for number in range(first, first + 20):
            asked = {"id": str(number), "question": "what flows?", "answers": [{"text": "river", "answer_start": 4}]}
            paragraphs.append({"context": f"The river {number} flows to the sea.", "qas": [asked]})
        write(root / "squad" / file, json.dumps({"data": [{"title": "Rivers", "paragraphs": paragraphs}]}))
    return root


@pytest.mark.sampled(2)
@pytest.mark.parametrize("words", [[], ["stages.passage_reading.data.download=false"]], ids=["auto", "never"])
def test_data_of_a_later_stage_are_missed_before_the_first_trains(words, data, tmp_path, capsys, monkeypatch):
    (tmp_path / "hybridqa").symlink_to(SAMPLE_ROOT)
    monkeypatch.setattr("mate_cli.data.download.fetch_all", no_network)
    words = [*SMALL, *words, f"paths.outputs={tmp_path}", f"paths.cache={tmp_path}"]
    assert main(["train", *words, f"paths.data={tmp_path}"]) == 2
    assert f"{tmp_path / 'squad'}: there is no such" in (shown := capsys.readouterr().err)
    assert f"type: mate data download data=squad data.root={tmp_path / 'squad'}" in shown
    assert not list(tmp_path.glob("train/*/*/row_ranking"))


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("passage_reading.init.tokenizer=absent", "no vocabulary: 'absent'"),
        ("passage_reading.init.checkpoint=absent.safetensors", "absent.safetensors"),
        ("passage_reading.encoding.max_tokens=9000", "encoding.max_tokens=9000 exceeds the"),
        ("span_reading.encoding.max_tokens=9000", "encoding.max_tokens=9000 exceeds the"),
    ],
    ids=str,
)
def test_what_does_not_fit_in_a_later_stage_is_told_before_the_first_trains(word, message, data, tmp_path):
    kind = ["stages.passage_reading.init.kind=path"] * ("checkpoint" in word)
    plan = resolve([*SMALL, f"paths.data={data}", f"paths.cache={tmp_path}", *kind, f"stages.{word}"])
    with pytest.raises(MateError, match=message) as raised:
        validate_later_stages(plan, tmp_path)
    assert str(raised.value).startswith(f"stages.{word.partition('.')[0]}: ")


def no_network(files, root):
    raise DataError("no network")


@pytest.mark.long
def test_data_of_a_finished_stage_are_not_needed_again(tmp_path):
    plan = resolve([*SMALL, f"paths.data={tmp_path}", "data.download=false"])
    (tmp_path / "hybridqa").symlink_to(SAMPLE_ROOT)
    with pytest.raises(DataError, match="squad"):
        validate_later_stages(plan, tmp_path)
    finished_run(tmp_path / "passage_reading", [])
    validate_later_stages(plan, tmp_path)


@pytest.mark.long
def test_one_command_trains_and_answers(data, tmp_path, capsys):
    words = [*SMALL, f"paths.data={data}", f"paths.outputs={tmp_path}", f"paths.cache={tmp_path}"]
    assert main(["train", *words]) == 0
    (folder,) = tmp_path.glob("train/hybridqa_best/*")
    record = json.loads((folder / "record.json").read_text())
    assert (record["status"], record["task"], list(record["stages"])) == (
        "finished",
        "pointr",
        ["row_ranking", "cell_selection", "passage_reading", "span_reading"],
    )
    stages = [json.loads((folder / name / "record.json").read_text()) for name in ANSWERING]
    assert record["parameters"] == sum(stage["parameters"] for stage in stages), "those of the stages that answer"
    assert {"dev/em", "dev/hits@1", "test/f1"} <= record["metrics"].keys()
    learnt = json.loads((folder / "system.json").read_text())
    assert 0 <= learnt["weight"] <= 1
    rows = json.loads((folder / "predictions" / "dev.json").read_text())
    assert max(len(row["cells"]) for row in rows if "cells" in row) == 5
    left_out = ["stages.passage_reading=null"]
    finished = [f"stages.{name}.run={folder / name}" for name in ANSWERING]
    assert [stage.after for stage in resolve(["experiment=hybridqa_best", *left_out, *finished]).stages] == [
        "rows",
        "predictions",
        "predictions",
    ]
    capsys.readouterr()
    folder = folder.rename(tmp_path / "train" / "hybridqa_best" / "moved")
    assert main(["evaluate", f"run={folder}", "split=dev", "hardware.threads=1", f"paths.cache={tmp_path}"]) == 0
    again = json.loads((folder / "evaluation" / "dev.json").read_text())
    assert again == {name: value for name, value in record["metrics"].items() if name.startswith("dev/")}
    assert_answers_about_an_own_table(folder, tmp_path, capsys)
    assert main(["train", *words, f"resume={folder}"]) == 0
    assert "is already finished" in capsys.readouterr().out


def assert_answers_about_an_own_table(folder, tmp_path, capsys):
    passage = {"row": 6, "column": "club", "title": "Lions", "text": "The Lions were founded by Anna Berg in 1902."}
    table = [["club", "year"], *([f"club {year}", year] for year in range(1990, 2000))]
    asked = {"question": "who founded the club of 1996?", "table": table, "passages": [passage]}
    (tmp_path / "own.jsonl").write_text(json.dumps(asked) + "\n")
    output = tmp_path / "answers.json"
    given = [f"input={tmp_path / 'own.jsonl'}", f"output={output}", f"paths.cache={tmp_path}", "hardware.threads=1"]
    assert main(["predict", f"run={folder}", *given]) == 0, capsys.readouterr().err
    (answer,) = json.loads(output.read_text())
    assert answer["question_id"] == "own-1"
    assert answer["pred"]
