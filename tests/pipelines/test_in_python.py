"""What `mate` does, called from Python: train a run, and ask its network."""

import copy
import functools
import inspect
import json
import random
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas
import pytest
import torch
from tiny_exports import FRAME, QUESTIONS
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

import mate_cli
import mate_cli.models.auto_classes
from mate_cli.errors import ConfigError, DataError, MateError, RunError
from mate_cli.metrics.calibration import Calibration
from mate_cli.pipelines.inference.pretrained_encoder import EncodedTables


@pytest.fixture(scope="module")
def mate(exports):
    return mate_cli.Mate.from_pretrained(exports("cells"))


def test_an_answer_is_that_of_the_command(exports, mate, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "table.csv"
    pandas.DataFrame(FRAME).to_csv(path, index=False)
    words = [f"checkpoint={exports('cells')}", f"table={path}", "output=answers.json", "paths.cache=cache"]
    from mate_cli.cli.app import main

    assert main(["predict", *words, *(f"question={text}" for text in QUESTIONS)]) == 0
    wanted = [one["answer"] for one in json.loads((tmp_path / "answers.json").read_text())["answers"]]
    frame = pandas.DataFrame(FRAME)
    for table in (path, str(path), frame, mate_cli.Table.from_pandas(frame)):
        answers = mate.predict(table, QUESTIONS)
        assert [one.answer for one in answers] == wanted
        alone = mate.predict(table, QUESTIONS[0])
        assert (alone.answer, alone.cells) == (answers[0].answer, answers[0].cells)
        assert alone.confidence == pytest.approx(answers[0].confidence)


def test_a_long_table_is_cut_to_rows_that_fit_the_question(mate):
    frame = pandas.DataFrame({"Name": [f"n{row}" for row in range(2000)], "Sold": range(2000)})
    answer = mate.predict(frame, "how much did n1234 sell?")
    assert 1235 in answer.row_numbers
    assert len(answer.row_numbers) < 200
    assert answer.cut[0].endswith("share words or numbers with the question (n1234), and the first others.")


def test_what_cannot_be_answered_is_said(mate, exports, tmp_path):
    with pytest.raises(ConfigError, match="question: is blank"):
        mate.predict(pandas.DataFrame(FRAME), " ")
    with pytest.raises(DataError, match="cannot be read: no such file"):
        mate.predict(tmp_path / "none.csv", "who?")
    with pytest.raises(RunError, match="MaskedLM does not answer with table cells"):
        mate_cli.Mate.from_pretrained(exports("pieces")).predict(pandas.DataFrame(FRAME), "who?")


def test_the_network_stays_as_it_was(exports):
    mate = mate_cli.Mate.from_pretrained(exports("cells"), dtype="bfloat16").train()
    assert mate.predict(pandas.DataFrame(FRAME), QUESTIONS[0]).confidence > 0
    assert mate.training
    assert mate.dtype == torch.bfloat16


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", ["features", "answers", "statements", "feature_statements", "reader"])
def test_half_precision_answers_nearly_the_same(exports, name, dtype):
    half, whole = (mate_cli.Mate.from_pretrained(exports(name), dtype=kind) for kind in (dtype, None))
    if name == "reader":
        one, other = (mate.read("who founded it?", "Karin Rossi founded it.") for mate in (half, whole))
        assert one.confidence == pytest.approx(other.confidence, abs=0.05)
        return
    for one, other in zip(half.predict(FRAME, QUESTIONS), whole.predict(FRAME, QUESTIONS), strict=True):
        assert one.confidence == pytest.approx(other.confidence, abs=0.1)


def test_a_saved_model_opens_again_with_its_type(exports, tmp_path):
    model = AutoModelForQuestionAnswering.from_pretrained(exports("reader"), dtype=torch.bfloat16)
    model.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(exports("reader")).save_pretrained(tmp_path)
    mates = [mate_cli.Mate.from_pretrained(folder) for folder in (exports("reader"), tmp_path)]
    answers = [mate.read("who founded it?", "Karin Rossi founded it.").answer for mate in mates]
    assert answers[0] == answers[1]
    assert mates[1].dtype == torch.float32
    assert mate_cli.Mate.from_pretrained(tmp_path, dtype="auto").dtype == torch.bfloat16


def test_a_calibration_gives_the_confidence(exports, tmp_path):
    folder = shutil.copytree(exports("answers"), tmp_path / "exported")
    calibration = Calibration(((0.0, 0.25), (1.0, 0.75)), 100, 0.5, 0.2, 0.1)
    (folder / "calibration.json").write_text(json.dumps(calibration.to_json()))
    answers = mate_cli.Mate.from_pretrained(folder).predict(FRAME, QUESTIONS)
    assert all(0.25 <= one.confidence <= 0.75 and one.calibrated for one in answers)


def test_a_replaced_head_answers(exports):
    mate = mate_cli.Mate.from_pretrained(exports("statements"))
    before = mate.predict(FRAME, QUESTIONS[0])
    mate.head = copy.deepcopy(mate.head)
    with torch.no_grad():
        mate.head.bias += torch.tensor([9.0, -9.0]) * (1 if before.answer == "entailed" else -1)
    assert mate.predict(FRAME, QUESTIONS[0]).answer != before.answer


def test_random_states_stay_as_they_were(exports):
    states = []
    for read in (False, True):
        torch.manual_seed(5)
        random.seed(5)
        np.random.seed(5)
        if read:
            mate = mate_cli.Mate.from_pretrained(exports("cells"))
            mate.predict(FRAME, QUESTIONS)
            mate(FRAME, QUESTIONS)
        states.append((torch.rand(1).item(), random.random(), np.random.rand()))
    assert states[0] == states[1]


@pytest.mark.parametrize(
    ("use", "problem"),
    [
        (lambda load: load(device="cuda:99"), "device"),
        (lambda load: load(device="nowhere"), "device"),
        (lambda load: load().predict(FRAME, [None]), "is not a question"),
        (lambda load: mate_cli.Mate("exported"), "Mate: parts is missing. Give Parts: see help.Mate."),
        (lambda load: load().predict(5, "who?"), "int is not a table"),
        (lambda load: load().predict({"a": ["x"], "b": []}, "who?"), "a table"),
        (lambda load: load()(FRAME, []), "0 questions"),
        (lambda load: load().batches(FRAME, "who?", batch_size=0), "batch_size"),
    ],
)
def test_a_mistake_is_an_error_of_mate(exports, use, problem):
    with pytest.raises(MateError, match=problem) as caught:
        use(lambda **options: mate_cli.Mate.from_pretrained(exports("cells"), **options))
    assert "\n" not in str(caught.value)


METHODS = [
    functools.partial(method, None)
    for owner in (mate_cli.Mate, EncodedTables)
    for name, method in vars(owner).items()
    if inspect.isfunction(method) and not name.startswith("_")
]
API = [mate_cli.train, mate_cli.Table.from_pandas, mate_cli.Mate.from_pretrained, *METHODS]
REQUIRED = {"arguments": [], "name": "x", "frame": pandas.DataFrame(), "table": FRAME, "tables": FRAME}
REQUIRED |= {"question": "who?", "questions": "who?", "row": 0, "column": 0}


@pytest.mark.parametrize("function", API, ids=lambda one: getattr(one, "func", one).__qualname__)
def test_an_argument_of_another_type_is_an_error_of_mate(function):
    parameters = inspect.signature(function).parameters.values()
    required = {one.name: REQUIRED[one.name] for one in parameters if one.default is inspect.Parameter.empty}
    checked = [one.name for one in parameters if one.annotation not in ("Any", "Tables")]
    wrong = [({name: object()}, name) for name in checked] + [({"other": 5}, "other")]
    for options, name in wrong:
        with pytest.raises(MateError, match=rf": {name} is .*(Give|no such argument)"):
            function(**required | options)
    if required:
        with pytest.raises(MateError, match=r" is missing\. Give"):
            function()


def test_no_question_has_no_answer(mate):
    assert mate.predict(FRAME, []) == []


def test_training_in_another_thread_gives_the_record_back(tmp_path):
    words = ["experiment=quickstart_cells", "debug=fast", "logger=none", f"paths.outputs={tmp_path}", "name=a"]
    with ThreadPoolExecutor(1) as pool:
        record = pool.submit(mate_cli.train, [*words, f"paths.cache={tmp_path}"]).result()
    assert (record.status, record.experiment) == ("finished", "quickstart_cells")
    assert record.folder == tmp_path / "train/quickstart_cells/a"
    assert record.metrics["dev/hits@1"] >= 0
    assert isinstance(mate_cli.Mate.from_pretrained(record.folder), torch.nn.Module)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["experiment=quickstart_cells", "optimizer.lr=fast"], "optimizer.lr"),
        (["experiment=quickstart_cells", "hydra/launcher=joblib"], "hydra/launcher=joblib: applies to sweeps only"),
        (["experiment=quickstart_cels"], "Did you mean|quickstart_cells"),
        ("experiment=quickstart_cells", "arguments is 'experiment=quickstart_cells'"),
        ([5], "arguments is "),
        (None, "arguments is None"),
        (["-m", "experiment=quickstart_cells"], "-m: mate_cli.train takes overrides only. Call it once for each run"),
    ],
)
def test_what_cannot_be_trained_is_raised(words, problem, tmp_path):
    with pytest.raises(ConfigError, match=problem):
        mate_cli.train([*words, f"paths.outputs={tmp_path}/o"] if isinstance(words, list) else words)
    assert not list(tmp_path.iterdir())
