"""How far a step moves the output: alike at any depth for DT-Fixup alone."""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from depth import VARIANTS, DepthBenchmark

from mate_cli.attention.base import AttentionPlan
from mate_cli.papers.dt_fixup.models.schemes import scaled_weights

SMALL = DepthBenchmark(layers=[2, 24], variants=list(VARIANTS), draws=4)


def growth(name):
    few, many = (SMALL.change(name, layers) for layers in SMALL.layers)
    return many / few


def moved(stack, direction, rate):
    """How far the output moves in a direction by one step of SGD, by its rate."""
    stack.change(direction)
    with torch.no_grad():
        before = (stack(stack.batch) * direction).sum()
        for parameter in stack.parameters():
            if parameter.grad is not None:
                parameter.add_(parameter.grad, alpha=rate)
        return float(((stack(stack.batch) * direction).sum() - before) / rate)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", VARIANTS)
def test_only_dt_fixup_is_as_calm_with_24_layers_as_with_2(name):
    """T-Fixup without its condition on inputs grows as the root of the depth, by 3.5."""
    if name == "dt_fixup":
        assert 0.5 < growth(name) < 2
    else:
        assert growth(name) > (2.5 if name in ("t_fixup", "admin") else 4)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("relations", [False, True])
@pytest.mark.parametrize("name", VARIANTS)
def test_dt_fixup_alone_keeps_the_condition_of_theorem_3_2(name, relations):
    """By its factor N times the left side is 1 in the first layer, but for what matrices draw; others grow with N."""
    benchmark = replace(SMALL, relations=relations)
    few, many = (benchmark.bound(name, layers) for layers in SMALL.layers)
    if name == "dt_fixup":
        assert 0.5 < few < 2
        assert many == pytest.approx(few, rel=0.25)
    else:
        assert min(few, many / 20) > 2


def test_the_left_side_is_that_of_the_paper():
    """Equations 7 and 8, written out for a layer of one head and width 1, whose matrices are numbers."""
    for relations in (False, True):
        benchmark = DepthBenchmark(
            layers=[1], variants=["no_norm"], width=1, heads=1, inner=1, tokens=3, relations=relations
        )
        stack, _ = benchmark.stack("no_norm", 1, 5)
        (layer,) = stack.layers.encoder.layers
        value, output, inner, outer, *table = (weight.detach().clone() for weight in scaled_weights(layer))
        x = float(stack.inputs.abs().max())
        between = stack.inputs + layer.attention["output"].dense(
            layer.attention["self"](stack.inputs, AttentionPlan(layer.spec.pattern, stack.batch), None)
        )
        y = float(between.detach().abs().max())
        v, w, v2, w2 = map(float, (value, output, inner, outer))
        r = float(table[0].square().mean().sqrt()) if relations else 0.0
        of_attention = v**2 * x**2 + 2 * abs(v) * r * x + r**2 + w**2 * (x**2 + relations)
        assert stack.bound() == pytest.approx(of_attention + (v2**2 + w2**2) * y**2)


def test_the_squared_gradient_is_what_a_small_step_changes():
    stack, direction = SMALL.stack("dt_fixup", 3, 1)
    before = [parameter.clone() for parameter in stack.parameters()]
    assert moved(deepcopy(stack), direction, 1e-6) == pytest.approx(stack.change(direction), rel=1e-3)
    torch.testing.assert_close([*stack.parameters()], before, rtol=0, atol=1e-12)


@pytest.mark.long
def test_the_script_shows_tables_and_writes_a_figure(measured_by):
    small = ["layers=[2,4]", "variants=[standard,dt_fixup]", "width=8", "heads=2", "inner=8", "tokens=4", "draws=1"]
    shown, metrics, folder = measured_by("depth", *small)
    assert "Change of the output by one step of SGD" in shown
    assert "Theorem 3.2" in shown
    assert {"depth/dt_fixup/2/change", "depth/standard/4/change", "depth/dt_fixup/4/bound"} <= set(metrics)
    assert "layers" in (folder / "depth.svg").read_text()
