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
        own: the file is the user's.
    """

    text: str
    paper: str = ""
    own: bool = False


def read_summary(group: str, name: str) -> Summary:
    """Read the line of a choice; one that cannot be read has none."""
    file, folder = find_config(f"{group}/{name}"), user_config_dir()
    own = bool(file and folder and file.is_relative_to(folder))
    try:
        lines = file.read_text(encoding="utf-8-sig", errors="replace").splitlines() if file else []
    except OSError:
        lines = []
    found = SENTENCE.match(" ".join(_comment(lines)))
    assert found  # it matches anything
    return Summary(found["text"].removesuffix("."), found["paper"] or "", own)


def _comment(lines: list[str]) -> Iterator[str]:
    """Yield the lines of the comment that a file begins with."""
    for line in lines:
        if line.strip() and not line.startswith("#"):
            return
        said = line.strip("# \t")
        if said and not SKIPPED.match(said):
            yield said


def group_names() -> list[str]:
    """Return the groups that have choices, of our files and the user's."""
    folders = {path.parent.name for folder in config_folders() for path in folder.glob("*/*.yaml")}
    return sorted(group for group in folders if choices(group))
