"""All tables and figures of the papers on one page: none is missing, each has a command that composes, or a reason."""

import re
import shlex
from pathlib import Path

import pytest
from test_docs import compose_line

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
PAPERS = {
    "MATE": {"table": 8, "figure": 7},
    "DoT": {"table": 11, "figure": 4},
    "DT-Fixup": {"table": 7, "figure": 4},
}
"""How many each has; the notes on Transformer-XH number none."""
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, flags=re.MULTILINE | re.DOTALL))
ROWS = [
    (section, *[cell.strip() for cell in line.strip("|").split(" | ")])
    for section, text in SECTIONS.items()
    for line in text.splitlines()
    if line.startswith("| ") and not line.startswith("| | ")
]
COMMANDS = sorted({command for *_, cell in ROWS for command in re.findall(r"`(mate [^`]+)`", cell)})


@pytest.mark.parametrize("paper", PAPERS)
def test_no_table_or_figure_is_missing(paper):
    listed = [row[1] for row in ROWS if row[0] == paper]
    assert listed[: sum(PAPERS[paper].values())] == [
        f"{kind} {number}" for kind, count in PAPERS[paper].items() for number in range(1, count + 1)
    ]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(row[:2]))
def test_each_has_a_command_or_the_reason_why_there_is_none(row):
    cell = row[-1]
    assert len(row) == 4
    scripts = re.findall(r"`python (tools/\S+\.py)", cell)
    assert all((ROOT / script).is_file() for script in scripts)
    assert scripts or "`mate " in cell or re.match(r"cannot be had: \w+", cell) or cell.startswith("the same")


@pytest.mark.parametrize(
    "line",
    [pytest.param(line, marks=[] if place % 8 == 0 else pytest.mark.long) for place, line in enumerate(COMMANDS)],
)
def test_every_command_composes(line):
    compose_line(shlex.split(line))
