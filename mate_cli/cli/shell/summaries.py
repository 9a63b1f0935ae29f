"""The line that stands for a choice: the first sentence of the comment that its file begins with.

A paper in brackets may stand before it: `# [MATE] TabFact: is a statement true of a table?`
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from mate_cli.cli.config_dir import choices, config_folders, find_config, user_config_dir

SKIPPED = re.compile(r"@package|mate \w+ ")
"""Comments before the first sentence: for Hydra, and the command that chooses the file."""
SENTENCE = re.compile(r"(?:\[(?P<paper>[^\]]+)\] )?(?P<text>.*?(?:[.?!](?= [A-Z])|$))")


@dataclass(frozen=True)
class Summary:
    """The line of a choice.

    Args:
        text: its first sentence; empty where nobody says.
        paper: the paper that it is of, or what else it is grouped by; empty without.
        is_users: the file is the user's.
    """

    text: str
    paper: str = ""
    is_users: bool = False


def read_summary(group: str, name: str) -> Summary:
    """Read the line of a choice; one that cannot be read has none."""
    file, folder = find_config(f"{group}/{name}"), user_config_dir()
    is_users = bool(file and folder and file.is_relative_to(folder))
    try:
        lines = file.read_text(encoding="utf-8-sig", errors="replace").splitlines() if file else []
    except OSError:
        lines = []
    match = SENTENCE.match(" ".join(_comment(lines)))
    assert match  # it matches anything
    return Summary(match["text"].removesuffix("."), match["paper"] or "", is_users)


def _comment(lines: list[str]) -> Iterator[str]:
    """Yield the lines of the comment that a file begins with."""
    for line in lines:
        if line.strip() and not line.startswith("#"):
            return
        text = line.strip("# \t")
        if text and not SKIPPED.match(text):
            yield text


def group_names() -> list[str]:
    """Return the groups that have choices, of our files and the user's."""
    folders = {path.parent.name for folder in config_folders() for path in folder.glob("*/*.yaml")}
    return sorted(group for group in folders if choices(group))
