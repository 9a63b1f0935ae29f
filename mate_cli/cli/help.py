"""Help texts, summaries of config group options, and suggestions for mistyped names.

The summary of an option is the first sentence of the comment at the start of its file. The paper may precede it in
brackets: `# [MATE] TabFact: is a statement true of a table?`
"""

import difflib
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mate_cli.cli.config_dir import (
    config_dir,
    config_folders,
    find_config,
    list_defaults,
    list_options,
    read_config,
    user_config_dir,
)

WIDTH = 80
"""Maximum line length of the help texts in characters."""
OF_TRAIN = {"-m key=1,2,3": "one run per value", "--dry": "check everything without training"}
"""Flags that only `mate train` has, with descriptions."""
SKIPPED = re.compile(r"@package|mate \w+ ")
"""Pattern of comments before the summary: Hydra's package directive, and the command that selects the file."""
SENTENCE = re.compile(r"(?:\[(?P<paper>[^\]]+)\] )?(?P<text>.*?(?:[.?!](?= [A-Z])|$))")
"""Pattern of a summary: an optional paper in brackets, then the first sentence."""


def nearest(name: str, known: Iterable[str], prefix: str = "", cutoff: float = 0.65) -> str | None:
    """Return the hint "Did you mean NAME?" for a mistyped name.

    Return None without a similar name. If no name has a similar spelling, the shortest valid name that starts with
    `name` (3 or more characters) is suggested.

    Args:
        name: name that was not found.
        known: valid names.
        prefix: text before the suggested name, such as "mate ".
        cutoff: minimum similarity by `difflib`, from 0 to 1.
    """
    names = list(known)
    longer = sorted((candidate for candidate in names if len(name) > 2 and candidate.startswith(name)), key=len)
    matches = difflib.get_close_matches(name, names, n=1, cutoff=cutoff) or longer
    return f"Did you mean {prefix}{matches[0]}?" if matches else None


def overview(commands: Mapping[str, str]) -> str:
    """Return the help text that `mate --help` prints.

    Args:
        commands: description of each subcommand by name.
    """
    return "\n".join(
        [
            "mate: train, evaluate and compare table transformers.",
            "",
            "Usage: mate COMMAND [group=option] [key=value]",
            "",
            "Commands",
            *(f"  {name:<12}{text}" for name, text in commands.items()),
            "",
            "mate COMMAND --help      groups, keys and examples of a command",
            "mate COMMAND --cfg job   the configuration that would be used",
            "mate list experiments    all experiments, a line each",
            "mate --version",
        ]
    )


def command_help(config_name: str) -> str:
    """Return the help text that `mate COMMAND --help` prints.

    It lists usage, config groups, keys, examples and flags.

    Args:
        config_name: command, which is also the name of its primary configuration in `conf/`.
    """
    texts = read_config(config_dir() / f"{config_name}.yaml")["hydra"]["help"]
    sections = [
        texts["header"],
        f"Usage: {texts['app_name']} [group=option] [key=value]{' [-m]' if config_name == 'train' else ''}",
        *_section("Groups: choose a file of conf/", [_group(*pair) for pair in list_defaults(config_name)]),
        *_section("Keys", _keys(config_dir() / f"{config_name}.yaml")),
        "Examples\n" + textwrap.indent(texts["footer"].rstrip(), "  "),
        _closing(texts["app_name"]),
    ]
    return "\n\n".join(sections)


def nearest_choice(group: str, name: str) -> str | None:
    """Return the option of a config group whose name is most similar to a mistyped name.

    Return None without a similar option.

    Options that contain the name take precedence over options of similar spelling.
    """
    options = list_options(group)
    holding = [choice for choice in options if len(name) > 2 and name in choice]
    matches = difflib.get_close_matches(name, holding, n=1, cutoff=0) or difflib.get_close_matches(name, options, n=1)
    return next(iter(matches), None)


def groups_of(config_name: str) -> list[str]:
    """Return the config groups of a command, including the groups of files that it extends."""
    return [group for group, _ in list_defaults(config_name)]


def _section(title: str, rows: list[str]) -> list[str]:
    return ["\n".join([title, *rows])] if rows else []


def _group(group: str, default: str | None) -> str:
    names = list_options(group)
    more = ", ".join(name for name in names if name != default)
    text = f"{default} (default)" + (f", {more}" if more else "") if default else more or "none yet"
    return textwrap.fill(text, WIDTH, initial_indent=f"  {group:<12}", subsequent_indent=" " * 14)


def _keys(source: Path) -> list[str]:
    """Format the top-level keys of a YAML file, with values and comments, as help text.

    Lines are wrapped to `WIDTH` characters.
    """
    lines = source.read_text(encoding="utf-8").splitlines()
    key_lines = [line for line in lines if line[:1].isalpha() and not line.startswith(("defaults:", "hydra:"))]
    pairs = [line.partition("#")[::2] for line in key_lines]
    width = max((len(key.rstrip()) for key, _ in pairs), default=0)
    indent = " " * (width + 4)
    return [
        textwrap.fill(comment.strip(), WIDTH, initial_indent=f"  {key.rstrip():<{width}}  ", subsequent_indent=indent)
        for key, comment in pairs
    ]


def _closing(name: str) -> str:
    texts = {
        "--help KEY": "explain a key or group, as in --help trainer",
        "--cfg job": "all keys with their values",
        **(OF_TRAIN if name == "mate train" else {}),
        "--hydra-help": "flags of Hydra",
    }
    lines = [f"{name} {flag:<16}{text}" for flag, text in texts.items()]
    return "\n".join([*lines, f"{'mate list KIND':<{len(name) + 17}}a line about each, as in mate list experiments"])


@dataclass(frozen=True)
class Summary:
    """Summary of a config group option for `mate list`.

    Args:
        text: first sentence of the comment at the start of its file. Empty without a comment.
        paper: paper of the option, or another heading under which `mate list` shows it. Empty without one.
        is_users: whether the file is in the user's configuration folder.
    """

    text: str
    paper: str = ""
    is_users: bool = False


def read_summary(group: str, name: str) -> Summary:
    """Read the summary of a config group option from the comment at the start of its file.

    The text is empty if the file is missing or cannot be read.
    """
    file, folder = find_config(f"{group}/{name}"), user_config_dir()
    is_users = bool(file and folder and file.is_relative_to(folder))
    try:
        lines = file.read_text(encoding="utf-8-sig", errors="replace").splitlines() if file else []
    except OSError:
        lines = []
    match = SENTENCE.match(" ".join(_comment(lines)))
    assert match  # The pattern matches any text.
    return Summary(match["text"].removesuffix("."), match["paper"] or "", is_users)


def _comment(lines: list[str]) -> Iterator[str]:
    """Yield the lines of the comment at the start of a YAML file.

    Lines that match `SKIPPED` are excluded.
    """
    for line in lines:
        if line.strip() and not line.startswith("#"):
            return
        text = line.strip("# \t")
        if text and not SKIPPED.match(text):
            yield text


def group_names() -> list[str]:
    """Return the sorted names of all config groups that have options of mate or of the user."""
    folders = {path.parent.name for folder in config_folders() for path in folder.glob("*/*.yaml")}
    return sorted(group for group in folders if list_options(group))
