"""`mate compare` and `mate diff`: compare runs in terminal tables and HTML pages.

`mate compare` shows the scores of many runs. `mate diff` shows how two runs differ in settings, versions, data, scores
and answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from mate_cli.cli.overrides import LONG, VALUED
from mate_cli.errors import ConfigError, MissingDependencyError
from mate_cli.quoting import format_command, is_written, quote_list, quote_text

if TYPE_CHECKING:
    from mate_cli.cli.config.schema import Compare, Diff
    from mate_cli.reports.compare.report import Report


def convert_arguments(arguments: Sequence[str]) -> list[str]:
    """Convert positional folders of `mate compare` to the override `runs=[...]`."""
    folders: list[str] = []
    other_arguments: list[str] = []
    for previous, argument in zip(["", *arguments], arguments, strict=False):
        (
            folders if LONG.get(previous, previous) not in VALUED and accepts_argument(argument) else other_arguments
        ).append(quote_label(argument))
    return [*other_arguments, f"runs={quote_list(folders)}"] if folders else other_arguments


def quote_label(argument: str) -> str:
    """Quote the label in `against=LABEL` for Hydra's grammar.

    Other arguments are unchanged.
    """
    key, sign, label = argument.partition("=")
    return f"{key}={quote_text(label)}" if sign and key.lstrip("+") == "against" and not is_written(label) else argument


def accepts_argument(argument: str) -> bool:
    """Return whether a command-line argument is a run folder instead of an override.

    Such folders are later joined to one override of `runs`. A folder is a path that exists, or an argument that is
    neither a flag nor an override.
    """
    return Path(argument).is_dir() or ("=" not in argument and not argument.startswith(("-", "~", "+")))


def run(cfg: Compare) -> None:
    """Compare runs: print the tables and write the requested files.

    Raises:
        ConfigError: if `labels` is set without `latex`, or one of its labels fits no compared configuration.
    """
    from hydra.utils import instantiate

    from mate_cli.reports.compare.report import build_report
    from mate_cli.reports.compare.significance import find_groups
    from mate_cli.reports.terminal import print_report, print_wrong_answers
    from mate_cli.terminal.console import report_console

    console = report_console()
    if cfg.wandb or cfg.workspace:
        check_wandb(cfg)
    if cfg.labels and cfg.latex is None:
        raise ConfigError("applies to LaTeX tables only", where="labels", remedy="Add latex=FILE")
    report = build_report(
        cfg.runs,
        **cfg.model_dump(
            include={"metric", "by", "status", "ignore", "debug_runs", "statistic", "published", "against"}
        ),
        cache=Path(cfg.paths.cache).expanduser(),
        added_sections=[instantiate(node) for node in cfg.added_sections.values() if node],
    )
    names = {
        group.label: name
        for label, name in (cfg.labels or {}).items()
        for group in find_groups(report.groups, label, report.metric, "labels")
    }
    if cfg.sections == "wrong":
        print_wrong_answers(report, console)
    else:
        print_report(report, console, brief=cfg.sections == "brief")
    for name, file in write_files(cfg, report, names):
        console.print(f"{name}: {file}", soft_wrap=True)
    if cfg.wandb:
        from mate_cli.reports.export.dashboard import send_report

        wandb_folder = send_report(report, cfg.logger["wandb"] or {}, page_folder(cfg, report))
        console.print(f"wandb: {wandb_folder}", soft_wrap=True)
    if cfg.workspace:
        from mate_cli.reports.export.dashboard import save_workspace

        for address in save_workspace(report, cfg.logger["wandb"] or {}):
            console.print(f"wandb: {address}", soft_wrap=True)


def check_wandb(cfg: Compare) -> None:
    """Check the settings for logging a comparison to W&B, which `wandb=true` enables.

    Raises:
        ConfigError: if the `logger` group has no W&B logger, the environment sets an invalid W&B mode, or a workspace
            is saved without `wandb=true` or a server.
        MissingDependencyError: if the package that saves workspaces is not installed.
    """
    from mate_cli.runs.wandb_runs import wandb_mode

    options = cfg.logger.get("wandb")
    if options is None:
        raise ConfigError("wandb=true needs the W&B logger", where="logger", remedy="Use logger=wandb")
    mode = wandb_mode(options)
    if not cfg.workspace:
        return
    if not cfg.wandb:
        raise ConfigError("needs the comparison that wandb=true logs", where="workspace", remedy="Add wandb=true")
    if mode != "online":
        problem = "is stored on a W&B server, but logger.wandb.mode is not online"
        raise ConfigError(problem, where="workspace", remedy="Add logger.wandb.mode=online")
    if find_spec("wandb_workspaces") is None:
        hint = "Type: pip install 'mate-tables[workspaces]'"
        raise MissingDependencyError("needs the package wandb-workspaces", where="workspace", remedy=hint)


def write_files(cfg: Compare, report: Report, names: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Write the requested output files of a comparison, and yield (file type, path) of each.

    Args:
        cfg: configuration of the command.
        report: comparison to write.
        names: row names in the LaTeX table, by label of the configuration.
    """
    from mate_cli.files.atomic import write_text

    if cfg.html is not None:
        from mate_cli.reports.page import write_page

        page = page_folder(cfg, report) / "compare.html" if cfg.html == "auto" else Path(cfg.html)
        yield "page", write_page(report, page)
    if cfg.figures is not None:
        from mate_cli.reports.plots.figures import write_figures

        yield from (("figure", file) for file in write_figures(report, Path(cfg.figures)))
    if cfg.json_ or cfg.csv or cfg.markdown:
        from mate_cli.reports.export.data_files import report_csv, report_json, report_markdown, wrong_csv

        csv = wrong_csv if cfg.sections == "wrong" else report_csv
        files = {"json": (cfg.json_, report_json), "csv": (cfg.csv, csv), "markdown": (cfg.markdown, report_markdown)}
        for name, (file, write) in files.items():
            if file is not None:
                yield name, write_text(Path(file), write(report))
    if cfg.latex is not None:
        from mate_cli.reports.export.latex import report_latex

        yield "latex", write_text(Path(cfg.latex), report_latex(report, names=names))


def page_folder(cfg: Compare, report: Report) -> Path:
    """Return the default folder of the HTML page of a comparison.

    It is the first entry of `runs`, up to any wildcard.
    """
    from mate_cli.reports.runs.load import find_base_folder

    first = find_base_folder(cfg.runs[0])
    return first if first.is_dir() else Path(report.folders[0])


def run_diff(cfg: Diff) -> None:
    """Print how two runs differ, and write an HTML page if `html` is set.

    Raises:
        ConfigError: if `runs` does not contain exactly two different folders.
        RunError: if a run cannot be read.
    """
    from mate_cli.reports.page import write_difference
    from mate_cli.reports.runs.load import first_runs, open_runs
    from mate_cli.reports.sections.runs import difference_section
    from mate_cli.reports.terminal import print_views, print_warnings
    from mate_cli.terminal.console import report_console

    folders = [Path(folder) for folder in cfg.runs]
    if len({folder.resolve() for folder in folders}) != 2 or len(folders) != 2:
        problem = f"two different runs are needed, not {', '.join(map(str, folders)) or 'none'}"
        nested_runs = first_runs(folders[0], 2) if folders else []
        command = (
            format_command("mate", "diff", *nested_runs)
            if len(nested_runs) == 2
            else "mate diff outputs/train/<name>/<date> <another>"
        )
        raise ConfigError(problem, where="runs", remedy=f"Type: {command}")
    runs = open_runs(folders)
    section = difference_section((runs.runs[0], runs.runs[1]), cfg.questions)
    console = report_console()
    print_warnings(runs.warnings, console)
    console.print(section.notes[0], "", sep="\n", soft_wrap=True)
    print_views(section.views, console, section.notes[1:])
    if cfg.html is not None:
        page = folders[0] / "diff.html" if cfg.html == "auto" else Path(cfg.html)
        console.print(f"page: {write_difference(section, runs, page)}", soft_wrap=True)
