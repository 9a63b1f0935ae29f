"""BERT's optimizer and schedule against ten steps of google-research/tapas, and its hyper-parameters per task."""

import json

import numpy as np
import pytest
import torch
from configurations import composed
from golden import tapas
from hydra.utils import instantiate
from torch import nn

from mate_cli.cli.config_dir import config_dir
from mate_cli.lit_modules.optimization.adamw import AdamW, BertAdamW
from mate_cli.lit_modules.optimization.schedules import BertLinear

GOLDEN = {name: torch.from_numpy(values) for name, values in np.load(tapas("g12_optimizer.npz")).items()}


def ten_steps(recipe, case: str, **options):
    """Weights, biases and losses along the way, beginning where the reference began."""
    model = nn.Linear(3, 2)
    with torch.no_grad():
        model.weight.copy_(GOLDEN[f"{case}/kernel"][0].T)
        model.bias.copy_(GOLDEN[f"{case}/bias"][0])
    optimizer = recipe(lr=0.01, **options).build(model, fused=False)
    schedule = BertLinear(warmup=0.2).build(optimizer, 20)
    optimizer.step()
    schedule.step()  # in this run of the reference, an update read the step after it had been counted on
    kernels, biases, losses = [model.weight.detach().T.clone()], [model.bias.detach().clone()], []
    for _ in range(10):
        optimizer.zero_grad()
        loss = (model(GOLDEN["x"]) - GOLDEN["y"]).square().mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        kernels.append(model.weight.detach().T.clone())
        biases.append(model.bias.detach().clone())
        losses.append(loss.detach())
    return torch.stack(kernels), torch.stack(biases), torch.stack(losses)


@pytest.mark.parametrize(("case", "clip"), [("plain", None), ("clip", 0.05)])
def test_ten_steps_equal_the_reference(case, clip):
    kernels, biases, losses = ten_steps(BertAdamW, case, clip_value=clip)
    torch.testing.assert_close(kernels, GOLDEN[f"{case}/kernel"], rtol=1e-4, atol=2e-6)
    torch.testing.assert_close(biases, GOLDEN[f"{case}/bias"], rtol=1e-4, atol=2e-6)
    torch.testing.assert_close(losses, GOLDEN[f"{case}/loss"], rtol=1e-4, atol=2e-6)


def test_what_sets_it_apart_shows_in_ten_steps():
    corrected, _, _ = ten_steps(AdamW, "plain")
    assert (corrected - GOLDEN["plain/kernel"]).abs().max() > 0.01, "bias correction"
    unclipped, _, _ = ten_steps(BertAdamW, "clip", clip_value=None)
    assert (unclipped - GOLDEN["clip/kernel"]).abs().max() > 1e-4, "single gradients"


def test_biases_and_norms_do_not_decay():
    model = nn.ModuleDict({"dense": nn.Linear(2, 2), "LayerNorm": nn.LayerNorm(2)})
    for parameter in model.parameters():
        nn.init.ones_(parameter)
        parameter.grad = torch.zeros_like(parameter)
    BertAdamW(lr=0.5, weight_decay=0.1).build(model).step()
    weights = {name: float(parameter.detach().flatten()[0]) for name, parameter in model.named_parameters()}
    assert weights["dense.weight"] == pytest.approx(0.95)
    assert {value for name, value in weights.items() if name != "dense.weight"} == {1.0}


def test_its_state_can_be_saved_and_loaded():
    def moved(between):
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = BertAdamW(lr=0.1).build(model)
        for step in range(4):
            if step == 2:
                optimizer = between(model, optimizer)
            optimizer.zero_grad()
            model(GOLDEN["x"]).square().mean().backward()
            optimizer.step()
        return model.weight.detach()

    def reloaded(model, optimizer):
        fresh = BertAdamW(lr=0.1).build(model)
        fresh.load_state_dict(optimizer.state_dict())
        return fresh

    torch.testing.assert_close(moved(reloaded), moved(lambda model, optimizer: optimizer))


def test_the_configuration_is_that_of_the_reference():
    config = composed(config_dir(), "train", ["optimizer=bert_adamw", "scheduler=bert_linear"])
    recipe = instantiate(config.optimizer)
    hyper = json.loads(tapas("g13_hparams.json").read_text())
    assert (recipe.weight_decay, recipe.eps, tuple(recipe.betas)) == (0.01, 1e-6, (0.9, 0.999))
    assert {task.get("grad_clipping", recipe.clip_value) for task in hyper.values()} == {recipe.clip_value}
    assert config.trainer.gradient_clip == 1.0
