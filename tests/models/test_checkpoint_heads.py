"""Heads from checkpoints of TAPAS and from earlier runs: which are filled, and what is said of the others."""

import numpy as np
import pytest
import torch
from golden import ROOT
from safetensors.torch import save_file
from transformers import TapasConfig, TapasForMaskedLM, TapasForQuestionAnswering

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.errors import CheckpointError, ConfigError
from mate_cli.lit_modules.cell_selection import CellSelection
from mate_cli.lit_modules.entailment import Entailment
from mate_cli.lit_modules.table_qa import TableQA
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.base.table_encoder import TaskContext
from mate_cli.models.initialization.initial_weights import InitialWeights
from mate_cli.models.mate import MateEncoder
from mate_cli.models.tapas import Tapas

GOLDEN = ROOT / "tests" / "golden" / "tensorflow"
VALUES = np.load(GOLDEN / "values.npz")
SIZE = EncoderSize(4, 2, 2, 6, 12)
SHAPE = {
    "vocab_size": 20,
    "hidden_size": 4,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 6,
    "max_position_embeddings": 12,
}
CELLS, COLUMNS, AGGREGATION = (
    (f"head.{part}.weight", f"head.{part}.bias") for part in ("cells", "columns", "aggregation")
)


def task_of(kind=TableQA, cls=Tapas, activation="gelu", **options):
    return kind(TaskContext(cls(SIZE, attention=Sdpa(), vocab_size=20, activation=activation)), **options)


def load(task, path, heads="auto", kind="tapas"):
    return InitialWeights(kind, str(path), heads=heads).load(task.encoder, task)


def from_transformers(folder, cls, **options):
    torch.manual_seed(3)
    model = cls(TapasConfig(**SHAPE, **options))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    model.save_pretrained(folder)
    return model


@pytest.mark.parametrize("heads", ["auto", True])
@pytest.mark.parametrize("cls", [Tapas, MateEncoder])
def test_all_heads_of_questions(tmp_path, heads, cls):
    theirs = from_transformers(tmp_path, TapasForQuestionAnswering, num_aggregation_labels=4)
    task = task_of(cls=cls, aggregation="weak", zero_cell_head=True)
    report = load(task, tmp_path, heads)
    assert (report.new, report.unused) == ((), ())
    assert {*CELLS, *COLUMNS, *AGGREGATION} <= set(report.loaded)
    for ours, weight in ((task.head.cells, "output_weights"), (task.head.columns, "column_output_weights")):
        assert torch.equal(ours.weight[0], getattr(theirs, weight))
        assert torch.equal(ours.bias[0], getattr(theirs, weight.replace("weights", "bias")))
    assert torch.equal(task.head.aggregation.weight, theirs.aggregation_classifier.weight)
    assert torch.equal(task.head.aggregation.bias, theirs.aggregation_classifier.bias)


def test_all_heads_from_tensorflow():
    questions = task_of(activation="gelu_new", aggregation="supervised")
    report = load(questions, GOLDEN, True)
    assert set(report.unused) == {"classifier.weight", "classifier.bias"}
    head = questions.head
    assert np.array_equal(head.cells.weight.detach().numpy()[0], VALUES["output_weights"])
    assert head.columns.bias.item() == VALUES["column_output_bias"]
    assert np.array_equal(head.aggregation.weight.detach().numpy(), VALUES["output_weights_agg"])
    statements = task_of(Entailment, activation="gelu_new")
    assert not load(statements, GOLDEN, True).new
    assert np.array_equal(statements.head.weight.detach().numpy(), VALUES["output_weights_cls"])
    assert np.array_equal(statements.head.bias.detach().numpy(), VALUES["output_bias_cls"])


def test_from_conversations_to_questions_with_aggregations(tmp_path):
    from_transformers(tmp_path, TapasForQuestionAnswering)  # SQA's has none
    task = task_of(aggregation="weak")
    report = load(task, tmp_path)
    assert report.new == AGGREGATION
    assert {*CELLS, *COLUMNS} <= set(report.loaded)
    assert "2 new (head.aggregation.weight, head.aggregation.bias)" in report.summary()
    with pytest.raises(CheckpointError, match=r"head.aggregation.weight of this task is not in it.*init.heads=auto"):
        load(task_of(aggregation="weak"), tmp_path, True)


def test_heads_without_a_place_are_unused(tmp_path):
    from_transformers(tmp_path, TapasForQuestionAnswering, num_aggregation_labels=4)
    report = load(task_of(select_one_column=False), tmp_path)
    assert report.new == ()
    assert set(report.unused) == {
        *("column_output_weights", "column_output_bias"),
        *("aggregation_classifier.weight", "aggregation_classifier.bias"),
    }


@pytest.mark.parametrize("labels", [2, 5])
def test_another_number_of_aggregations_begins_anew(tmp_path, labels):
    from_transformers(tmp_path, TapasForQuestionAnswering, num_aggregation_labels=labels)
    task = task_of(aggregation="weak")
    before = task.head.aggregation.weight.clone()
    report = load(task, tmp_path)
    assert report.new == AGGREGATION
    assert torch.equal(task.head.aggregation.weight, before)


def test_no_heads_when_none_are_wanted(tmp_path):
    from_transformers(tmp_path, TapasForQuestionAnswering)
    task = task_of(zero_cell_head=True)
    report = load(task, tmp_path, False)
    assert report.new == (*CELLS, *COLUMNS)
    assert {"output_weights", "column_output_bias"} <= set(report.unused)
    assert not task.head.cells.weight.any()


def test_a_masked_language_model_has_none(tmp_path):
    from_transformers(tmp_path, TapasForMaskedLM)
    report = load(task_of(), tmp_path)
    assert report.new == ("pooler.dense.weight", "pooler.dense.bias", *CELLS, *COLUMNS)
    assert "cls.predictions.bias" in report.unused
    assert not any(name.startswith("tapas") for name in report.unused)


@pytest.mark.parametrize("heads", ["auto", True])
def test_an_earlier_run_of_ours(tmp_path, heads):
    source, target = task_of(aggregation="weak"), task_of(aggregation="weak", zero_cell_head=True)
    save_file(dict(source.state_dict()), tmp_path / "final.safetensors")
    report = load(target, tmp_path, heads, "path")
    assert (report.new, report.unused) == ((), ())
    assert all(torch.equal(tensor, source.state_dict()[name]) for name, tensor in target.state_dict().items())


def test_what_a_head_makes_of_lexical_features_comes_from_an_earlier_run_of_ours(tmp_path):
    earlier, task = (
        Entailment(TaskContext(MateEncoder(SIZE, attention=Sdpa(), vocab_size=20, lexical_features=True)))
        for _ in range(2)
    )
    save_file(earlier.state_dict(), tmp_path / "model.safetensors")
    report = load(task, tmp_path, kind="path")
    assert (report.new, report.unused) == ((), ())
    for name, tensor in earlier.state_dict().items():
        assert torch.equal(task.state_dict()[name], tensor), name


def test_a_head_that_tapas_has_not_comes_from_an_earlier_run_of_ours(tmp_path):
    source, target = task_of(CellSelection), task_of(CellSelection)
    save_file(dict(source.state_dict()), tmp_path / "final.safetensors")
    before = target.head.score.weight.clone()
    assert "head.score.weight" in load(target, tmp_path, False, "path").unused
    assert torch.equal(target.head.score.weight, before)
    report = load(target, tmp_path, "auto", "path")
    assert (report.new, report.unused) == ((), ())
    assert torch.equal(target.head.score.weight, source.head.score.weight)
    with pytest.raises(ConfigError, match=r"init.heads: this task has no heads"):
        load(target, tmp_path, True, "path")
