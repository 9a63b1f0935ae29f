from __future__ import annotations

import pytest

from mate_cli.reports.compare.report import build_report
from mate_cli.reports.format import flops_text
from mate_cli.reports.sections.cost_and_sweep import recorded_costs
from tests.reports.runs import build_run


def test_costs_that_nobody_recorded_have_no_column(tmp_path):
    build_run(tmp_path / "a", peak_memory_mb=0.0)
    groups = build_report([tmp_path]).groups
    assert [cost.name for cost in recorded_costs(groups)] == ["Parameters", "Examples/s", "Wall time"]
    throughput = {"examples_per_second": 40.0, "training_flops_per_example": 3.2e11}
    build_run(tmp_path / "b", model="sat", throughput=throughput)
    texts = {cost.name: [cost.cell(group).text for group in groups] for cost in recorded_costs(groups)}
    assert texts["Parameters"] == ["22.7M"]
    groups = build_report([tmp_path]).groups
    texts = {cost.name: [cost.cell(group).text for group in groups] for cost in recorded_costs(groups)}
    assert texts["FLOPs/example"] == ["–", "320 G"]  # noqa: RUF001
    assert texts["Peak memory"] == ["–", "3.1 GB"]  # noqa: RUF001


def test_repeats_cost_what_the_one_in_the_middle_costs(tmp_path):
    for seed, seconds in ((1, 60.0), (2, 120.0), (3, 3600.0)):
        build_run(tmp_path / str(seed), seed=seed, wall_seconds=seconds)
    (group,) = build_report([tmp_path]).groups
    assert next(cost for cost in recorded_costs([group]) if cost.name == "Wall time").cell(group).text == "2 min"


@pytest.mark.parametrize(("value", "text"), [(1.44e15, "1.44 P"), (1.4e12, "1.4 T"), (3.2e9, "3.2 G"), (999.0, "999")])
def test_operations_are_written_with_a_unit(value, text):
    assert flops_text(value) == text
