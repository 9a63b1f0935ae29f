"""States between layers and attention weights belong to the call that requests them, and can be learnt from."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from tiny_exports import FRAME, QUESTIONS
from transformers import AutoModel
from transformers import AutoModelForTableQuestionAnswering as ForTables

import mate_cli.models.auto_classes  # noqa: F401 - makes our networks known
from mate_cli import Mate
from mate_cli.tables.table import Cell, Table

LAYERS = {"output_hidden_states": True, "output_attentions": True}
TABLE = Table("t", tuple(map(Cell, FRAME)), tuple(tuple(map(Cell, row)) for row in zip(*FRAME.values(), strict=True)))


def layer_tensors(output):
    return [*output.hidden_states, *output.attentions]


def same_in_threads(call, inputs):
    """How many of many concurrent calls, one thread for each input, return what a call alone returns."""
    alone = [call(one) for one in inputs]

    @torch.no_grad()
    def repeat(place):
        found = (call(inputs[place]) for _ in range(25))
        return sum(
            len(one) == len(alone[place]) and all(map(torch.equal, one, alone[place])) for one in found
        )  # lengths differ where a call collects what another one computes

    with ThreadPoolExecutor(len(inputs)) as pool:
        return sum(pool.map(repeat, range(len(inputs))))


@torch.no_grad()
@pytest.mark.parametrize("name", ["cells", pytest.param("dot", marks=pytest.mark.long)])
def test_calls_in_threads_do_not_mix(exports, given, name):
    model = AutoModel.from_pretrained(exports(name))
    inputs = [{key: tensor[row : row + 1] for key, tensor in given.items()} for row in range(2)]
    assert same_in_threads(lambda one: layer_tensors(model(**one, **LAYERS)), inputs) == 50
    mate = Mate.from_pretrained(exports(name))
    assert same_in_threads(lambda one: layer_tensors(mate(TABLE, one, **LAYERS)), QUESTIONS[:2]) == 50


@torch.no_grad()
def test_a_call_that_fails_leaves_nothing_behind(exports, given):
    model = AutoModel.from_pretrained(exports("cells"))
    with pytest.raises(IndexError):
        model(**given | {"input_ids": given["input_ids"] + 10**6}, **LAYERS)
    assert model(**given).hidden_states is None
    assert len(model(**given, **LAYERS).hidden_states) == model.config.num_hidden_layers + 1


@pytest.mark.parametrize("requested", [{}, {"output_attentions": True}, {"output_hidden_states": True}, LAYERS])
def test_requested_layers_can_be_learnt_from_with_checkpointing(exports, given, requested):
    model = ForTables.from_pretrained(exports("cells"))
    labels = (given["token_type_ids"][..., 1] == 1).long()
    assert (given["attention_mask"] == 0).any()

    def gradients():
        model.zero_grad()
        output = model(**given, labels=labels, **requested)
        layers = [*(output.hidden_states or ()), *(output.attentions or ())]
        (output.loss + sum(one.square().sum() for one in layers)).backward()
        return {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}

    plain = gradients()
    assert any(name.startswith("head.") for name in plain)
    model.activation_checkpointing_enable()
    assert model.is_activation_checkpointing
    again = gradients()
    assert plain.keys() == again.keys()
    for name, gradient in plain.items():
        torch.testing.assert_close(again[name], gradient)
