"""`mate list`: one line about each experiment, network, dataset, sweep and other choice, shipped or the user's own."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby

from mate_cli.cli.config_dir import choices, typed_config_dir
from mate_cli.cli.flags import split_flags
from mate_cli.cli.shell.help import WIDTH, nearest
from mate_cli.cli.shell.run_list import list_runs
from mate_cli.cli.shell.summaries import Summary, group_names, read_summary
from mate_cli.errors import ConfigError

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


def run_plain(words: Sequence[str]) -> int:
    """Print a line about each choice of a kind, or the kinds.

    Raises:
        ConfigError: there is no such kind, or nothing of it has the word.
    """
    flags, names = split_flags(words)
    if "--help" in flags:
        print(HELP)
        return 0
    if unknown := next((flag for flag in flags if flag != "--config-dir"), None):
        raise ConfigError("unknown flag", where=unknown, remedy="Type mate list --help")
    if names[:1] in (["runs"], ["run"]):
        print("\n".join(list_runs(names[1:])))
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
    for paper, rows_of_paper in groupby(matches, key=lambda row: row[1].paper):
        yield from ([paper] if paper else [])
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
