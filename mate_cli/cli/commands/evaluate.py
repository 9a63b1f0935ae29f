"""`mate evaluate`: score finished runs, released checkpoints, language models or a file of answers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mate_cli.cli.app import PROGRAM
from mate_cli.cli.config_dir import list_options
from mate_cli.cli.overrides import DRY
from mate_cli.errors import ConfigError, RunError
from mate_cli.quoting import is_written, quote_list, quote_text

if TYPE_CHECKING:
    from mate_cli.cli.config.schema import Evaluate
    from mate_cli.pipelines.machine import RuntimeOverrides
    from mate_cli.runs.record import RunFolder

LIST_KEYS = ("run", "checkpoint", "split", "data.root", "perturb", "perturb_seed")
"""Keys whose comma-separated values become a list, because `mate evaluate` has no sweeps."""
TEXT_KEYS = ("answers", "name")
"""Keys whose values are free text, which is quoted for Hydra."""


def convert_arguments(arguments: Sequence[str]) -> list[str]:
    """Convert the arguments of `mate evaluate` to Hydra overrides.

    For example, `--dry` becomes `dry=true`. With `++`, the overrides may set any key in the data section of the
    evaluated run. If `system` is set, the prompt of the dataset becomes the default of `prompt`.
    """
    arguments = ["dry=true" if argument == DRY else argument for argument in arguments]
    overrides = dict(argument.partition("=")[::2] for argument in arguments)
    if "system" in overrides and overrides.get("data") in list_options("prompt"):
        arguments = [f"prompt={overrides['data']}", *arguments]
    prefixes = ["++" if argument.startswith("data.") else "" for argument in arguments]
    return [prefix + quote_value(argument) for prefix, argument in zip(prefixes, arguments, strict=True)]


def quote_value(argument: str) -> str:
    """Quote the value of an override for Hydra, or convert a comma-separated value to a list."""
    key, equals, value = argument.partition("=")
    if key in TEXT_KEYS and not is_written(value):
        return f"{key}={quote_text(value)}"
    if key == "perturb_seed" and "," in value and value[0] != "[":
        return f"{key}=[{value}]"
    if not equals or key not in LIST_KEYS or "," not in value or value[0] == "[" or is_written(value):
        return argument
    return f"{key}={quote_list(value.split(','))}"


def run(cfg: Evaluate) -> None:
    """Evaluate runs, checkpoints, a language model or a file of answers, as configured.

    The results are printed, and written to the run folders or to new folders.

    Raises:
        ConfigError: if not exactly one of `run`, `checkpoint`, `answers` and `system` is set, or other keys do not fit
            it.
    """
    from mate_cli.cli.config.validate import check_run_types
    from mate_cli.data.perturbation import check_perturbations

    check_perturbations(cfg.perturb)
    sources = [key for key in ("run", "checkpoint", "answers", "system") if getattr(cfg, key)]
    if len(sources) != 1:
        problem = f"cannot be combined with {' and '.join(sources[1:])}" if sources else "needs a value"
        hint = "Write run=FOLDER, or checkpoint=NAME data=NAME, or answers=FILE data=NAME, or system=NAME data=NAME"
        raise ConfigError(problem, where=sources[0] if sources else "run", remedy=hint)
    if cfg.dry and not cfg.system:
        raise ConfigError(f"is for system=, not for {sources[0]}", where="dry", remedy="Leave it out")
    if cfg.perturb and (cfg.checkpoint or cfg.analysis is not None):
        raise ConfigError("is for run=, answers= and system=", where="perturb", remedy="Leave it out")
    if cfg.answers or cfg.system or cfg.analysis is not None:
        cfg.hardware.require_one_process("an analysis" if cfg.analysis is not None else f"{sources[0]}=")
    if not cfg.run:
        check_alone(cfg, sources[0])
        if cfg.system:
            score_system(cfg)
        else:
            score_answers(cfg) if cfg.answers else run_distributed(cfg, score_checkpoints)
        return
    if "_target_" in cfg.data:
        hint = "Change single keys, such as data.root=FOLDER"
        raise ConfigError("a run already has a dataset", where="data", remedy=hint)
    for folder in cfg.run:
        # Check the types before torch is imported, which takes seconds.
        check_run_types(folder, cfg.trust)
    run_distributed(cfg, evaluate_runs)


def run_distributed(cfg: Evaluate, work: Callable[[Evaluate], None]) -> None:
    """Call a function on all configured ranks, launching one process per device if necessary.

    Args:
        cfg: configuration of the command. `cfg.hardware` sets the number of ranks.
        work: function to call on each rank with `cfg`.

    Raises:
        MateError: if the function raises it on any rank.
    """
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    from mate_cli.runs import ranks
    from mate_cli.runs.identity import hash_package
    from mate_cli.runs.launch import check_processes, join_processes, launch_processes, read_rank_variables
    from mate_cli.runs.lock import end_with_launcher
    from mate_cli.runs.record import package_versions
    from mate_cli.terminal.progress import leave_line

    end_with_launcher()
    check_processes(cfg.hardware, os.environ)
    if cfg.hardware.devices > 1 and not read_rank_variables(os.environ):
        leave_line()
        try:
            if launch_processes([*PROGRAM, "evaluate", *sys.argv[1:]], cfg.hardware):
                raise KeyboardInterrupt
        except RunError as error:
            if isinstance(error.__cause__, ChildFailedError):
                print(error.__cause__, file=sys.stderr)
                raise RunError(error.problem, remedy="Type the command again") from error.__cause__
            raise
        return
    with join_processes(cfg.hardware):
        if ranks.world_size() > 1:
            fingerprint = {"arguments": " ".join(sys.argv[1:]), "the code": hash_package(), **package_versions()}
            ranks.require_agreement(fingerprint, "Start all with the same arguments, in the same version of mate")
        work(cfg)


def evaluate_runs(cfg: Evaluate) -> None:
    """Score the finished runs in `run`, or analyze these runs if `analysis` is set.

    If `data.root` is a list of folders, the runs are evaluated on the data of each folder.
    """
    from mate_cli.cli.config.schema import as_list
    from mate_cli.pipelines.evaluation.evaluate_run import evaluate_run
    from mate_cli.pipelines.machine import RuntimeOverrides
    from mate_cli.runs.configuration import explain_places

    for root in as_list(cfg.data.get("root")) or [None]:
        runtime = RuntimeOverrides(cfg.hardware, cfg.paths, {**cfg.data, "root": root}, cfg.whole, cfg.trust)
        with explain_places(cfg.run[0]):
            if cfg.analysis is not None:
                analyse(cfg, runtime)
                continue
            for run in cfg.run:
                print_details(evaluate_run(run, cfg.split, runtime, cfg.perturb, cfg.perturb_seed), cfg)


def check_alone(cfg: Evaluate, source: str) -> None:
    """Check the keys of an evaluation that loads no finished run.

    With `checkpoint`, `answers` or `system`, the key `data` is required. The keys `whole` and `analysis` are invalid.

    Args:
        cfg: configuration of the command.
        source: key that is set, `checkpoint`, `answers` or `system`.

    Raises:
        ConfigError: if one of these keys is missing or invalid.
    """
    if "_target_" not in cfg.data:
        hint = "Choose it, such as data=wtq; `mate data list` names all"
        raise ConfigError(f"needs a value with {source}", where="data", remedy=hint)
    for key, is_set in (("whole", cfg.whole), ("analysis", cfg.analysis is not None)):
        if is_set:
            raise ConfigError(f"is for runs, not for {source}", where=key, remedy="Leave it out")


def score_answers(cfg: Evaluate) -> None:
    """Score the answers in the file `answers` on splits of a dataset.

    The number of wrong answers by category is printed.
    """
    from mate_cli.data.answers_file import read_answers

    file = Path(cfg.answers or "").expanduser()
    # Read the file first, because errors in it should not wait for the dataset.
    answers = read_answers(file)

    from mate_cli.pipelines.evaluation.evaluate_others import evaluate_answers

    name, outputs = cfg.name or file.stem, Path(cfg.paths.outputs)
    options: dict[str, Any] = {"partial": cfg.partial, "perturbations": cfg.perturb, "seeds": cfg.perturb_seed}
    print_details(evaluate_answers(file, answers, name, cfg.data, cfg.split, outputs, **options), cfg)


def score_system(cfg: Evaluate) -> None:
    """Evaluate the language model `system` on the questions of dataset splits.

    The answers are requested from the model and scored. The number of wrong answers by category is printed. With `dry`,
    only the planned requests are counted.

    Raises:
        ConfigError: if `system` is no language model, or `prompt` is missing.
    """
    assert cfg.system is not None
    if cfg.system.get("_target_") != "mate_cli.pipelines.evaluation.language_model.LanguageModel":
        hint = "Use system=openai_compatible; a system of stages is scored with run=FOLDER"
        raise ConfigError("is no language model", where="system", remedy=hint)
    if cfg.prompt is None:
        hint = f"Choose from {', '.join(list_options('prompt'))}, or write conf/prompt/NAME.yaml"
        raise ConfigError("needs a value, as this dataset has no default prompt", where="prompt", remedy=hint)
    from mate_cli.pipelines.evaluation.evaluate_others import evaluate_system

    config = {"system": cfg.system, "prompt": cfg.prompt.model_dump(), "data": cfg.data}
    options: dict[str, Any] = {"dry": cfg.dry, "perturbations": cfg.perturb, "seeds": cfg.perturb_seed}
    outputs, cache = Path(cfg.paths.outputs), Path(cfg.paths.cache)
    if folder := evaluate_system(config, cfg.split, cfg.name, outputs, cache, **options):
        print_details(folder, cfg)


def score_checkpoints(cfg: Evaluate) -> None:
    """Score released checkpoints on splits of a dataset.

    The number of wrong answers by category is printed. Each checkpoint gets a separate record.
    """
    from mate_cli.pipelines.evaluation.evaluate_others import evaluate_checkpoint
    from mate_cli.pipelines.machine import RuntimeOverrides

    runtime = RuntimeOverrides(cfg.hardware, cfg.paths, trust=cfg.trust)
    for name in cfg.checkpoint:
        print_details(evaluate_checkpoint(name, cfg.data, cfg.split, runtime), cfg)


def print_details(folder: RunFolder, cfg: Evaluate) -> None:
    """Print the wrong answers of each evaluated split by category, and the effects of perturbations.

    Args:
        folder: folder of the evaluation, with `predictions/SPLIT.json`.
        cfg: configuration of the command.
    """
    from mate_cli.reports.sections.errors import errors_view
    from mate_cli.reports.terminal import print_views
    from mate_cli.terminal.console import report_console

    console = report_console()
    for split in cfg.split:
        if view := errors_view(folder.path / "predictions" / f"{split}.json"):
            console.print()
            print_views([view], console)
    if cfg.perturb:
        from mate_cli.reports.sections.robustness import perturbation_views

        print_views(perturbation_views({folder.path.parent.name: [folder.path]}, None), console)


def analyse(cfg: Evaluate, runtime: RuntimeOverrides) -> None:
    """Run the configured analysis, such as `attention_flow`, on each run and split.

    The results are printed, and written with plots below the run folders.

    Args:
        cfg: configuration of the command.
        runtime: hardware, paths and data of this command, which replace the settings of the run.
    """
    from importlib import import_module
    from itertools import product

    from hydra.utils import instantiate

    from mate_cli.analysis.base import FOLDER, analyse_run
    from mate_cli.reports.plots.style import save_figure
    from mate_cli.reports.terminal import print_views
    from mate_cli.terminal.console import report_console

    console = report_console()
    for run, split in product(cfg.run, cfg.split):
        folder, findings = analyse_run(run, split, runtime, instantiate(cfg.analysis))
        target, name = folder.path / FOLDER, findings["analysis"]
        view = import_module(f"mate_cli.reports.{name}")
        print_views(view.list_views(findings), console, (view.NOTE,))
        figure_files = [
            file for key, figure in view.figures(findings).items() for file in save_figure(figure, target, key)
        ]
        for file in (target / f"{name}.json", *figure_files):
            console.print(f"written: {file}", soft_wrap=True)
