"""Questions of a conversation are asked one after the other, each with what was answered before."""

import json
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.data.datasets.hybridqa.reader import Sample
from mate_cli.data.loading.table_data_module import LoaderOptions, TableDataModule
from mate_cli.lit_modules.base import Selection, TableTask, TaskSpec
from mate_cli.metrics.calibration import CALIBRATION, Calibration
from mate_cli.models.base.table_encoder import TaskContext
from mate_cli.models.initialization.initial_weights import InitialWeights, LoadReport
from mate_cli.models.tapas import Tapas
from mate_cli.pipelines.assembly import Parts
from mate_cli.pipelines.evaluation import evaluation
from mate_cli.pipelines.evaluation.evaluation import evaluate, save_result
from mate_cli.runs.configuration import Hardware
from mate_cli.runs.record import RunFolder
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer

TABLE = Table("t", (Cell("place"),), tuple((Cell(f"place {n}"),) for n in range(6)))
HARDWARE = Hardware(accelerator="cpu", precision="32-true", micro_batch=8, workers=0, threads=None)


@dataclass(frozen=True)
class Next:
    example_id: str
    row: int


class NextRow(TableTask[TableExample, Next]):
    """Answers with the row after the previous answer's, and with row 1 where there is none."""

    spec = TaskSpec("dev/accuracy")

    def output_loss(self, output, head, encoder):
        raise NotImplementedError

    def predictions(self, output, given):
        batch = output.batch
        last = (batch.row_ids * batch.previous_labels).amax(1)
        return [Next(name, int(row) or 1) for name, row in zip(batch.example_ids, last, strict=True)]

    def score(self, predictions, examples):
        right = sum(self.is_correct(one, examples[one.example_id]) for one in predictions)
        return {"accuracy": right / len(examples), "accuracy/part": 0.0}

    def answers(self, predictions, examples):
        return {one.example_id: str(one.row) for one in predictions}

    def is_correct(self, prediction, example):
        return example.answer.coordinates == ((prediction.row, 0),)

    def selection(self, prediction):
        return Selection(((prediction.row, 0),), (0.9,), 0.9)


def conversation(name, rows):
    """Questions whose answers are these rows."""
    cells = [((row, 0),) for row in rows]
    for turn, cell in enumerate(cells):
        before = cells[turn - 1] if turn else ()
        questions = tuple("and then?" for _ in range(turn))
        yield TableExample(
            f"{name}/{turn}",
            "and then?",
            TABLE,
            Answer((f"place {cell[0][0]}",), cell),
            conversation=name,
            history=questions,
            previous_cells=before,
        )


class Conversations:
    splits = ("dev",)

    def examples(self, split):
        return [*conversation("a", [1, 2, 3]), *conversation("b", [4, 5])]


@pytest.fixture
def parts(tmp_path):
    serializer = TapasSerializer(load_tokenizer("sample"), max_tokens=64)
    loading = LoaderOptions(2, 0, seed=1, reset_positions=False, max_positions=512, cache=tmp_path)
    task = NextRow(TaskContext(Tapas("tiny", attention=Sdpa(), vocab_size=serializer.vocab_size)))
    data = TableDataModule(Conversations(), serializer, loading, list, list)
    return Parts(task, data, serializer, InitialWeights(), LoadReport())


def test_each_question_is_given_the_models_own_answer_to_the_one_before(parts, tmp_path):
    result = evaluate(parts, SimpleNamespace(hardware=HARDWARE), "dev")
    assert result.answers == {"a/0": "1", "a/1": "2", "a/2": "3", "b/0": "1", "b/1": "2"}
    assert result.metrics == {
        "accuracy": 3 / 5,
        "accuracy/part": 0.0,
        "accuracy/gold_previous": 4 / 5,  # told that row 4 was right, it goes on to 5
    }
    assert len(list(tmp_path.glob("*.arrow"))) == 1  # what depends on the weights is not kept


def test_confidences_are_calibrated_where_there_are_enough_answers(parts, tmp_path, monkeypatch):
    result = evaluate(parts, SimpleNamespace(hardware=HARDWARE), "dev")
    with monkeypatch.context() as more:
        more.setattr(evaluation, "MIN_ANSWERS", 6)
        assert save_result(RunFolder(tmp_path), "dev", result) is None
    assert save_result(RunFolder(tmp_path), "test", result) is None
    assert not (tmp_path / CALIBRATION).exists()
    save_result(RunFolder(tmp_path), "dev", result)
    calibration = Calibration.from_json(json.loads((tmp_path / CALIBRATION).read_text()))
    assert (calibration.answers, calibration.accuracy) == (5, 3 / 5)
    assert calibration(0.9) == pytest.approx(3 / 5, abs=0.05)  # all were as sure, so all are worth the same


def test_the_sample_has_no_conversations():
    assert not any(example.history for example in Sample().examples("dev"))
