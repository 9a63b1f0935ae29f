"""A rate for what was loaded and another for what is new, and the schedule of DT-Fixup."""

import json

import pytest
import torch
from golden import others
from omegaconf import OmegaConf
from torch import nn

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.lit_modules.cell_selection import CellSelection
from mate_cli.lit_modules.lit_task import build_optimizer, read_recipe
from mate_cli.lit_modules.optimization.adamw import AdamW, BertAdamW
from mate_cli.lit_modules.optimization.schedules import LinearSchedule, PowerSchedule
from mate_cli.models.base.table_encoder import TaskContext
from mate_cli.models.tapas import Tapas
from mate_cli.papers.dt_fixup.models.extra import Extra

FACTORS = {"pretrained": 0.008}


def groups(module, pretrained, name="adamw.AdamW", factors=FACTORS):
    node = {"_target_": f"mate_cli.lit_modules.optimization.{name}", "lr": 5e-4, "factors": factors}
    return build_optimizer(read_recipe(OmegaConf.create(node)), module, pretrained, fused=False)


@pytest.mark.parametrize("name", ["adamw.AdamW", "adamw.BertAdamW"])
def test_every_weight_is_in_one_group_with_the_rate_of_its_part(name):
    task = CellSelection(
        TaskContext(Tapas("tiny", attention=Sdpa(), vocab_size=20, extra=Extra(layers=1, heads=2, inner=8)))
    )
    loaded = {f"encoder.{key}" for key in task.encoder.state_dict() if not key.startswith("extra.")}
    optimizer = groups(task, loaded, name)
    found = {id(p): (group["lr"], group["weight_decay"]) for group in optimizer.param_groups for p in group["params"]}
    trained = {key: p for key, p in task.named_parameters() if p.requires_grad}
    assert len(found) == len(trained) == sum(len(group["params"]) for group in optimizer.param_groups)
    for key, parameter in trained.items():
        new = key.startswith(("head.", "encoder.extra."))
        rate, decay = found[id(parameter)]
        assert rate == pytest.approx(5e-4 if new else 5e-4 * 0.008), key
        assert decay == (0 if key.endswith("bias") or "LayerNorm" in key else 0.01), key
    assert optimizer.param_groups[0]["lr"] == 5e-4


def test_without_factors_groups_are_as_ever():
    module = nn.Linear(3, 2)
    for recipe, name in ((AdamW, "adamw.AdamW"), (BertAdamW, "adamw.BertAdamW")):
        ours, plain = groups(module, {"weight"}, name, None), recipe(lr=5e-4).build(module, fused=False)
        assert ours.state_dict() == plain.state_dict()


def test_the_linear_schedule_learns_from_the_first_step_and_peaks_after_the_warm_up():
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = LinearSchedule(warmup=0.4).build(optimizer, 10)
    rates = []
    for _ in range(11):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert rates == pytest.approx([0.2, 0.4, 0.6, 0.8, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6, 0])


def test_the_schedule_is_the_original_one_for_both_parts():
    module = nn.Linear(2, 2)
    optimizer = groups(module, {"weight"})
    new, old = optimizer.param_groups
    schedule = PowerSchedule(floor=1e-5 / 5e-4).build(optimizer, 30000)
    points = json.loads(others("dtfixup_scale_factors.json").read_text())["lr_schedule_iter_main_bert"]
    for step, main, pretrained in points:
        assert [base * rate(step - 1) for base, rate in zip(schedule.base_lrs, schedule.lr_lambdas, strict=True)] == (
            pytest.approx([main, pretrained], rel=1e-6)
        )
    optimizer.step()
    schedule.step()
    assert (new["lr"], old["lr"]) == pytest.approx(tuple(points[1][1:]), rel=1e-6)


def test_state_goes_on_exactly():
    def run(steps, state=None):
        torch.manual_seed(0)
        module, given = nn.Linear(4, 3), torch.randn(8, 4)
        optimizer = groups(module, {"weight"})
        schedule = PowerSchedule().build(optimizer, 6)
        if state:
            for part, saved in zip((module, optimizer, schedule), state, strict=True):
                part.load_state_dict(saved)
        for _ in range(steps):
            optimizer.zero_grad()
            module(given).square().sum().backward()
            optimizer.step()
            schedule.step()
        return [part.state_dict() for part in (module, optimizer, schedule)]

    whole, resumed = run(6)[0], run(3, run(3))[0]
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_a_warm_up_rises_in_a_straight_line_and_then_the_power_of_what_is_left_counts():
    optimizer = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=1.0)
    (rate,) = PowerSchedule(warmup=0.1).build(optimizer, 100).lr_lambdas
    assert [rate(step) for step in range(10)] == pytest.approx([(step + 1) / 11 for step in range(10)])
    assert [rate(step) for step in (10, 54, 99)] == pytest.approx([(89 / 90) ** 0.5, 0.5**0.5, (1 / 90) ** 0.5])
    (plain,) = PowerSchedule().build(optimizer, 100).lr_lambdas
    assert [plain(step) for step in (0, 49, 99)] == pytest.approx([0.99**0.5, 0.5**0.5, 0.1])
