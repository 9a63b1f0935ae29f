"""Figures of the documents are those of the runs whose records lie beside them."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from statistics import mean

import pytest

from mate_cli.reports.runs.load import load_runs

DOCS = Path(__file__).parents[1] / "docs"
ROWS = {
    "the lexical ranker": ("lexical", ""),
    "MATE, lexical features": ("mate", "true"),
    "TAPAS, lexical features": ("tapas", "true"),
    "MATE, without": ("mate", "false"),
    "TAPAS, without": ("tapas", "false"),
    "SAT, without": ("sat", "false"),
    "TableETC, without": ("etc", "false"),
    "Linformer, without": ("linformer", "false"),
    "MATE, without, 1,433 steps": ("mate", "false", "1433"),
}
"""Rows of the table of growth: the network, `model.lexical_features`, and steps where these are not of whole epochs."""


def growth_table():
    """The cells of the table that are filled, by row and number of training questions."""
    text = (DOCS / "hybridqa.md").read_text(encoding="utf-8")
    header, _, *lines = re.search(r"^\| Hits@1, dev / test \|.*?\n\n", text, re.DOTALL | re.MULTILINE)[0].splitlines()
    sizes = [int(size.replace(",", "")) for size in header.strip("| ").split(" | ")[1:]]
    for line in filter(None, lines):
        name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        for size, cell in zip(sizes, cells, strict=True):
            if cell:
                yield (ROWS[name], size), cell


@pytest.fixture(scope="module")
def scores():
    """Hits@1 of dev and test of every seed, by what a row says and number of training questions."""
    found = defaultdict(list)
    for run in load_runs([DOCS / "runs"]).runs:
        assert run.status == "finished"
        row = run.setting("model"), run.config.get("model.lexical_features", "")
        if run.config["trainer.max_epochs"] == "null":
            row = (*row, run.config["trainer.max_steps"])
        found[row, int(run.number("train", "data"))].append((run.metrics["dev/hits@1"], run.metrics["test/hits@1"]))
    return found


def test_growth(scores):
    means = {key: [100 * mean(split) for split in zip(*runs, strict=True)] for key, runs in scores.items()}
    assert dict(growth_table()) == {key: f"{dev:.1f} / {test:.1f}" for key, (dev, test) in means.items()}
