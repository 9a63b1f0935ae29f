"""Hydra sweeper `hydra/sweeper=optuna`: search by Optuna, resumable from its storage.

Hydra discovers plugins only in the namespace `hydra_plugins`, and imports every plugin at startup. Optuna is therefore
imported only when a search starts.
"""

import math
import platform
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hydra.core.config_store import ConfigStore
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from mate_cli.cli.sweeps.jobs import KILLED
from mate_cli.cli.sweeps.search_space import SearchSpace, parse_space
from mate_cli.errors import ConfigError
from mate_cli.runs.lock import is_alive, process_id

if TYPE_CHECKING:
    from optuna import Study, Trial

RESULTS = "optimization_results.yaml"
"""Name of the file with the best values, in the folder of the sweep."""
PROCESS, REPEATS = "process", "repeats"
"""User attributes of a trial: host and process of the search, and how often its values were repeated before."""
MAX_REPEATS = 2
"""Maximum number of repeats of a trial whose process was killed or no longer exists."""
GROUP = "hydra/sweeper"
SAMPLERS: dict[str, tuple[str, dict[str, Any]]] = {
    "tpe": ("TPESampler", {"n_startup_trials": 10, "n_ei_candidates": 24, "multivariate": False}),
    "random": ("RandomSampler", {}),
    "cmaes": ("CmaEsSampler", {"n_startup_trials": 1}),
    "nsgaii": ("NSGAIISampler", {"population_size": 50}),
    "gp": ("GPSampler", {"n_startup_trials": 10}),
    "qmc": ("QMCSampler", {}),
    "grid": ("BruteForceSampler", {}),
}
"""Class and arguments of each Optuna sampler, by option of `hydra/sweeper/sampler`. `+` adds other arguments."""

OPTIONS = {
    "_target_": f"{__name__}.OptunaSweeper",
    "_recursive_": False,
    "defaults": ["_self_", {"sampler": "tpe"}],
    "direction": "minimize",
    "storage": None,
    "study_name": "search",
    "n_trials": 20,
    "n_jobs": 1,
    "params": None,
}
ConfigStore.instance().store("optuna", OPTIONS, GROUP, provider="mate")
for _choice, (_name, _options) in SAMPLERS.items():
    _node = {"_target_": f"optuna.samplers.{_name}", "seed": None, **_options}
    ConfigStore.instance().store(_choice, _node, f"{GROUP}/sampler", provider="mate")


@dataclass
class OptunaSweeper(Sweeper):
    """Hydra sweeper that searches values with Optuna. Each trial is a job of the sweep.

    Args:
        sampler: configuration of the Optuna sampler.
        direction: `minimize` or `maximize`.
        storage: URL of the database that stores the study. None to store the study in memory.
        study_name: name of the study in the storage.
        n_trials: number of trials that one command adds to the study.
        n_jobs: number of trials launched together. The sampler receives all their results before the next trials.
        params: fixed overrides and search spaces, in addition to the command line.
    """

    sampler: DictConfig
    direction: Literal["minimize", "maximize"]
    storage: str | None
    study_name: str
    n_trials: int
    n_jobs: int
    params: DictConfig | None

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Store Hydra's context and configuration, and instantiate the launcher.

        Args:
            hydra_context: context of Hydra, passed to the launcher.
            task_function: function that runs a job, passed to the launcher.
            config: composed configuration of the sweep.
        """
        from hydra.core.plugins import Plugins

        self.hydra_context, self.config = hydra_context, config
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> None:
        """Run `n_trials` trials as jobs, store their results, and save the best values.

        Args:
            arguments: fixed overrides and search spaces from the command line.

        Raises:
            ConfigError: Optuna is not installed, or a setting of the search is invalid.
        """
        if find_spec("optuna") is None:
            raise ConfigError("needs Optuna", where=f"{GROUP}=optuna", remedy="Install it: pip install optuna cmaes")
        self._check_numbers()
        assert self.config is not None
        params = [f"{key!s}={value}" for key, value in (self.params or {}).items()]
        space = parse_space([*params, *arguments], self.config)
        study = self._open_study()
        repeat_lost_trials(study)
        left, has_more = self.n_trials, True
        while left > 0 and has_more:
            repeated, has_more = self._run_trials(study, space, min(left, self.n_jobs))
            left -= self.n_jobs - repeated
        self._save_best(study)

    def _check_numbers(self) -> None:
        for name in ("n_trials", "n_jobs"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise ConfigError(f"must be an integer above 0 (got {value})", where=f"hydra.sweeper.{name}")
        if self.direction not in ("minimize", "maximize"):
            hint = "Use minimize or maximize"
            raise ConfigError(f"is not a direction: {self.direction}", where="hydra.sweeper.direction", remedy=hint)

    def _open_study(self) -> "Study":
        """Create the Optuna study, or load it from the storage if it exists.

        Raises:
            ConfigError: the storage cannot be opened, or its study has another direction.
        """
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        try:
            study = optuna.create_study(
                storage=self.storage, study_name=self.study_name, direction=self.direction, load_if_exists=True
            )
        except Exception as error:  # SQLAlchemy, the database driver and Optuna raise different classes.
            problem = f"the store cannot be opened: {str(error).strip().splitlines()[0]}"
            raise ConfigError(problem, where=f"hydra.sweeper.storage={self.storage}") from error
        if (direction := study.direction.name.lower()) != self.direction:
            problem, hint = f"the study {self.study_name} is to {direction}", "Set another hydra.sweeper.study_name"
            raise ConfigError(problem, where="hydra.sweeper.direction", remedy=hint)
        study.sampler = self._build_sampler(len(study.get_trials(deepcopy=False)))
        return study

    def _build_sampler(self, trials: int) -> Any:  # noqa: ANN401 - a sampler of Optuna
        """Instantiate the Optuna sampler from its configuration.

        Args:
            trials: number of earlier trials in the study. It is added to the seed, so that a resumed search does not
                repeat earlier values.
        """
        from hydra.utils import instantiate
        from optuna.exceptions import ExperimentalWarning

        options = dict(self.sampler)
        if isinstance(options.get("seed"), int):
            options["seed"] += trials
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ExperimentalWarning)
                return instantiate(options, _convert_="all")
        except Exception as error:
            problem = f"cannot be built: {str(error.__cause__ or error).strip().splitlines()[0]}"
            raise ConfigError(problem, where="hydra.sweeper.sampler") from error

    def _run_trials(self, study: "Study", space: SearchSpace, count: int) -> tuple[int, bool]:
        """Sample trials, launch them together and report their results to the study.

        Args:
            study: study that samples the values.
            space: search space.
            count: number of trials.

        Returns:
            The number of trials that were queued again, and whether the study has more values to try.

        Raises:
            ConfigError: the study was created with another search space.
        """
        from optuna.trial import TrialState

        assert self.launcher is not None
        trials: list[Trial] = []
        try:
            for _ in range(count):
                trials.append(self._ask(study, space))
            jobs = [space.overrides(trial.params) for trial in trials]
            returned = self.launcher.launch(jobs, initial_job_idx=trials[0].number)
        except BaseException:
            for trial in trials:
                study.tell(trial, state=TrialState.FAIL)
            raise
        repeated, has_more = 0, True
        for trial, job in zip(trials, returned, strict=True):
            value = value_of(job)
            try:
                if value == KILLED:
                    repeated += repeat_trial(study, trial.number)
                else:
                    study.tell(trial, value, state=TrialState.FAIL if value is None else None)
            # A grid sampler stops the study after its last values. Their result is stored before the error is raised.
            except RuntimeError:
                has_more = False
        return repeated, has_more

    def _ask(self, study: "Study", space: SearchSpace) -> "Trial":
        try:
            trial = study.ask(dict(space.distributions))
            trial.set_user_attr(PROCESS, f"{platform.node()} {process_id()}")
            return trial
        except ValueError as error:
            location = f"hydra.sweeper.study_name={self.study_name}"
            hint = "Give the study another name"
            raise ConfigError(f"the study was begun with other values: {error}", where=location, remedy=hint) from error

    def _save_best(self, study: "Study") -> None:
        """Save the values and the result of the best trial, unless no trial has a result."""
        from optuna.trial import TrialState

        assert self.config is not None
        if study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
            best = {"name": "optuna", "best_params": study.best_params, "best_value": study.best_value}
            folder = Path(str(self.config.hydra.sweep.dir))
            folder.mkdir(parents=True, exist_ok=True)
            OmegaConf.save(OmegaConf.create(best), folder / RESULTS)


def repeat_lost_trials(study: "Study") -> None:
    """Queue the values of lost trials again.

    A trial is lost if it is recorded as running, but its process on this host no longer exists.
    """
    from optuna.trial import TrialState

    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        node, _, process = str(trial.user_attrs.get(PROCESS, "")).partition(" ")
        if node == platform.node() and not is_alive(process):
            repeat_trial(study, trial.number)


def repeat_trial(study: "Study", number: int) -> bool:
    """Mark a trial as failed, and queue its values again.

    The values are not queued if they were repeated `MAX_REPEATS` times.

    Args:
        study: study with the trial.
        number: number of the trial in the study.

    Returns:
        Whether the values were queued again.
    """
    from optuna.trial import TrialState

    failed = study.tell(number, state=TrialState.FAIL)
    repeats = int(failed.user_attrs.get(REPEATS, 0))
    if repeats == MAX_REPEATS:
        return False
    study.enqueue_trial(failed.params, user_attrs={REPEATS: repeats + 1})
    return True


def value_of(returned: Any) -> Any:  # noqa: ANN401 - Hydra's own
    """Return the result of a job: a finite metric, `KILLED`, or None if the job failed.

    Args:
        returned: `JobReturn` of Hydra's launcher.
    """
    try:
        value = returned.return_value
        return value if value == KILLED or math.isfinite(value) else None
    except Exception:  # The job may have raised any error.
        return None
