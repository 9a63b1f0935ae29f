"""`mate train --dry`: print the plan and estimated cost of a run or sweep.

The cost is training time, memory and downloads. The command trains nothing and writes no files.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mate_cli.cli.check import check_parts, check_quickly
from mate_cli.cli.config.composition import COMMAND, init_compose_api
from mate_cli.cli.config.hydra_errors import wrap_hydra_errors
from mate_cli.cli.config.resolve import resolve
from mate_cli.cli.overrides import Override, to_strings
from mate_cli.cli.sweeps.sweep import compose_sweep, make_grid
from mate_cli.errors import ConfigError, DataError, MateError, MissingRunError
from mate_cli.reports.format import duration_text, plural

if TYPE_CHECKING:
    from mate_cli.pipelines.estimate import Cost
    from mate_cli.pipelines.run_spec import RunSpec, Stage
    from mate_cli.runs.configuration import RunConfig

SECONDS = 10.0
"""Time budget in seconds for measuring training steps, shared by all stages."""
MIN_SECONDS = 1.0
"""Minimum time budget in seconds for measuring training steps of one stage."""
GIGABYTE = 10**9
UNKNOWN = "time not known"
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
VOCABULARIES = ("vocab.txt", "tokenizer.json", "vocab.json")
BYTES_PER_PARAMETER = 4
"""Bytes per parameter (float32)."""
ON_HUB = ("bert", "roberta", "tapas")
"""Values of `init.kind` whose checkpoint is a name on the Hugging Face Hub."""


def check_dry(spec: RunSpec, job: int = 0) -> DataError | None:
    """Check a run as `mate train` does, but return `DataError` instead of raising it.

    The caller can then print the cost of the run before raising the error.

    Args:
        spec: run to check.
        job: number of the run in a sweep. 0 for a single run.

    Returns:
        The error for missing or invalid data, None if the data are valid.

    Raises:
        MateError: a check fails for a reason other than the data.
    """
    data_error = None
    for look in (partial(check_quickly, spec, job), partial(check_parts, spec)):
        try:
            look()
        except DataError as error:
            data_error = data_error or error
    return data_error


def print_costs(spec: RunSpec, left_out: Collection[str] = ()) -> None:
    """Estimate and print the cost of each stage of a run, and the total time.

    Args:
        spec: run to estimate.
        left_out: names of stages to exclude, because finished runs that do not exist yet are to replace them.

    Raises:
        MateError: a stage cannot be trained.
    """
    stages = stages_to_train(spec, left_out)
    costs = stage_costs(stages)
    for stage, cost in costs:
        print(f"\n{stage.name.replace('_', ' ')}" if stage.name else "")
        print("\n".join(_lines(stage, cost)))
    if len(stages) > 1:
        print(f"\nall stages  {_time([cost for _, cost in costs])}")
    if error := find_refusal(costs):
        raise error


def find_refusal(costs: Iterable[tuple[Stage, Cost]]) -> MateError | None:
    """Return the error of the first stage that cannot be trained, or None if all can be."""
    for stage, cost in costs:
        if error := cost.refused:
            location = ": ".join(filter(None, [f"stages.{stage.name}" if stage.name else "", error.where]))
            return type(error)(error.problem, where=location or None, remedy=error.remedy)
    return None


def print_sweep_costs(jobs: Sequence[tuple[str, Sequence[Stage]]]) -> list[MateError | None]:
    """Print the training time of each job of a sweep, and the total time.

    The total assumes that the jobs run in sequence.

    Args:
        jobs: (label, stages to train) of each job. The label shows the overrides that distinguish the job.

    Returns:
        The error of each job that cannot be trained, None for the other jobs.
    """
    from rich.text import Text

    from mate_cli.reports.terminal import frame
    from mate_cli.terminal.console import report_console

    costs = stage_costs([stage for _, stages in jobs for stage in stages])
    remaining = iter(costs)
    by_job = [[*islice(remaining, len(stages))] for _, stages in jobs]
    table = frame("")
    table.add_column("Job", justify="right", no_wrap=True)
    table.add_column("Overrides", overflow="fold", min_width=10)
    table.add_column("Time", no_wrap=True)
    for number, ((label, _), job_costs) in enumerate(zip(jobs, by_job, strict=True)):
        table.add_row(str(number), Text(label), _duration([cost for _, cost in job_costs]))
    report_console().print(table)
    shared_stages = [(stage.values(), cost) for stage, cost in costs if stage.shared]
    shared_costs = {json.dumps(values, default=str, sort_keys=True): cost for values, cost in shared_stages}
    separate = [cost for stage, cost in costs if not stage.shared]
    note = ", shared stages counted once" if shared_costs else ""
    print(f"\n{plural(len(jobs), 'job')}, one after the other{note}: {_time([*separate, *shared_costs.values()])}")
    for reason in dict.fromkeys(reason for _, cost in costs for reason in cost.unknown):
        print(f"not known: {reason}")
    return [*map(find_refusal, by_job)]


def stages_to_train(spec: RunSpec, left_out: Collection[str] = ()) -> list[Stage]:
    """Return the stages of a run that are to be trained.

    Stages replaced by finished runs are omitted.

    Args:
        spec: run with the stages. Stages replaced by a finished run are excluded.
        left_out: names of further stages to exclude.
    """
    return [stage for stage in spec.stages if not stage.run and stage.name not in left_out]


def stage_costs(stages: Sequence[Stage]) -> list[tuple[Stage, Cost]]:
    """Estimate the training cost of stages. Return each stage with its cost.

    Stages that differ only in seed, loggers or float values are measured once.
    """
    from mate_cli.files.hub import offline_mode
    from mate_cli.pipelines.estimate import estimate, open_dataset

    distinct = {_key(stage): stage for stage in stages}
    seconds = max(MIN_SECONDS, SECONDS / max(len(distinct), 1))
    with offline_mode():
        keys, open_cached = sorted(distinct, key=lambda key: str(distinct[key].data)), lru_cache(1)(open_dataset)
        costs = {key: estimate(distinct[key], seconds, open_cached) for key in keys}
    return [(stage, costs[_key(stage)]) for stage in stages]


def _key(stage: Stage) -> str:
    """Return the key under which the cost of a stage is cached: its configuration as JSON.

    Seed and loggers are omitted. Floats that do not affect the cost, such as learning rates and dropout probabilities,
    are replaced by whether they are nonzero.
    """
    values = stage.model_dump(exclude={"seed", "logger"})
    for part in ("model", "task", "optimizer", "scheduler"):
        values[part] = _without_sizes(values[part], part in ("optimizer", "scheduler", "task"))
    return json.dumps(values, default=str, sort_keys=True)


def _without_sizes(value: object, all_floats: bool) -> object:
    """Replace each float in a configuration by whether it is nonzero.

    Other changes of a float, such as a learning rate, do not affect the cost of training. If not `all_floats`, only
    floats below a key that contains "dropout" are replaced.
    """
    if isinstance(value, dict):
        return {key: _without_sizes(part, all_floats or "dropout" in str(key)) for key, part in value.items()}
    return bool(value) if all_floats and isinstance(value, float) else value


def _lines(stage: Stage, cost: Cost) -> Iterator[str]:
    """Yield the printed lines about the cost of a stage, such as its number of training steps."""
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
    for name in downloads(stage, cost.parameters):
        yield f"  downloads   {name}"
    for reason in cost.unknown:
        yield f"  not known   {reason}"


def _time(costs: Sequence[Cost]) -> str:
    """Format the total training time of stages, as extrapolated from timed batches.

    The text contains the number of timed batches.
    """
    duration, batches = _duration(costs), sum(cost.timed for cost in costs)
    if duration == UNKNOWN:
        return duration
    if not batches:
        return f"{duration} on this machine, where no batch finished within the time limit"
    return f"{duration} on this machine, by {batches} batch{'es' * (batches > 1)}"


def _duration(costs: Sequence[Cost]) -> str:
    """Format the total training time of stages, such as "about 2 h" or "at least 2 h".

    Return `UNKNOWN` if no time is known.
    """
    seconds = [cost.seconds for cost in costs if cost.seconds is not None]
    if not seconds:
        return UNKNOWN
    is_known = len(seconds) == len(costs) and all(cost.timed and not cost.at_least for cost in costs)
    return f"{'about' if is_known else 'at least'} {duration_text(sum(seconds))}"


def downloads(config: RunConfig, parameters: int | None) -> Iterator[str]:
    """Yield a description, with the size, of each file that a stage must download.

    Args:
        config: configuration of the stage.
        parameters: number of parameters of the network. None if unknown.
    """
    yield from _release(config)
    init = config.init
    checkpoint = str(init.get("checkpoint"))
    if init.get("kind") in ON_HUB and not Path(checkpoint).exists() and not _is_cached(checkpoint, WEIGHTS):
        size = f"about {BYTES_PER_PARAMETER * parameters / 1e6:,.0f} MB" if parameters else "size not known"
        yield f"weights of {checkpoint} ({size})"
    tokenizer = str(init.get("tokenizer"))
    is_local = tokenizer in ("minilm", "sample") or Path(tokenizer).exists()
    if not is_local and not _is_cached(tokenizer, VOCABULARIES):
        yield f"word pieces of {tokenizer} (size not known)"


def _release(config: RunConfig) -> Iterator[str]:
    from mate_cli.data.datasets.catalogue import dataset_names, find_dataset

    root = config.data.get("root")
    if not root or Path(root).expanduser().exists() or config.data.get("download") is False:
        return
    name = str(config.data.get("name"))
    if name in dataset_names() and (files := find_dataset(name).remote_files):
        hosts = ", ".join(sorted({urlsplit(file.url).hostname or "" for file in files}))
        yield f"{len(files)} files of {name} from {hosts} (size not known)"


def _is_cached(name: str, files: tuple[str, ...]) -> bool:
    """Return whether the Hugging Face cache contains at least one of the files of a model.

    Return True for a name that is invalid on the Hub, for which there is no download to report.
    """
    from mate_cli.files.hub import NAME, hub_file, offline_mode

    with offline_mode():
        return not NAME.fullmatch(name.partition("@")[0]) or any(hub_file(name, file) for file in files)


def resolve_planned(overrides: Sequence[str]) -> tuple[RunSpec, dict[str, MissingRunError]]:
    """Resolve overrides to a run that may reuse runs which do not exist yet.

    A stage whose finished run is missing is resolved as a stage to train.

    Returns:
        The resolved run, and the errors for missing finished runs by stage name.

    Raises:
        MateError: see `resolve`.
    """
    errors: dict[str, MissingRunError] = {}
    while True:
        try:
            return resolve(overrides), errors
        except MissingRunError as error:
            prefix = f"stages.{error.stage}.run="
            overrides = [override for override in overrides if not override.lstrip("+").startswith(prefix)]
            # The experiment file names the missing run, so removing the override did not help.
            if error.stage in errors:
                raise
            errors[error.stage] = error


def print_sweep_plan(arguments: Sequence[str]) -> int:
    """Print the jobs of a sweep with their estimated training times.

    Args:
        arguments: overrides from the command line.

    Returns:
        0 if all jobs can be trained, else 2.

    Raises:
        MateError: the overrides define no sweep, or a search, whose jobs depend on the results of earlier jobs.
    """
    all_overrides = [Override.parse(argument) for argument in arguments]
    plans: list[tuple[int, str, list[Stage], list[MateError]]] = []
    failures: dict[str, list[str]] = {}
    with init_compose_api():
        config = compose_sweep(all_overrides)
        if (grid := make_grid(config)) is None:
            trials = config.hydra.sweeper.get("n_trials")
            problem = f"a search chooses its {f'{trials} ' if trials else ''}jobs by the results of earlier jobs"
            hint = "Leave out -m and sweep=NAME to see the cost of one job"
            raise ConfigError(problem, where="--dry", remedy=hint)
        jobs = grid.jobs(to_strings(override for override in all_overrides if not override.is_below("hydra", "sweep")))
        # Flush now, because composing and estimating the jobs takes seconds.
        print(plural(len(jobs), "job"), flush=True)
        fixed = set.intersection(*map(set, jobs)) if len(jobs) > 1 else set()
        for number, job in enumerate(jobs):
            overrides = [override for override in job if not Override.parse(override).is_below("sweep", "hydra")]
            label = " ".join(override for override in overrides if override not in fixed)
            try:
                with wrap_hydra_errors(COMMAND, overrides):
                    spec, absent = resolve_planned(overrides)
                data = check_dry(spec, number)
                reasons = [*absent.values(), *([data] if data else [])]
                plans.append((number, label, stages_to_train(spec, absent), reasons))
            except MateError as error:
                failures.setdefault(str(error), []).append(f"{number} ({label})")
    errors = print_sweep_costs([(label, stages) for _, label, stages, _ in plans])
    for (number, label, _, problems), refusal in zip(plans, errors, strict=True):
        if reasons := [*problems, *([refusal] if refusal else [])]:
            failures.setdefault(str(reasons[0]), []).append(f"{number} ({label})")
    for reason, names in failures.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        print(f"cannot be trained: job {names[0]}{more}: {reason}")
    return 2 if failures else 0
