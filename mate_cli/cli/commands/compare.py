"""`mate compare`: runs side by side, as tables in the terminal and one page with curves and plots; and `mate diff`.

A difference is of two runs: the settings, versions, data, scores and answers in which they differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from mate_cli.cli.words import LONG, VALUED
from mate_cli.errors import ConfigError, MissingDependencyError
from mate_cli.quoting import format_command, is_written, quote_list, quote_text

if TYPE_CHECKING:
    from mate_cli.cli.config.schema import Compare, Diff
    from mate_cli.reports.compare.report import Report


def arguments(words: Sequence[str]) -> list[str]:
    """Turn the folders among the words after `mate compare` into the key `runs`, and flags of its own into theirs."""
    folders: list[str] = []
    rest: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        (folders if LONG.get(before, before) not in VALUED and is_folder(word) else rest).append(quote_label(word))
    return [*rest, f"runs={quote_list(folders)}"] if folders else rest


def takes_word(word: str) -> bool:
    """Say whether `arguments` reads a word in its own way."""
    return is_folder(word)


def quote_label(word: str) -> str:
    """Quote the label after `against=`, which Hydra's grammar would stumble over."""
    key, sign, label = word.partition("=")
    return f"{key}={quote_text(label)}" if sign and key.lstrip("+") == "against" and not is_written(label) else word


def is_folder(word: str) -> bool:
    """Say whether a word names a folder: one that exists, or anything that is no flag and no `key=value`."""
    return Path(word).is_dir() or ("=" not in word and not word.startswith(("-", "~", "+")))


def run(cfg: Compare) -> None:
    """Compare the runs that the configuration names; print the tables and write the files it asks for.

    Raises:
        ConfigError: names of rows are of no configuration, or there is no LaTeX that would have them.
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
        raise ConfigError("names rows of LaTeX alone", where="labels", remedy="Add latex=FILE")
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
        for words, name in (cfg.labels or {}).items()
        for group in find_groups(report.groups, words, report.metric, "labels")
    }
    if cfg.sections == "wrong":
        print_wrong_answers(report, console)
    else:
        print_report(report, console, brief=cfg.sections == "brief")
    for name, file in write_files(cfg, report, names):
        console.print(f"{name}: {file}", soft_wrap=True)
    if cfg.wandb:
        from mate_cli.reports.export.dashboard import send_report

        place = send_report(report, cfg.logger["wandb"] or {}, page_folder(cfg, report))
        console.print(f"wandb: {place}", soft_wrap=True)
    if cfg.workspace:
        from mate_cli.reports.export.dashboard import save_workspace

        for address in save_workspace(report, cfg.logger["wandb"] or {}):
            console.print(f"wandb: {address}", soft_wrap=True)


def check_wandb(cfg: Compare) -> None:
    """Refuse to send a comparison where nothing would take it.

    Raises:
        ConfigError: the `logger` group has no W&B in it, or the environment names no mode of W&B; or a workspace would
            be saved without what it shows, or without a server.
        MissingDependencyError: the library that saves it is not installed.
    """
    from mate_cli.runs.wandb_runs import wandb_mode

    options = cfg.logger.get("wandb")
    if options is None:
        raise ConfigError("wandb=true needs the W&B logger", where="logger", remedy="Use logger=wandb")
    mode = wandb_mode(options)
    if not cfg.workspace:
        return
    if not cfg.wandb:
        raise ConfigError("shows what wandb=true logs", where="workspace", remedy="Add wandb=true")
    if mode != "online":
        problem = "is saved on a server of W&B, and runs stay here"
        raise ConfigError(problem, where="workspace", remedy="Add logger.wandb.mode=online")
    if find_spec("wandb_workspaces") is None:
        remedy = "Type: pip install 'mate-tables[workspaces]'"
        raise MissingDependencyError("needs the package wandb-workspaces", where="workspace", remedy=remedy)


def write_files(cfg: Compare, report: Report, names: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Write the files that the configuration wants, and yield them; rows of LaTeX have names of their own."""
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
    """Return where the page goes by itself: the first folder asked for, or the one above the wildcards of a pattern."""
    from mate_cli.reports.runs.load import find_base_folder

    first = find_base_folder(cfg.runs[0])
    return first if first.is_dir() else Path(report.folders[0])


def run_diff(cfg: Diff) -> None:
    """Print the difference of two runs, and write it as a page.

    Raises:
        ConfigError: there are not two of them.
        RunError: one cannot be read.
    """
    from mate_cli.reports.page import write_difference
    from mate_cli.reports.runs.load import first_runs, open_runs
    from mate_cli.reports.sections.runs import difference_section
    from mate_cli.reports.terminal import print_views, print_warnings
    from mate_cli.terminal.console import report_console

    folders = [Path(folder) for folder in cfg.runs]
    if len({folder.resolve() for folder in folders}) != 2 or len(folders) != 2:
        problem = f"two different runs are needed, not {', '.join(map(str, folders)) or 'none'}"
        below = first_runs(folders[0], 2) if folders else []
        pair = (
            format_command("mate", "diff", *below)
            if len(below) == 2
            else "mate diff outputs/train/<name>/<date> <another>"
        )
        raise ConfigError(problem, where="runs", remedy=f"Type: {pair}")
    loaded = open_runs(folders)
    section = difference_section((loaded.runs[0], loaded.runs[1]), cfg.questions)
    console = report_console()
    print_warnings(loaded.warnings, console)
    console.print(section.notes[0], "", sep="\n", soft_wrap=True)
    print_views(section.views, console, section.notes[1:])
    if cfg.html is not None:
        page = folders[0] / "diff.html" if cfg.html == "auto" else Path(cfg.html)
        console.print(f"page: {write_difference(section, loaded, page)}", soft_wrap=True)
