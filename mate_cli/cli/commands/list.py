"""`mate list`: one line about each experiment, network, dataset, sweep and other choice, and about each run."""

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

from mate_cli.cli.config_dir import choices, typed_config_dir
from mate_cli.cli.help import WIDTH, Summary, group_names, nearest, read_summary
from mate_cli.cli.words import split_flags
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
SECTIONS, RUNS = "sections", "runs"
"""The kinds that are no group: what a comparison shows, and what was trained."""
SYNONYMS = {"dataset": "data", "network": "model", "loader": "data", "analyse": "analysis"}
YOURS = " (yours)"
MAX_NAME = 30
"""Columns of a name; the line of a longer one begins further right."""
OUTPUTS = "outputs"
COMMANDS = {"train": "", "evaluate": ", evaluated"}
"""Folders of outputs whose runs are listed, and what stands behind the names of their experiments."""
STATUSES = ("finished", "running", "interrupted", "failed", "killed")
NOTE = "note.txt"
"""File of a run in which its user's note stands."""
MAX_NOTE = 1 << 12


def run_plain(words: Sequence[str]) -> int:
    """Print a line about each choice of a kind, or the kinds.

    Raises:
        ConfigError: there is no such kind, or nothing of it has the word.
    """
    flags, names = split_flags(words)
    if unknown := next((flag for flag in flags if flag != "--config-dir"), None):
        raise ConfigError("unknown flag", where=unknown, remedy="Type mate list --help")
    if names[:1] in (["runs"], ["run"]):
        lines = list_runs(names[1:])
        if sys.stdout.isatty() or "COLUMNS" in os.environ:  # a line of a file or pipe stays whole
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
    """Return all kinds, in many."""
    return [*map(_plural, group_names()), SECTIONS, RUNS]


def _overview() -> Iterator[str]:
    """Yield a line for each kind, with how many there are and how one is chosen."""
    groups = group_names()
    width = max(len(_plural(group)) for group in groups)
    for group in groups:
        yield f"  {_plural(group):<{width}}  {len(choices(group)):>3}  {group}=NAME"
    yield f"  {SECTIONS:<{width}}  {len(list(_sections())):>3}  of a comparison (mate compare)"
    yield f"  {RUNS:<{width}}       trained here (mate list runs [EXPERIMENT] [STATUS])"
    yield ""
    yield "mate list experiments   a line about each of a kind"


def _listing(kind: str, words: Sequence[str]) -> Iterator[str]:
    """Yield a line for each of a kind whose name or line has all the words, below the papers that they are of."""
    group = _group(kind)
    rows = list(_sections()) if group == SECTIONS else [(name, read_summary(group, name)) for name in choices(group)]
    matches = [
        (name, summary)
        for name, summary in rows
        if all(word.lower() in f"{name} {summary.paper} {summary.text}".lower() for word in words)
    ]
    if not matches:
        near = nearest(words[-1], [name for name, _ in rows])
        raise ConfigError(f"no {kind} with {' '.join(words)}", remedy=near or f"All: mate list {kind}")
    width = max(len(name) for name, _ in matches if len(name) <= MAX_NAME)
    if group != SECTIONS:
        matches.sort(key=lambda row: (not row[1].paper, row[1].paper.lower()))
    apart = "Your own" if matches[0][1].paper else ""  # those of no paper come last
    for paper, rows_of_paper in groupby(matches, key=lambda row: row[1].paper):
        yield from filter(None, [paper or apart])
        yield from (_line(name, summary, width) for name, summary in rows_of_paper)
    if group != SECTIONS:
        yield f"\nchoose one with {group}=NAME; details are in conf/{group}/NAME.yaml"


def _line(name: str, summary: Summary, width: int) -> str:
    """Return the line of a choice, shortened to the terminal's least width."""
    start, end = f"  {name:<{width}}  ", YOURS if summary.is_users else ""
    room = max(WIDTH - len(start) - len(end), 1)
    return f"{start}{textwrap.shorten(summary.text, room, placeholder='...')}{end}".rstrip()


def _group(kind: str) -> str:
    """Return the group that a word means: its name, one or many.

    Raises:
        ConfigError: none.
    """
    known = [*group_names(), SECTIONS]
    word = kind.lower().replace("-", "_")
    for name in (word, word.removesuffix("s"), f"{word}s"):
        if (group := SYNONYMS.get(name, name)) in known:
            return group
    if homes := [group for group in known if group != SECTIONS and kind in choices(group)]:
        raise ConfigError("is a choice, not a kind", where=kind, remedy=f"Type mate list {_plural(homes[0])} {kind}")
    listed = f"The kinds are {', '.join(kinds())}"
    raise ConfigError("no such kind", where=kind, remedy=nearest(word, kinds(), prefix="mate list ") or listed)


def _plural(group: str) -> str:
    """Return what a group's choices are called."""
    same = group in ("data", "hardware", "paths", "attention", "debug") or group.endswith("s")
    return "analyses" if group == "analysis" else group if same else f"{group}s"


def _sections() -> Iterator[tuple[str, Summary]]:
    """Yield name and line of the sections of a comparison, in their order."""
    from mate_cli.reports.all_sections import SECTIONS as SHOWN

    for build in SHOWN:
        text = (build.__doc__ or "").partition("\n")[0].partition(";")[0]
        yield build.__name__.removesuffix("_section"), Summary(text.removeprefix("Return ").removesuffix("."))


def list_runs(words: Sequence[str]) -> Iterator[str]:
    """Yield a line for each run, and each evaluation of answers or checkpoints, by command, experiment and start.

    Args:
        words: the name of an experiment, a status, and another folder of outputs, in any order.

    Raises:
        ConfigError: there is no such experiment, or no run of that kind.
    """
    from mate_cli.cli.help import nearest
    from mate_cli.runs.folders import read_index

    wanted = {word for word in words if word in STATUSES}
    others = [word for word in words if word not in STATUSES]
    places = [word for word in others if any((Path(word) / command).is_dir() for command in COMMANDS)]
    outputs = Path(next(iter(places), OUTPUTS))
    names = [word for word in others if word not in places]
    parents = [parent for command in COMMANDS for parent in sorted((outputs / command).glob("*")) if parent.is_dir()]
    known = {parent.name for parent in parents}
    if unknown := next((name for name in names if name not in known), None):
        remedy = nearest(unknown, [*sorted(known), *STATUSES], prefix="mate list runs ") or "All: mate list runs"
        raise ConfigError(f"no runs of {unknown} below {outputs}", remedy=remedy)
    count = 0
    for parent in parents:
        rows = [(run, run.status_now(parent)) for run in read_index(parent)] if parent.name in (names or known) else []
        rows = [(run, status) for run, status in rows if not wanted or status in wanted]
        count += len(rows)
        yield from [f"{parent.name}{COMMANDS[parent.parent.name]}"] if rows else []
        for run, status in rows:
            note = read_note(parent / run.name)
            yield f"  {parent / run.name}  {describe_run(run, status)}{f'  # {note}' if note else ''}"
    if not count:
        kind = " or ".join(sorted(wanted)) or "runs"
        raise ConfigError(
            f"nothing {kind} below {outputs}" if wanted else f"no runs below {outputs}", remedy="Train one"
        )


def read_note(folder: Path) -> str:
    """Return the note of a run as one line; empty without one."""
    from mate_cli.files.safe_load import read_bytes

    with suppress(OSError, ValueError):
        return " ".join(read_bytes(folder / NOTE, largest=MAX_NOTE).decode(errors="replace").split())
    return ""


def describe_run(run: IndexedRun, status: str) -> str:
    """Return status, score, seed and settings of a run in words."""
    from mate_cli.metrics.specs import MetricName
    from mate_cli.runs.identity import telling_settings

    scores = [f"{MetricName.parse(name).title} {MetricName.parse(name).spec.text(v)}" for name, v in run.score.items()]
    settings = [f"{key}={value}" for key, value in telling_settings(run.settings)]
    status = f"{status} ({run.reason})" if run.reason else status
    return " · ".join([status, *scores, f"seed {run.seed}", *settings])
