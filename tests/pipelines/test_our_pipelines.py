"""Our pipelines as people use those of transformers: halves, batches, streams, and saved ones."""

import json
import shutil

import pytest
import torch
from finished_runs import here
from tiny_exports import FRAME, QUESTIONS
from transformers import AutoModelForQuestionAnswering as ForReading
from transformers import AutoTokenizer, pipeline
from transformers.pipelines.pt_utils import KeyDataset

from mate_cli import Mate
from mate_cli.errors import ConfigError, DataError
from mate_cli.metrics.calibration import Calibration
from mate_cli.pipelines.inference.table_answering import CellReading, TableAnswering
from mate_cli.pipelines.inference.tables import load_model

pandas = pytest.importorskip("pandas")
KINDS = {"statements": "text-classification"}
READING = [
    {"question": "who founded it?", "context": "It was founded by Karin Rossi in 1912.", "cell": "Castle College"},
    {"question": "when?", "context": ["A mill stands near it.", "It burnt down in 1930."], "cell": "The old mill"},
    {"question": "what is it called?", "context": (), "cell": "Castle College"},
]


def answering(folder, name="cells", **options):
    kind = KINDS.get(name, "table-question-answering")
    return pipeline(kind, model=str(folder), pipeline_class=TableAnswering, **options)


def cell_answers(answers):
    return [(one["answer"], one["coordinates"], one.get("aggregator")) for one in answers]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["features", "answers", "statements", "reader"])
def test_halves(exports, name, dtype):
    if name == "reader":
        model = ForReading.from_pretrained(exports(name), dtype=dtype)
        (answer, *_), wanted = CellReading(model=model)(READING), CellReading(model=model.float())(READING)[0]
        assert answer["score"] == pytest.approx(wanted["score"], abs=0.05)
        return
    half = answering(exports(name), name, dtype=getattr(torch, dtype))
    assert half.model.dtype == getattr(torch, dtype)
    whole = answering(exports(name), name)(FRAME, QUESTIONS)
    for one, wanted in zip(half(FRAME, QUESTIONS), whole, strict=True):
        assert one["confidence"] == pytest.approx(wanted["confidence"], abs=0.1)


def test_statements_with_features_in_halves(exports):
    half = answering(exports("feature_statements"), "statements", dtype=torch.bfloat16)
    assert {one["answer"] for one in half(FRAME, QUESTIONS)} <= {"refuted", "entailed"}


class Rows(torch.utils.data.Dataset):
    """A dataset that never says that it ends."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, place):
        return self.rows[place % len(self.rows)]


@pytest.mark.parametrize("name", ["cells", pytest.param("features", marks=pytest.mark.long)])
def test_batches_and_streams(exports, name):
    ours = answering(exports(name))
    asked = [{"table": FRAME, "query": question} for question in QUESTIONS]
    alone = [ours(one) for one in asked]
    sizes = []
    ours.model.encoder.register_forward_pre_hook(lambda _, given: sizes.append(len(given[0].input_ids)))
    for given in (asked, tuple(asked), [{"table": FRAME, "query": QUESTIONS}]):
        sizes.clear()
        found = ours(given, batch_size=2)
        assert sizes == [2, 1]
        assert cell_answers(found) == cell_answers(alone)
        assert [one["confidence"] for one in found] == pytest.approx([one["confidence"] for one in alone], rel=1e-4)
    streams = [Rows(asked), KeyDataset([{"x": one} for one in asked], "x"), (one for one in asked), iter(asked)]
    for stream in streams:
        found = ours(stream, batch_size=2)
        assert not isinstance(found, list)
        assert cell_answers(found) == cell_answers(alone)
    taken = []
    endless = (taken.append(place) or asked[place % 3] for place in range(10**9))
    assert next(iter(ours(endless)))["answer"] == alone[0]["answer"]
    assert len(taken) < 4
    several = answering(exports(name), batch_size=3)
    assert cell_answers(several(FRAME, QUESTIONS)) == cell_answers(alone)


def test_nothing_and_what_is_no_question(exports):
    ours = answering(exports("cells"))
    assert ours([]) == ours(FRAME, []) == ours({"table": FRAME, "query": []}) == []
    assert list(ours(one for one in ())) == []
    for table, query in ((FRAME, ""), (FRAME, ["which?", ""]), (None, "which?"), ([FRAME], None), ("table.csv", None)):
        with pytest.raises(DataError, match="a table and a question are needed"):
            ours(table, query)
    with pytest.raises(DataError, match="a table and a question are needed"):
        ours(pandas.DataFrame(FRAME))
    for stream in ([{"table": FRAME, "query": "which?"}], iter([{"table": FRAME, "query": "which?"}])):
        with pytest.raises(ConfigError, match="batch_size: is 0"):
            ours(stream, batch_size=0)
    with pytest.raises(TypeError, match="does not accept top_k"):
        ours(FRAME, "which?", top_k=3)


def test_a_reader_reads_batches_and_streams(exports):
    reader = CellReading(model=ForReading.from_pretrained(exports("reader")))
    alone = [reader(one) for one in READING]
    for found in (reader(READING, batch_size=3), list(reader(Rows(READING), batch_size=2))):
        assert [one["answer"] for one in found] == [one["answer"] for one in alone]
        assert [one["score"] for one in found] == pytest.approx([one["score"] for one in alone], rel=1e-4)
    assert reader([]) == []


def test_a_saved_pipeline_opens_again(exports, tmp_path):
    folder = tmp_path / "exported"
    shutil.copytree(exports("answers"), folder)
    calibration = Calibration(((0.0, 0.25), (1.0, 0.75)), 100, 0.5, 0.2, 0.1)
    (folder / "calibration.json").write_text(json.dumps(calibration.to_json()))
    first = answering(folder)
    wanted = first(FRAME, QUESTIONS)
    first.save_pretrained(tmp_path / "saved")
    assert answering(tmp_path / "saved")(FRAME, QUESTIONS) == wanted
    assert all(0.25 <= one["confidence"] <= 0.75 for one in wanted)
    theirs = AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert type(theirs).__name__ == "TapasTokenizer"
    encoders = [Mate.from_pretrained(one) for one in (folder, tmp_path / "saved")]
    with torch.no_grad():
        states = [one(pandas.DataFrame(FRAME), QUESTIONS[0]).last_hidden_state for one in encoders]
    assert torch.equal(*states)
    model = load_model(None, str(tmp_path / "saved"), here(tmp_path / "cache"))
    assert model.calibration == calibration


def test_a_saved_reader_opens_again(exports, tmp_path):
    reader = CellReading(model=ForReading.from_pretrained(exports("reader"), dtype=torch.bfloat16))
    reader.save_pretrained(tmp_path / "saved")
    again = CellReading(model=ForReading.from_pretrained(tmp_path / "saved"))
    assert again.model.dtype == torch.bfloat16
    assert again(READING) == reader(READING)
    assert Mate.from_pretrained(tmp_path / "saved").dtype == torch.float32
    assert Mate.from_pretrained(tmp_path / "saved", dtype="auto").dtype == torch.bfloat16
