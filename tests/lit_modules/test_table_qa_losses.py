"""The losses of table questions, with their gradients, against google-research/tapas; and what must not change them."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from batches import one_table, pad
from golden import tapas
from hypothesis import given
from hypothesis import strategies as st

from mate_cli.lit_modules.losses import (
    TableAnswerLoss,
    answer_loss,
    expected_result,
    free_selection_loss,
    share_among_tokens,
)
from mate_cli.models.base.table_encoder import EncoderOutput
from mate_cli.models.heads.scores import Score
from mate_cli.models.heads.table_answer import HeadOptions, TableAnswerHead
from mate_cli.tokenization.layout import TableBatch

GOLDEN = np.load(tapas("g4_losses.npz"))
ELSEWHERE = {"span", "boundary"}
"""Cases of the reader of spans; `test_heads.py` checks the first, the second is not built."""

CASES = {name: case for name, case in json.loads(tapas("g4_cases.json").read_text()).items() if name not in ELSEWHERE}
ANSWERING = [name for name, case in CASES.items() if not case.get("disable_per_token_loss")]
REAL = torch.from_numpy(GOLDEN["in/input_mask"]) == 1
TOLERANCE = {"rtol": 1e-4, "atol": 2e-5}
NEAR_NO_LOGIT = {"rtol": 1e-4, "atol": 1e-3}
"""32 bits resolve numbers near 10,000 no better."""


def golden(name):
    return torch.from_numpy(GOLDEN[name])


def batch() -> TableBatch:
    ids = {name: golden(f"in/{name}").long() for name in ("segment_ids", "column_ids", "row_ids", "label_ids")}
    zero = torch.zeros_like(ids["row_ids"])
    names = ["input_ids", "previous_labels", "column_ranks", "inverse_column_ranks", "numeric_relations"]
    return TableBatch(
        **ids,
        **dict.fromkeys([*names, "position_ids"], zero),
        attention_mask=REAL.long(),
        numeric_values=golden("in/numeric_values"),
        answer_numbers=golden("in/answer"),
        aggregation_ids=golden("in/aggregation_function_id").long(),
        class_ids=golden("in/classification_class_index").long(),
    )


def options(case: dict) -> HeadOptions:
    return HeadOptions(
        temperature=case.get("temperature", 1.0),
        select_one_column=case.get("select_one_column", True),
        allow_empty_column_selection=case.get("allow_empty_column_selection", True),
        average_logits_per_cell=case.get("average_logits_per_cell", False),
        zero_cell_head=False,
        aggregations=case.get("num_aggregation_labels", 0),
        max_rows=case.get("max_num_rows", 64),
        max_columns=case.get("max_num_columns", 32),
    )


def criterion(case: dict) -> TableAnswerLoss:
    weak = case.get("use_answer_as_supervision", False)
    return TableAnswerLoss(
        aggregation="none" if not case.get("num_aggregation_labels") else "weak" if weak else "supervised",
        cell_selection_preference=case.get("cell_select_pref", 0.5),
        huber_delta=case.get("huber_loss_delta", 1.0),
        answer_loss_cutoff=case.get("answer_loss_cutoff"),
        normalise_answer_loss=case.get("use_normalized_answer_loss", False),
        average_approximation=case.get("average_approximation_function", "ratio"),
        aggregation_temperature=1.0,
        aggregation_importance=1.0,
        answer_importance=1.0,
        positive_weight=10.0,
        label_weighting="released",
    )


def head(case: dict) -> TableAnswerHead:
    made = TableAnswerHead(16, options(case))
    layers = {"": made.cells, "column_": made.columns}
    with torch.no_grad():
        for name, layer in layers.items():
            if layer is not None:
                layer.weight.copy_(golden(f"weights/{name}output_weights")[None])
                layer.bias.copy_(golden(f"weights/{name}output_bias"))
        if made.aggregation is not None:
            made.aggregation.weight.copy_(golden("weights/output_weights_agg"))
            made.aggregation.bias.copy_(golden("weights/output_bias_agg"))
    return made


class Reference:
    """One case, with padding in the question's cell, as the reference has it: it decides what column 0 scores."""

    def __init__(self, name: str) -> None:
        self.states = golden("in/x").requires_grad_()
        self.batch, self.criterion = batch(), criterion(CASES[name])
        unpadded = replace(self.batch, attention_mask=torch.ones(4, 32).long())
        self.logits = head(CASES[name])(EncoderOutput(self.states, golden("in/pooled"), unpadded))


@pytest.mark.parametrize("name", ANSWERING)
def test_scores_equal_the_reference(name):
    case = Reference(name)
    final = case.logits.final()
    torch.testing.assert_close(final, golden(f"{name}/logits"), **NEAR_NO_LOGIT)
    torch.testing.assert_close(case.logits.probabilities() * REAL, golden(f"{name}/probs"), **TOLERANCE)
    assert final.isfinite().all()
    if f"{name}/logits_aggregation" in GOLDEN:
        torch.testing.assert_close(case.logits.aggregation, golden(f"{name}/logits_aggregation"), **TOLERANCE)


@pytest.mark.parametrize("name", ["sqa", "rows_clipped"])
def test_columns_and_cells_equal_the_reference(name):
    case = Reference(name)
    torch.testing.assert_close(case.logits.columns, golden(f"{name}/column_logits"), **NEAR_NO_LOGIT)
    torch.testing.assert_close(case.logits.tokens, golden(f"{name}/token_logits"), **TOLERANCE)
    losses = case.criterion.selection(case.logits, case.batch)
    torch.testing.assert_close(losses, golden(f"{name}/per_example_selection_loss"), rtol=1e-5, atol=2e-5)
    mask = case.logits.grid.means(case.batch.attention_mask.float()).flatten(1)
    torch.testing.assert_close(mask, golden(f"{name}/cell_mask"), **TOLERANCE)


@pytest.mark.parametrize("name", [name for name in ANSWERING if name != "multi_column_masked"])
def test_losses_equal_the_reference(name):
    case = Reference(name)
    losses = case.criterion(case.logits, case.batch)
    torch.testing.assert_close(losses.mean(), golden(f"{name}/total_loss"), rtol=1e-5, atol=2e-5)
    if f"{name}/grad_x" in GOLDEN:
        losses.mean().backward()
        torch.testing.assert_close(case.states.grad, golden(f"{name}/grad_x"), rtol=1e-3, atol=2e-5)


def test_a_loss_of_labelled_examples_and_of_classes_equals_the_reference():
    case = Reference("multi_column_masked")
    selection = case.criterion(case.logits, case.batch)
    labelled = (case.batch.label_ids.sum(-1) > 0).float()
    total = (selection * labelled).mean() + class_losses().mean()
    torch.testing.assert_close(total, golden("multi_column_masked/total_loss"), rtol=1e-5, atol=2e-5)


def class_losses() -> torch.Tensor:
    layer = Score(16, 2)
    with torch.no_grad():
        layer.weight.copy_(golden("weights/output_weights_cls"))
        layer.bias.copy_(golden("weights/output_bias_cls"))
        logits = layer(golden("in/pooled"))
    torch.testing.assert_close(logits, golden("tabfact/logits_cls"), **TOLERANCE)
    return torch.nn.functional.cross_entropy(logits, batch().class_ids, reduction="none")


def test_losses_of_classes_equal_the_reference():
    losses = class_losses()
    torch.testing.assert_close(losses.mean(), golden("tabfact/total_loss"), **TOLERANCE)
    weights = torch.where(batch().class_ids == 1, 2.5, 1.0)
    torch.testing.assert_close((losses * weights).mean(), golden("tabfact_weighted/total_loss"), **TOLERANCE)


@pytest.mark.parametrize("name", [name for name in ANSWERING if f"{name}/expected_result" in GOLDEN])
def test_parts_of_weak_supervision_equal_the_reference(name):
    case = Reference(name)
    computed = case.criterion.must_compute(case.logits, case.batch)
    assert computed.tolist() == (GOLDEN[f"{name}/aggregate_mask"] == 1).tolist()
    result = case.criterion.result(case.logits, case.batch)
    torch.testing.assert_close(result, golden(f"{name}/expected_result"), **TOLERANCE)
    answer = case.criterion.answer(case.logits, case.batch, computed)
    torch.testing.assert_close(answer, golden(f"{name}/regression_loss"), **TOLERANCE)
    kept = case.criterion.within_cutoff(torch.ones(4), answer) > 0
    assert kept.tolist() == (GOLDEN[f"{name}/large_answer_loss_mask"] == 1).tolist()


def test_cells_share_their_probability_as_in_the_reference():
    shares = share_among_tokens(torch.ones(4, 32), batch().row_ids, batch().column_ids)
    body = batch().in_body
    torch.testing.assert_close(1 / shares[body], golden("in/numeric_values_scale")[body])


@st.composite
def random_examples(draw):
    """Single examples without padding, with states, labels, numbers and answers of every kind."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return [one_example(random) for _ in range(draw(st.integers(2, 4)))]


def one_example(random: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor, TableBatch]:
    """States [1, T, 16], pooled [1, 16] and the batch of one table; some are beyond the grid of the golden cases."""
    rows, columns = int(random.integers(1, 7)), int(random.integers(1, 5))
    alone = pad([one_table(random, int(random.integers(1, 6)), rows, columns, 3)])
    tokens = alone.input_ids.shape[1]
    labels = (random.random((1, tokens)) < random.choice([0.0, 0.2])) & alone.in_body.numpy()
    values = np.where(random.random((1, tokens)) < 0.5, random.normal(size=(1, tokens)), np.nan)
    answer = random.choice([np.nan, 1.5])
    alone = replace(
        alone,
        label_ids=torch.from_numpy(labels).long(),
        numeric_values=torch.from_numpy(values.astype(np.float32)),
        answer_numbers=torch.tensor([answer], dtype=torch.float32),
        aggregation_ids=torch.from_numpy(random.integers(-1, 4, 1)),
    )
    draw = lambda *shape: torch.from_numpy(random.normal(size=shape).astype(np.float32))  # noqa: E731
    return draw(1, tokens, 16), draw(1, 16), alone


def together(examples, extra: int) -> EncoderOutput:
    """One padded batch; padding holds zeros, numbers that are none, and states that nothing may depend on."""
    length = max(states.shape[1] for states, _, _ in examples) + extra

    def padded(tensors, fill):
        return torch.cat([torch.nn.functional.pad(t, (0, length - t.shape[1]), value=fill) for t in tensors])

    states = torch.full((len(examples), length, 16), 5.0)
    for row, (own, _, _) in enumerate(examples):
        states[row, : own.shape[1]] = own[0]
    fields = {}
    for name, tensor in examples[0][2].tensors().items():
        tensors = [batch.tensors()[name] for _, _, batch in examples]
        fill = math.nan if name == "numeric_values" else 0
        fields[name] = padded(tensors, fill) if tensor.ndim == 2 else torch.cat(tensors)
    return EncoderOutput(states, torch.cat([pooled for _, pooled, _ in examples]), TableBatch(**fields))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ANSWERING)
@given(examples=random_examples(), extra=st.integers(0, 3))
def test_neither_padding_nor_the_order_of_a_batch_matters(name, examples, extra):
    scored, learnt = head(CASES[name]), criterion(CASES[name])

    def losses(found, more):
        output = together(found, more)
        return learnt(scored(output), output.batch)

    alone = torch.cat([losses([example], 0) for example in examples])
    assert alone.isfinite().all()
    torch.testing.assert_close(losses(examples, extra), alone, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(losses(examples[::-1], extra).flip(0), alone, rtol=1e-5, atol=1e-4)


def test_the_intended_weight_is_that_of_answers_only():
    logits, labels = torch.tensor([[0.0, 0.0, 0.0, 9.0]]), torch.tensor([[1, 0, 0, 0]])
    real = torch.tensor([[True, True, True, False]])
    options = {"positive_weight": 4.0}
    intended = free_selection_loss(logits, labels, real, weighting="intended", **options)
    released = free_selection_loss(logits, labels, real, weighting="released", **options)
    assert intended.item() == pytest.approx(math.log(2) * (4 + 1 + 1) / 3)
    assert released.item() == pytest.approx(math.log(2) * 4)


def test_expected_averages_are_right_for_certain_cells():
    certain, values = torch.tensor([[1.0, 1.0, 0.0]]), torch.tensor([[2.0, 4.0, math.inf]])
    for place, expected in enumerate([6.0, 3.0, 2.0]):
        aggregation = torch.nn.functional.one_hot(torch.tensor([place]), 3).float()
        for approximation in ("ratio", "first_order", "second_order"):
            result = expected_result(certain, values, aggregation, approximation)
            assert result.item() == pytest.approx(expected), (place, approximation)


def test_second_order_is_nearer_to_the_true_average_of_chance():
    """Two cells of values 1 and 3, each selected in half of all cases: (0 + 1 + 3 + 2) / 4."""
    chance, values, average = torch.tensor([[0.5, 0.5]]), torch.tensor([[1.0, 3.0]]), torch.tensor([[0.0, 1.0, 0.0]])
    first, second = (expected_result(chance, values, average, f"{name}_order").item() for name in ("first", "second"))
    assert first == pytest.approx(4 / 3)
    assert first < second <= 1.5


def test_answers_that_are_not_computed_teach_nothing():
    expected = torch.tensor([5.0, 5.0], requires_grad=True)
    losses = answer_loss(expected, torch.tensor([math.nan, 2.0]), torch.tensor([False, True]), delta=1.0)
    losses.sum().backward()
    assert losses.tolist() == [0.0, 2.5]
    assert expected.grad.tolist() == [0.0, 1.0]
