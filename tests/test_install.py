"""The extras that `pip install "mate-cli[...]"` takes."""

import re
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parents[1]
_, _, REST = (ROOT / "pyproject.toml").read_text().partition("[project.optional-dependencies]\n")
EXTRAS = re.findall(r"^(\S+) = \[", REST.partition("\n[")[0], re.MULTILINE)


def test_extras_named_to_a_user_exist():
    texts = chain((ROOT / "mate_cli").rglob("*.py"), (ROOT / "docs").rglob("*.md"), [ROOT / "README.md"])
    named = re.findall(r"(?:mate-cli|-e \.)\[([\w,-]+)\]", " ".join(file.read_text() for file in texts))
    assert len(named) > 5
    assert {extra for words in named for extra in words.split(",")} <= set(EXTRAS)


def test_extras_are_one_word():
    """pip before 23.3 does not find an extra with _ or - in its name, warns and goes on."""
    assert [extra for extra in EXTRAS if not extra.isalpha()] == []
