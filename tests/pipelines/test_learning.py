"""What a run on one's own data learns, and what it says where it learns nothing."""

import pytest
import torch
from configurations import composed

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.cli.config.validate import resolve_values
from mate_cli.cli.config_dir import config_dir
from mate_cli.data.loading.collate import collate
from mate_cli.lit_modules.lit_task import LitTask
from mate_cli.lit_modules.table_qa import TableQA
from mate_cli.models.base.table_encoder import TaskContext
from mate_cli.models.tapas import Tapas
from mate_cli.pipelines.run import record_learning
from mate_cli.runs.record import RunRecord
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import REQUIRED, Vocabulary

WORDS = "region sales total of the north south 1 2 0 4 8 7 ##0 ##4 ##7"
VOCABULARY = Vocabulary([*REQUIRED, "[EMPTY]", *WORDS.split()])
TABLE = Table("sales", (Cell("region"), Cell("sales")), ((Cell("north"), Cell("1204")), (Cell("south"), Cell("870"))))
TOTAL = TableExample("total", "total sales", TABLE, Answer(("2074",), number=2074.0))
LOOKUP = TableExample("lookup", "sales of the north", TABLE, Answer(("1204",), ((0, 1),), number=1204.0))
NAMES = dict.fromkeys(("experiment", "dataset", "model", "attention", "init", "task"), "x")
NEVER = "computed numbers never have a loss: all are above task.answer_loss_cutoff, use task.answer_loss_cutoff=null"


def task_of(*words):
    """The task of an experiment, on a tiny network, with the losses of a total and of a number in a cell."""
    options = resolve_values(composed(config_dir(), "train", words))["task"]
    torch.manual_seed(0)
    network = Tapas("tiny", attention=Sdpa(), vocab_size=VOCABULARY.vocab_size)
    task = TableQA(TaskContext(network), **{key: value for key, value in options.items() if key != "_target_"})
    examples = [TOTAL, LOOKUP]
    encodings = TapasSerializer(VOCABULARY, max_tokens=64, sentences=0).encode(examples)
    batch = collate(encodings, reset_positions=False, max_positions=512)
    task.loss(batch).backward()
    logits = task.head(task.encoder(batch))
    return task, task.criterion(logits, batch).tolist(), task.criterion.must_compute(logits, batch).tolist()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("data", ["files", "hub", "sample"])
@pytest.mark.parametrize("experiment", ["wtq_mate", "wtq_tapas", "wikisql_mate"])
def test_other_data_than_the_papers_learn_numbers_of_any_size(experiment, data):
    task, (total, lookup), computed = task_of(f"experiment={experiment}", f"data={data}")
    assert total > 0
    assert lookup > 0
    assert computed == [True, False], "a number in a cell is looked up, unless the network is sure that it is computed"
    assert task.head.aggregation.weight.grad.abs().sum() > 0
    assert task.head.options.temperature == 1, "a colder selection is soon empty for totals, and stays so"
    assert task.loss_counts["computed numbers"].tolist() == [1, 1]


@pytest.mark.parametrize(("data", "cutoff"), [("wtq", 0.664694), ("wikisql", 0.185567)])
def test_the_papers_numbers_hold_for_the_papers_data(data, cutoff):
    task, losses, _ = task_of(f"experiment={data}_mate", "model=tapas")
    assert task.criterion.answer_loss_cutoff == cutoff
    assert not task.criterion.normalise_answer_loss
    assert losses[0] == 0
    assert task.loss_counts["computed numbers"][1] == 0


def test_what_is_typed_wins():
    task, (total, _), _ = task_of("experiment=wtq_mate", "data=files", "task.answer_loss_cutoff=0.01")
    assert task.criterion.answer_loss_cutoff == 0.01
    assert total == 0


def test_counts_go_on_where_a_run_was_interrupted():
    task, *_ = task_of("experiment=wtq_mate")
    module, checkpoint = LitTask(task, None, None, 1, {}), {}
    module.on_save_checkpoint(checkpoint)
    assert checkpoint["losses"] == {"answers in cells": [0, 0], "computed numbers": [2, 0]}
    again = LitTask(task_of("experiment=wtq_mate")[0], None, None, 1, {})
    again.on_load_checkpoint(checkpoint)
    assert again.task.loss_counts["computed numbers"].tolist() == [2, 0]


ROWS = [{"train/loss": 0.5}, {"dev/hits@1": 0.25}, {"train/loss": 0.0}, {"dev/hits@1": 0.0}]
STILL = [{"train/loss": 0.0}, {"dev/hits@1": 0.0}]


@pytest.mark.parametrize(
    ("monitor", "rows", "counts", "said"),
    [
        ("dev/hits@1", ROWS, {}, None),
        ("dev/hits@1", [], {"computed numbers": [0, 0]}, None),
        ("dev/hits@1", ROWS, {"answers in cells": [9, 9], "computed numbers": [9, 1]}, None),
        ("dev/hits@1", ROWS, {"answers in cells": [9, 9], "computed numbers": [9, 0]}, NEVER),
        ("dev/hits@1", STILL, {}, "train/loss is 0 in every step; dev/hits@1 is 0 in every validation"),
        ("dev/perplexity", [{"dev/perplexity": 0.0}], {}, None),
        ("dev/hits@1", [{"dev/hits@1": None}], {}, None),
    ],
)
def test_a_run_says_what_it_never_learnt(monitor, rows, counts, said):
    record = RunRecord(command="train", overrides=[], seed=1, monitor=monitor, **NAMES)
    record_learning(record, [{"step": 1, **row} for row in rows], counts)
    assert record.facts.get("not learnt") == said
