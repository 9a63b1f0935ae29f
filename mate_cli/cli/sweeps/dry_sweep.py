"""`mate train -m ... --dry`: the jobs of a sweep, checked, and what they would cost; nothing is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from mate_cli.cli.config.composition import COMMAND, composing
from mate_cli.cli.config.hydra_errors import wrap_hydra_errors
from mate_cli.cli.sweeps.sweep import WHOLE, GridSweeper
from mate_cli.cli.words import Override, texts
from mate_cli.errors import ConfigError, MateError

if TYPE_CHECKING:
    from mate_cli.pipelines.run_spec import Stage


def print_dry_sweep(words: Sequence[str]) -> int:
    """Print the jobs of a sweep and what they cost.

    Returns:
        0 when all jobs could be trained, else 2.

    Raises:
        MateError: there is no sweep, or a search, whose jobs follow from results.
    """
    from mate_cli.cli.checks.dry_run import check_dry, print_sweep_costs, resolve_planned, stages_to_train

    typed = [Override.parse(word) for word in words]
    planned: list[tuple[int, str, list[Stage], list[MateError]]] = []
    wrong: dict[str, list[str]] = {}
    with composing():
        hydra = GlobalHydra.instance().hydra
        assert hydra is not None
        settings = texts(word for word in typed if word.is_below(*WHOLE))
        config = hydra.compose_config(COMMAND, settings, RunMode.MULTIRUN)
        jobs = list_jobs(config, typed)
        print(f"{len(jobs)} jobs", flush=True)  # to compose and to count them takes seconds
        shared = set.intersection(*map(set, jobs)) if len(jobs) > 1 else set()
        for number, job in enumerate(jobs):
            overrides = [word for word in job if not Override.parse(word).is_below("sweep", "hydra")]
            told = " ".join(word for word in overrides if word not in shared)
            try:
                with wrap_hydra_errors(COMMAND, overrides):
                    run = resolve_planned(overrides)
                data = check_dry(run.spec, number)
                stages = stages_to_train(run.spec, run.missing)
                planned.append((number, told, stages, [*run.missing.values(), *([data] if data else [])]))
            except MateError as error:
                wrong.setdefault(str(error), []).append(f"{number} ({told})")
    refused = print_sweep_costs([(told, stages) for _, told, stages, _ in planned])
    for (number, told, _, missing), refusal in zip(planned, refused, strict=True):
        if reasons := [*missing, *([refusal] if refusal else [])]:
            wrong.setdefault(str(reasons[0]), []).append(f"{number} ({told})")
    for reason, names in wrong.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        print(f"cannot be trained: job {names[0]}{more}: {reason}")
    return 2 if wrong else 0


def list_jobs(config: DictConfig, typed: Sequence[Override]) -> list[list[str]]:
    """Return the overrides of each job of a grid.

    Raises:
        ConfigError: a search chooses its jobs by results.
    """
    chosen: Any = config.hydra.sweeper
    if not str(chosen._target_).endswith(".BasicSweeper"):
        trials = chosen.get("n_trials")
        problem = f"a search chooses its {f'{trials} ' if trials else ''}jobs by the results of others"
        raise ConfigError(problem, where="--dry", remedy="Leave out -m and sweep=NAME to see the cost of one job")
    keys = {word.key for word in typed}
    params = {key: value for key, value in (chosen.params or {}).items() if key.lstrip("+~") not in keys}
    rows: Any = OmegaConf.to_container(config.rows) if config.get("rows") else []
    varied = texts(word for word in typed if not word.is_below("hydra", "sweep"))
    return GridSweeper(None, params, rows).jobs(varied)
