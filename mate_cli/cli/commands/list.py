"""`mate list`: print one line per run, or per option such as experiment or network."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from mate_cli.cli.config_dir import list_options, typed_config_dir
from mate_cli.cli.help import WIDTH, Summary, group_names, nearest, read_summary
from mate_cli.cli.overrides import split_flags
from mate_cli.errors import ConfigError

if TYPE_CHECKING:
    from mate_cli.runs.folders import IndexedRun

HELP = """List experiments, networks, datasets and other choices, or runs, a line each.

Usage: mate list [KIND [WORD]]
       mate list runs [EXPERIMENT] [STATUS] [OUTPUTS]

Examples
  mate list
  mate list experiments
  mate list experiments tabfact
  mate list sections
  mate list runs
  mate list runs hybridqa_mate finished

Your own files in ./conf, or in the folder of --config-dir, are marked (yours)."""
SECTIONS, PERTURBATIONS, RUNS = "sections", "perturbations", "runs"
"""Categories that are not config groups: sections of `mate compare`, perturbations of `mate evaluate`, and runs."""
SYNONYMS = {"dataset": "data", "network": "model", "loader": "data", "analyse": "analysis"}
YOURS = " (yours)"
MAX_NAME = 30
"""Maximum width of the name column in characters."""
OUTPUTS = "outputs"
COMMANDS = {"train": "", "evaluate": ", evaluated"}
"""Subfolders of the outputs folder with runs to list, and a suffix for their experiment names."""
STATUSES = ("finished", "running", "interrupted", "failed", "killed")
NOTE = "note.txt"
"""File in a run folder with the user's note (see `mate note`)."""
MAX_NOTE = 1 << 12


def run_plain(arguments: Sequence[str]) -> int:
    """Print one line per option of a category, or all categories if no argument is given.

    Raises:
        ConfigError: if the category does not exist, or no option matches the search terms.
    """
    flags, names = split_flags(arguments)
    if unknown := next((flag for flag in flags if flag != "--config-dir"), None):
        raise ConfigError("unknown flag", where=unknown, remedy="Type mate list --help")
    if names[:1] in (["runs"], ["run"]):
        lines = list_runs(names[1:])
        if sys.stdout.isatty() or "COLUMNS" in os.environ:  # Output to a file or pipe is not wrapped.
            wrapper = textwrap.TextWrapper(
                shutil.get_terminal_size().columns,
                subsequent_indent=" " * 4,
                break_long_words=False,
                break_on_hyphens=False,
            )
            lines = map(wrapper.fill, lines)
        print("\n".join(lines))
        return 0
    with typed_config_dir(flags.get("--config-dir")):
        print("\n".join(_listing(names[0], names[1:]) if names else _overview()))
    return 0


def kinds() -> list[str]:
    """Return the categories that `mate list` accepts, in plural, such as `experiments`."""
    return [*map(_plural, group_names()), SECTIONS, PERTURBATIONS, RUNS]


def _overview() -> Iterator[str]:
    """Yield one line per category, with its number of options and how to select an option."""
    groups = group_names()
    width = max(len(_plural(group)) for group in groups)
    for group in groups:
        yield f"  {_plural(group):<{width}}  {len(list_options(group)):>3}  {group}=NAME"
    yield f"  {SECTIONS:<{width}}  {len(list(_sections())):>3}  of a comparison (mate compare)"
    yield f"  {PERTURBATIONS:<{width}}  {len(list(_perturbations())):>3}  of questions (mate evaluate perturb=NAME)"
    yield f"  {RUNS:<{width}}       trained here (mate list runs [EXPERIMENT] [STATUS])"
    yield ""
    yield "mate list experiments   one line for each experiment"


def _listing(kind: str, terms: Sequence[str]) -> Iterator[str]:
    """Yield one line per option of a category, such as `models`, grouped by paper.

    Args:
        kind: category name, in singular or plural.
        terms: search terms. Name, paper and summary of an option must contain all of them.
    """
    group = _group(kind)
    special = {SECTIONS: _sections, PERTURBATIONS: _perturbations}.get(group)
    rows = list(special()) if special else [(name, read_summary(group, name)) for name in list_options(group)]
    matches = [
        (name, summary)
        for name, summary in rows
        if all(term.lower() in f"{name} {summary.paper} {summary.text}".lower() for term in terms)
    ]
    if not matches:
        suggestion = nearest(terms[-1], [name for name, _ in rows])
        raise ConfigError(f"no {kind} with {' '.join(terms)}", remedy=suggestion or f"All: mate list {kind}")
    width = max(len(name) for name, _ in matches if len(name) <= MAX_NAME)
    if not special:
        matches.sort(key=lambda row: (not row[1].paper, row[1].paper.lower()))
    fallback_title = "Your own" if matches[0][1].paper else ""  # Options without a paper come last.
    for paper, rows_of_paper in groupby(matches, key=lambda row: row[1].paper):
        yield from filter(None, [paper or fallback_title])
        yield from (_line(name, summary, width) for name, summary in rows_of_paper)
    if not special:
        yield f"\nchoose one with {group}=NAME; details are in conf/{group}/NAME.yaml"


def _line(name: str, summary: Summary, width: int) -> str:
    """Format the name and summary of an option as one line of at most `WIDTH` characters."""
    start, end = f"  {name:<{width}}  ", YOURS if summary.is_users else ""
    room = max(WIDTH - len(start) - len(end), 1)
    return f"{start}{textwrap.shorten(summary.text, room, placeholder='...')}{end}".rstrip()


def _group(kind: str) -> str:
    """Return the config group for a category name, such as `model` for `models`.

    Raises:
        ConfigError: if no group has this name.
    """
    groups = [*group_names(), SECTIONS, PERTURBATIONS]
    typed = kind.lower().replace("-", "_")
    for name in (typed, typed.removesuffix("s"), f"{typed}s"):
        if (group := SYNONYMS.get(name, name)) in groups:
            return group
    if homes := [group for group in groups if kind in list_options(group)]:
        raise ConfigError("is not a category", where=kind, remedy=f"Type mate list {_plural(homes[0])} {kind}")
    all_text = f"The categories are {', '.join(kinds())}"
    raise ConfigError("no such category", where=kind, remedy=nearest(typed, kinds(), prefix="mate list ") or all_text)


def _plural(group: str) -> str:
    """Return the name of a config group in plural, such as `analyses` for `analysis`."""
    is_unchanged = group in ("data", "hardware", "paths", "attention", "debug") or group.endswith("s")
    return "analyses" if group == "analysis" else group if is_unchanged else f"{group}s"


def _sections() -> Iterator[tuple[str, Summary]]:
    """Yield (name, summary) of each section of `mate compare`, in display order."""
    from mate_cli.reports.all_sections import SECTIONS as SHOWN

    for build in SHOWN:
        text = (build.__doc__ or "").partition("\n")[0].partition(";")[0]
        yield build.__name__.removesuffix("_section"), Summary(text.removeprefix("Return ").removesuffix("."))


def _perturbations() -> Iterator[tuple[str, Summary]]:
    """Yield (name, summary) of each perturbation of questions."""
    from mate_cli.data.perturbation import PERTURBATIONS as NAMED

    yield from ((name, Summary(perturbation.summary)) for name, perturbation in NAMED.items())


def list_runs(filters: Sequence[str]) -> Iterator[str]:
    """Yield one line per run or evaluation, sorted by command, experiment and start time.

    Args:
        filters: experiment names, statuses and outputs folder to filter by, in any order.

    Raises:
        ConfigError: if an experiment has no runs, or no run has one of the statuses.
    """
    from mate_cli.cli.help import nearest
    from mate_cli.runs.folders import FOREIGN, read_index

    statuses = {name for name in filters if name in STATUSES}
    names_and_folders = [name for name in filters if name not in STATUSES]
    output_folders = [
        name for name in names_and_folders if any((Path(name) / command).is_dir() for command in COMMANDS)
    ]
    outputs = Path(next(iter(output_folders), OUTPUTS))
    names = [name for name in names_and_folders if name not in output_folders]
    parents = [parent for command in COMMANDS for parent in sorted((outputs / command).glob("*")) if parent.is_dir()]
    experiments = {parent.name for parent in parents}
    if unknown := next((name for name in names if name not in experiments), None):
        hint = nearest(unknown, [*sorted(experiments), *STATUSES], prefix="mate list runs ") or "All: mate list runs"
        raise ConfigError(f"no runs of {unknown} below {outputs}", remedy=hint)
    count, foreign = 0, list[Path]()
    for parent in (parent for parent in parents if parent.name in (names or experiments)):
        rows = [(run, run.status_now(parent)) for run in read_index(parent)]
        foreign += [parent / run.name for run, status in rows if status == FOREIGN]
        rows = [(run, status) for run, status in rows if status != FOREIGN and (not statuses or status in statuses)]
        count += len(rows)
        yield from [f"{parent.name}{COMMANDS[parent.parent.name]}"] if rows else []
        for run, status in rows:
            note = read_note(parent / run.name)
            yield f"  {parent / run.name}  {describe_run(run, status)}{f'  # {note}' if note else ''}"
    if foreign:
        more = f" and {len(foreign) - 1:,} more" if len(foreign) > 1 else ""
        yield f"left out, with a record of another program: {foreign[0]}{more}"
    if not count:
        kind = " or ".join(sorted(statuses)) or "runs"
        problem = f"nothing {kind} below {outputs}" if statuses else f"no runs below {outputs}"
        raise ConfigError(problem, remedy="Train one")


def read_note(folder: Path) -> str:
    """Read the user's note about a run as one line.

    Return "" if the run has no readable note.
    """
    from mate_cli.files.safe_load import read_bytes

    with suppress(OSError, ValueError):
        return " ".join(read_bytes(folder / NOTE, largest=MAX_NOTE).decode(errors="replace").split())
    return ""


def describe_run(run: IndexedRun, status: str) -> str:
    """Format one line about a run: its status, scores, seed and distinguishing settings.

    Args:
        run: run to describe.
        status: current status, such as `finished`.
    """
    from mate_cli.metrics.specs import MetricName
    from mate_cli.runs.identity import iter_settings

    scores = [f"{MetricName.parse(name).title} {MetricName.parse(name).spec.text(v)}" for name, v in run.score.items()]
    settings = [f"{key}={value}" for key, value in iter_settings(run.settings)]
    status = f"{status} ({run.reason})" if run.reason else status
    return " · ".join([status, *scores, f"seed {run.seed}", *settings])
