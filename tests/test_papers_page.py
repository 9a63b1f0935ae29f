"""All tables and figures of the papers: none is missing, each has a command that composes, or a reason."""

import re
import shlex
from pathlib import Path

import pytest
from test_docs import compose_line

from mate_cli.cli.config_dir import config_dir

FOLDER = Path(__file__).parents[1] / "docs" / "papers"
PAGES = {"MATE": "mate.md", "DoT": "dot.md", "Transformer-XH": "transformer_xh.md", "DT-Fixup": "dt_fixup.md"}
SECTION = re.compile(r"^## Every table and figure\n(.*?)^##", re.MULTILINE | re.DOTALL)
PAPERS = {"MATE": {"table": 8, "figure": 7}, "DoT": {"table": 11, "figure": 4}, "DT-Fixup": {"table": 7, "figure": 4}}
"""How many each has; the notes on Transformer-XH number none."""
SECTIONS = {paper: SECTION.findall((FOLDER / page).read_text("utf-8"))[0] for paper, page in PAGES.items()}
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


@pytest.mark.sampled(4)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(row[:2]))
def test_each_has_a_command_or_the_reason_why_there_is_none(row):
    cell = row[-1]
    assert len(row) == 4
    assert re.search(r"`(?:mate|python tools/\S+\.py)\b", cell) or re.match(r"cannot be had: \w+|the same", cell)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_composes(line):
    compose_line(shlex.split(line))


def test_each_shipped_experiment_is_a_row_of_a_paper_or_none():
    page = (FOLDER / "experiments.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", page, re.MULTILINE)
    files = sorted((config_dir() / "experiment").glob("*.yaml"))
    assert [name for name, _ in rows] == [file.stem for file in files]
    for file, (name, row) in zip(files, rows, strict=True):
        named = re.findall(r"(\S+) paper, tables? ([\d, and]+)", row)
        numbers = [(paper, int(number)) for paper, listed in named for number in re.findall(r"\d+", listed)]
        assert all(0 < number <= PAPERS[paper]["table"] for paper, number in numbers), name
        assert "No paper trains this" not in file.read_text(encoding="utf-8") or row.startswith("no row: "), name
