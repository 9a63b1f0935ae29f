"""`mate train --dry`: what a run or a sweep would train, and what that would cost; nothing is written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mate_cli.cli.checks.downloads import downloads

if TYPE_CHECKING:
    from mate_cli.pipelines.cost.estimate import Cost
    from mate_cli.pipelines.run_spec import RunSpec, Stage

SECONDS = 10.0
"""For measurements, of all stages together."""
MIN_SECONDS = 1.0
"""For those of one stage of many."""
GIGABYTE = 10**9
UNKNOWN = "time not known"


def check_dry(spec: RunSpec) -> None:
    """Refuse what cannot be trained; Lightning is loaded only for parts of it that somebody has added.

    Raises:
        MateError: naming the key and the remedy.
    """
    from mate_cli.cli.config.check import check_parts, check_quickly

    check_quickly(spec)
    for stage in stages_to_train(spec):
        added = [*stage.config.callbacks.values(), *stage.config.logger.values()]
        if stage.config.trainer.options or any(
            node and not str(node.get("_target_")).startswith("mate_cli.") for node in added
        ):
            check_parts(spec)
            return


def print_costs(spec: RunSpec) -> None:
    """Print what each stage of a run costs."""
    costs = stage_costs([spec])
    for stage in stages_to_train(spec):
        print(f"\n{stage.name.replace('_', ' ')}" if stage.name else "")
        print("\n".join(_lines(stage, costs[_key(stage)])))
    if len(stages_to_train(spec)) > 1:
        print(f"\nall stages  {_time([costs[_key(stage)] for stage in stages_to_train(spec)])}")


def print_sweep_costs(specs: Sequence[tuple[str, RunSpec]]) -> None:
    """Print what each job of a sweep costs, and all of them one after the other.

    Args:
        specs: of each job, with what tells it from the others.
    """
    costs = stage_costs([spec for _, spec in specs])
    width = max((len(told) for told, _ in specs), default=0)
    for number, (told, spec) in enumerate(specs):
        print(f"  {number:>3}  {told:<{width}}  {_duration([costs[_key(stage)] for stage in stages_to_train(spec)])}")
    shared, own = {}, []
    for _, spec in specs:
        for stage in stages_to_train(spec):
            if stage.shared:
                shared[json.dumps(stage.values(), default=str, sort_keys=True)] = costs[_key(stage)]
            else:
                own.append(costs[_key(stage)])
    together = ", shared stages counted once" if shared else ""
    print(f"\n{len(specs)} jobs, one after the other{together}: {_time([*own, *shared.values()])}")
    for reason in dict.fromkeys(reason for cost in costs.values() for reason in cost.unknown):
        print(f"not known: {reason}")


def stages_to_train(spec: RunSpec) -> list[Stage]:
    """Return the stages that no finished run stands in for."""
    return [stage for stage in spec.stages if not stage.run]


def stage_costs(specs: Sequence[RunSpec]) -> dict[str, Cost]:
    """Return the cost of each stage that is trained, measured once for all that differ in their seed alone."""
    from mate_cli.files.hub import nothing_fetched
    from mate_cli.pipelines.cost.estimate import estimate

    stages = {_key(stage): stage for spec in specs for stage in stages_to_train(spec)}
    seconds = max(MIN_SECONDS, SECONDS / max(len(stages), 1))
    with nothing_fetched():
        return {key: estimate(stage.config, seconds) for key, stage in stages.items()}


def _key(stage: Stage) -> str:
    """Return a key that is equal for stages that cost the same."""
    values = stage.config.model_dump(exclude={"seed", "logger"})
    return json.dumps(values, default=str, sort_keys=True)


def _lines(stage: Stage, cost: Cost) -> Iterator[str]:
    """Yield the lines of a stage, each with its name."""
    if cost.examples:
        yield f"  examples    {', '.join(f'{count:,} {split}' for split, count in cost.examples.items())}"
    if cost.tokens:
        mean = sum(cost.tokens) / len(cost.tokens)
        yield f"  tokens      {mean:,.0f} on average, {max(cost.tokens):,} at most, of {len(cost.tokens)} examples"
    if plan := cost.schedule:
        processes = f" x {plan.ranks} processes" if plan.ranks > 1 else ""
        split = f"{plan.batch_size} = {plan.accumulate} x {plan.micro_batch}{processes}"
        yield f"  steps       {plan.total_steps:,} of {split} examples"
    if cost.parameters is not None:
        yield f"  parameters  {cost.parameters:,}"
    if cost.memory is not None:
        yield f"  memory      about {cost.memory / GIGABYTE:.1f} GB in a step, counted for its longest examples"
    if cost.seconds is not None:
        yield f"  time        {_time([cost])}"
    for name in downloads(stage.config, cost.parameters):
        yield f"  downloads   {name}"
    for reason in cost.unknown:
        yield f"  not known   {reason}"


def _time(costs: Sequence[Cost]) -> str:
    """Return the time of runs one after the other, and how it was measured."""
    duration, batches = _duration(costs), sum(cost.timed for cost in costs)
    if duration == UNKNOWN:
        return duration
    if not batches:
        return f"{duration} on this machine, where no batch finished within the time limit"
    return f"{duration} on this machine, by {batches} batch{'es' * (batches > 1)}"


def _duration(costs: Sequence[Cost]) -> str:
    """Return the time of runs one after the other, in words."""
    from mate_cli.reports.format import duration_text

    known = [cost.seconds for cost in costs if cost.seconds is not None]
    if not known:
        return UNKNOWN
    is_known = len(known) == len(costs) and all(cost.timed and not cost.at_least for cost in costs)
    return f"{'about' if is_known else 'at least'} {duration_text(sum(known))}"
