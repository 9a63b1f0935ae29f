"""What `mate --help` and `mate <command> --help` print, and the names nearest to a mistyped one."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from mate_cli.cli.config_dir import config_dir, user_config_dir

WIDTH = 80


def nearest(name: str, known: Iterable[str], prefix: str = "", suffix: str = "") -> str | None:
    """Return a question that offers the known name nearest to a mistyped one; None when none is near."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"Did you mean {prefix}{found[0]}{suffix}?" if found else None


def overview(commands: Mapping[str, str]) -> str:
    """Return the text of `mate --help`.

    Args:
        commands: description of each sub-command.
    """
    return "\n".join(
        [
            "mate: train, evaluate and compare table transformers.",
            "",
            "Usage: mate COMMAND [group=choice] [key=value] [-m]",
            "",
            "Commands",
            *(f"  {name:<12}{text}" for name, text in commands.items()),
            "",
            "mate COMMAND --help      groups, keys and examples of a command",
            "mate COMMAND --cfg job   the configuration that would be used",
            "mate --version",
        ]
    )


def command(config_name: str) -> str:
    """Return the text of `mate <command> --help`, from the command's primary configuration.

    Args:
        config_name: name of the primary configuration, such as `train`.
    """
    config = _load(config_name)
    texts = config["hydra"]["help"]
    sections = [
        texts["header"],
        f"Usage: {texts['app_name']} [group=choice] [key=value] [-m]",
        *_section("Groups: choose a file of conf/", _groups(config["defaults"])),
        *_section("Keys", _keys(config_dir() / f"{config_name}.yaml")),
        "Examples\n" + textwrap.indent(texts["footer"].rstrip(), "  "),
        _closing(texts["app_name"]),
    ]
    return "\n\n".join(sections)


def choices(group: str) -> list[str]:
    """Return the names that a group can be set to, of our files and the user's."""
    folders = [folder / group for folder in (config_dir(), user_config_dir()) if folder]
    return sorted({path.stem for folder in folders if folder.is_dir() for path in folder.glob("*.yaml")})


def _section(title: str, rows: list[str]) -> list[str]:
    return ["\n".join([title, *rows])] if rows else []


def _groups(defaults: list[object]) -> list[str]:
    """One wrapped line per group: its choices, the default one in front; also of a configuration that it extends."""
    rows = []
    for entry in defaults:
        if isinstance(entry, dict):
            rows += [_group(group, default) for group, default in entry.items()]
        elif isinstance(entry, str) and entry != "_self_":
            rows += _groups(_load(entry).get("defaults", []))
    return rows


def _group(group: str, default: str | None) -> str:
    names = choices(group)
    others = ", ".join(name for name in names if name != default)
    text = f"{default} (default)" + (f", {others}" if others else "") if default else others or "none yet"
    return textwrap.fill(text, WIDTH, initial_indent=f"  {group:<12}", subsequent_indent=" " * 14)


def _load(config_name: str) -> dict[str, Any]:
    """A file of ours at the top of `conf/`, as it stands."""
    from omegaconf import OmegaConf

    return cast(dict[str, Any], OmegaConf.to_container(OmegaConf.load(config_dir() / f"{config_name}.yaml")))


def _keys(source: Path) -> list[str]:
    """The keys of a primary configuration as they stand in the file, with their comments."""
    lines = source.read_text(encoding="utf-8").splitlines()
    own = [line for line in lines if line[:1].isalpha() and not line.startswith(("defaults:", "hydra:"))]
    pairs = [line.partition("#")[::2] for line in own]
    width = max((len(key.rstrip()) for key, _ in pairs), default=0)
    indent = " " * (width + 4)
    return [
        textwrap.fill(comment.strip(), WIDTH, initial_indent=f"  {key.rstrip():<{width}}  ", subsequent_indent=indent)
        for key, comment in pairs
    ]


def _closing(name: str) -> str:
    texts = {
        "--cfg job": "all keys with their values",
        "-m key=1,2,3": "one run per value",
        "--hydra-help": "flags of Hydra",
    }
    return "\n".join(f"{name} {flag:<16}{text}" for flag, text in texts.items())
