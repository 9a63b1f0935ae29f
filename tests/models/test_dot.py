"""The double transformer: against google-research/tapas, and against a TAPAS that reads everything."""

import json
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np
import pytest
import torch
from batches import IDS, batch_from, one_table, pad
from golden import tapas

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.base.table_encoder import EncoderOutput
from mate_cli.models.dot import Dot, TokenScores, topk_token_indices
from mate_cli.models.layers.encoder import FirstState
from mate_cli.models.mate import MateEncoder
from mate_cli.models.tapas import Tapas
from mate_cli.tokenization.layout import TableBatch, cell_position_ids, gather_tokens

GOLDEN = np.load(tapas("g8_dot.npz"))
SETTINGS = json.loads(tapas("g8_config.json").read_text())
KEEP, ROWS, COLUMNS = (SETTINGS[f"max_num_{name}"] for name in ("tokens", "rows", "columns"))
VOCABULARY = SETTINGS["task_config"]["vocab_size"]
TASK, PRUNER = EncoderSize(32, 2, 4, 48, 40), EncoderSize(16, 1, 2, 24, 40)
RENAMED = {
    "previous_labels": "prev_label_ids",
    "inverse_column_ranks": "inv_column_ranks",
    "attention_mask": "input_mask",
}
GENERAL = {"vocab_size": VOCABULARY, "activation": "gelu_new", "attention": Sdpa()}


def golden(name):
    return torch.from_numpy(GOLDEN[name])


def golden_batch():
    fields = {name: golden(f"features/{RENAMED.get(name, name)}").long() for name in IDS}
    return TableBatch(**fields, position_ids=cell_position_ids(fields["row_ids"], fields["column_ids"], 40))


def torch_state(weights, prefix):
    """Variables of TensorFlow below a prefix, as a state dict of ours."""
    state = {}
    for name in (name for name in weights.files if name.startswith(prefix)):
        *parts, last = name.removeprefix(prefix).replace("layer_", "layer.").split("/")
        leaf = {"kernel": "weight", "gamma": "weight", "beta": "bias", "bias": "bias"}.get(last)
        value = weights[name].T if last == "kernel" else weights[name]
        state[".".join([*parts, leaf] if leaf else [*parts, last, "weight"])] = torch.from_numpy(value)
    return {name: value for name, value in state.items() if not name.startswith("pooler") or "pruning" not in prefix}


def golden_network(select, **options):
    """The network of the reference, with its weights."""
    model = Dot(TASK, pruner=partial(Tapas, PRUNER), keep=KEEP, select=select, **GENERAL, **options)
    model.scores = TokenScores(PRUNER.hidden_size, select, max_rows=ROWS, max_columns=COLUMNS)
    if model.learn != "joint":
        model.pruner.pooler = FirstState()
    task = torch_state(np.load(tapas("g3_encoder_weights.npz")), "bert/")
    task = {name: value for name, value in task.items() if name in Tapas(TASK, **GENERAL).state_dict()}
    head = {"tokens": "output", "columns": "column_output"}[select]
    state = task | {f"pruner.{k}": v for k, v in torch_state(GOLDEN, "weights/pruning/bert/").items()}
    state[f"scores.{select}.weight"] = golden(f"weights/pruning/{head}_weights")[None]
    state[f"scores.{select}.bias"] = golden(f"weights/pruning/{head}_bias")[None]
    model.load_state_dict(state)
    return model.eval()


@pytest.mark.parametrize("count", [3, 5, 8])
def test_ranks_and_gathered_tokens_are_those_of_the_reference(count):
    scores, mask = golden("topk/scores"), golden("topk/input_mask") == 1
    found = topk_token_indices(scores.log().masked_fill(~mask, -torch.inf), count)
    # Padding of this case has a score, which it never has in a network: there it takes a place, and what it displaced
    # comes last.
    expected = golden(f"topk/gather_index_k{count}").long().sort(1).values
    assert torch.equal(found, expected)
    assert mask.gather(1, found).all()


@pytest.mark.parametrize("select", ["tokens", "columns"])
@torch.no_grad()
def test_scores_and_what_is_kept_are_those_of_the_reference(select):
    model, batch = golden_network(select), golden_batch()
    output = model(batch)
    case = f"tapas_{select.upper()}_TOP_K"
    real = batch.attention_mask == 1
    early = golden(f"{case}/pruning_sequence_output")
    torch.testing.assert_close(output.early.states[real], early[real], atol=2e-5, rtol=1e-4)
    scores = model.token_scores(batch, output.early)
    everywhere = golden(f"tapas_{select.upper()}_ALL/token_scores")
    torch.testing.assert_close(scores.exp(), everywhere, atol=1e-5, rtol=1e-4)
    short = output.batch
    for name in ("row_ids", "column_ids", "segment_ids", "attention_mask", "input_ids"):
        expected = golden(f"{case}/reduced/{RENAMED.get(name, name)}").long()
        assert torch.equal(getattr(short, name), expected), name
    kept = gather_tokens(scores, short.places).exp()
    torch.testing.assert_close(kept, golden(f"{case}/reduced_token_scores"), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("select", ["tokens", "columns"])
@torch.no_grad()
def test_states_are_those_of_the_reference(select):
    output = golden_network(select)(golden_batch())
    case = f"tapas_{select.upper()}_TOP_K"
    real = output.batch.attention_mask == 1
    expected = golden(f"{case}/task_layer1")
    torch.testing.assert_close(output.states[real], expected[real], atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(output.pooled, golden(f"{case}/task_pooled"), atol=2e-5, rtol=1e-4)


@torch.no_grad()
def test_the_first_tokens_are_those_of_the_reference():
    batch = golden_batch()
    output = Dot(TASK, pruner=partial(Tapas, PRUNER), keep=KEEP, first=True, **GENERAL)(batch)
    assert torch.equal(output.batch.input_ids, golden("first_tokens/reduced/input_ids").long())
    assert output.early is None


SIZE = EncoderSize(32, 2, 4, 48, 512)
TABLES = ((4, 3, 3, 2), (2, 5, 2, 3), (6, 1, 4, 4))
PRUNERS = {
    "tapas": partial(Tapas, PRUNER),
    "mate": partial(MateEncoder, EncoderSize(16, 2, 4, 24, 512), row_head_ratio=0.5),
}


def words(batch):
    shape = batch.input_ids.shape
    random = np.random.default_rng(1).integers(1, 50, shape)
    ids = [getattr(batch, name) for name in ("row_ids", "column_ids", "segment_ids", "attention_mask")]
    return batch_from(*ids, input_ids=random, position_ids=np.tile(np.arange(shape[1]), (shape[0], 1)))


def tables(extra=0):
    random = np.random.default_rng(0)
    return words(pad([one_table(random, *table) for table in TABLES], extra))


def network(pruner="tapas", seed=0, keep=12, **options):
    torch.manual_seed(seed)
    return Dot(SIZE, pruner=PRUNERS[pruner], keep=keep, **GENERAL, **options).eval()


class Given(torch.nn.Module):
    """Scores that do not depend on anything."""

    def __init__(self, scores):
        super().__init__()
        self.scores = scores

    def forward(self, output: EncoderOutput) -> torch.Tensor:
        return self.scores.masked_fill(output.batch.attention_mask == 0, -torch.inf)


def test_with_all_tokens_for_certain_it_is_a_tapas():
    model, batch = network(keep=500), tables()
    model.scores = Given(torch.zeros(batch.input_ids.shape))
    torch.manual_seed(0)
    alone = Tapas(SIZE, **GENERAL).eval()
    alone.load_state_dict({name: value for name, value in model.state_dict().items() if not name.startswith("pruner.")})
    for one in (model, alone):
        one(batch).states.pow(3).sum().backward()
    assert torch.equal(model(batch).states, alone(batch).states)
    expected = {name: p.grad for name, p in alone.named_parameters() if p.grad is not None}
    found = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        assert torch.equal(found[name], gradient), name


@pytest.mark.parametrize("pruner", PRUNERS)
@pytest.mark.parametrize("select", ["tokens", "columns"])
@pytest.mark.parametrize("row_head_ratio", [None, 0.5])
def test_the_loss_of_the_kept_reaches_the_first_layer_of_the_pruner(pruner, select, row_head_ratio):
    model = network(pruner, select=select, row_head_ratio=row_head_ratio)
    output = model(tables())
    assert output.states.shape == (3, 12, 32)
    output.states.pow(3).sum().backward()
    assert model.pruner.encoder.layer[0].intermediate["dense"].weight.grad.abs().max() > 0
    assert model.scores.get_submodule(select).weight.grad.abs().max() > 0


def test_the_question_and_the_best_stay_in_their_order():
    model, batch = network(), tables()
    output = model(batch)
    scores = model.token_scores(batch, output.early)
    for row, places in zip(scores, output.batch.places, strict=True):
        assert places.tolist() == sorted(places.tolist())
        left = set(range(len(row))) - set(places.tolist())
        assert row[places].min() >= row[sorted(left)].max()
    question = (batch.column_ids == 0) & (batch.attention_mask == 1)
    assert (scores[question] == 0).all()
    assert (scores[(batch.column_ids > 0) & (batch.attention_mask == 1)] < 0).all()
    assert (scores[batch.attention_mask == 0] == -torch.inf).all()


def test_of_equal_scores_the_earlier_stay():
    scores = torch.tensor([[0.0, -1.0, -1.0, -1.0, 0.0, -1.0]])
    assert topk_token_indices(scores, 4).tolist() == [[0, 1, 2, 4]]
    assert topk_token_indices(scores, 9).tolist() == [[0, 1, 2, 3, 4, 5]]


@pytest.mark.parametrize("kind", ["cells", "tokens"])
def test_the_score_of_a_column_is_a_mean_over_its_cells_or_its_tokens(kind):
    batch, model = tables(), network(select="columns", column_score=kind)
    early = model.pruner(batch)
    logits = model.scores.columns(early.states).squeeze(-1).double()
    found, other = model.token_scores(batch, early), torch.zeros(())
    for example, columns in enumerate(batch.column_ids):
        for column in columns[columns > 0].unique():
            own = (columns == column) & (batch.attention_mask[example] == 1)
            rows = batch.row_ids[example][own].unique()
            cells = [logits[example][own & (batch.row_ids[example] == row)].mean() for row in rows]
            by_cells = torch.stack(cells).mean().sigmoid().log()
            by_tokens = logits[example][own].sigmoid().log().mean()
            expected = by_cells if kind == "cells" else by_tokens
            torch.testing.assert_close(found[example][own], expected.float().expand(int(own.sum())))
            other = torch.maximum(other, (by_cells - by_tokens).abs().detach())
    assert other > 1e-4, "both are told apart"


def test_padding_stays_out_and_short_examples_are_not_padded():
    model, batch = network(keep=40), tables(extra=30)
    real = batch.attention_mask.sum(1)
    output = model(batch)
    assert output.batch.attention_mask.sum(1).tolist() == real.clamp(max=40).tolist()
    assert network(keep=500)(batch).states.shape[1] == batch.input_ids.shape[1]
    assert not output.states[output.batch.attention_mask == 0].any()


def test_a_token_without_score_is_as_if_it_were_not_there():
    """Theorem A.1: what nobody sees can be left out; here in every layer, as its score is added in every one."""
    batch = tables()
    batch = replace(batch, position_ids=cell_position_ids(batch.row_ids, batch.column_ids, 512))
    unseen = int(((batch.column_ids[0] > 0) & (batch.attention_mask[0] == 1)).nonzero()[-1])
    scores = torch.zeros(batch.input_ids.shape).masked_fill(batch.attention_mask == 0, -torch.inf)
    scores[0, unseen] = -2e4
    real, found = int(batch.attention_mask[0].sum()), []
    one = replace(batch, **{name: tensor[:1, :real] for name, tensor in batch.tensors().items()})
    for keep in (real, real - 1):
        model = network(keep=keep)
        model.scores = Given(scores[:1, :real])
        output = model(one)
        found.append(output.states[0][output.batch.places[0] != unseen])
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("restart", [False, True])
def test_positions_of_what_is_kept_have_no_gaps(restart):
    batch = tables()
    if restart:
        batch = replace(batch, position_ids=cell_position_ids(batch.row_ids, batch.column_ids, 512))
    short = network()(batch).batch
    if restart:
        assert torch.equal(short.position_ids, cell_position_ids(short.row_ids, short.column_ids, 512))
    else:
        assert torch.equal(short.position_ids, torch.arange(12).expand(3, 12))
    assert not torch.equal(short.places, torch.arange(12).expand(3, 12))


def test_options_of_the_task_transformer_hold_for_the_pruner_that_sets_no_own():
    torch.manual_seed(0)
    pruner = partial(Tapas, PRUNER, hidden_dropout=0.3)
    model = Dot(SIZE, pruner=pruner, hidden_dropout=0.2, gradient_checkpointing=True, **GENERAL)
    assert model.pruner.encoder.gradient_checkpointing
    assert model.pruner.embeddings.dropout.p == 0.3
    assert model.embeddings.dropout.p == 0.2


def test_a_choice_without_weights_is_that_of_the_reference_and_teaches_the_scores_nothing():
    model = golden_network("tokens", learn="pruning", hidden_dropout=0.0)
    output = model(golden_batch())
    real = output.batch.attention_mask == 1
    expected = golden("tapas_TOKENS_MASK_TOP_K/task_layer1")
    torch.testing.assert_close(output.states[real], expected[real], atol=2e-5, rtol=1e-4)
    output.states.pow(3).sum().backward()
    assert all(p.grad is None for p in (*model.pruner.parameters(), *model.scores.parameters()))


class Summed(torch.nn.Module):
    """The square of what tokens are scored by, in place of a task."""

    choices: ClassVar = {"tokens": "score"}

    def __init__(self):
        super().__init__()
        self.score = torch.nn.Linear(PRUNER.hidden_size, 1)


def test_a_lent_score_is_trained_and_saved_in_one_place():
    model, head = network(learn="both"), Summed()
    model.tie_token_scorer(head)
    assert list(head.state_dict()) == []
    head.score(model(tables()).early.states).pow(2).sum().backward()
    assert model.scores.tokens.weight.grad.abs().max() > 0
    assert model.auxiliary_encoder is model.pruner
    assert network().auxiliary_encoder is None
