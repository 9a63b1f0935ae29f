"""The tokens of an example as they are printed: kept or left out, and coloured by their scores."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from mate_cli.reports.example import PALE, STRONG, KeptTokens, print_kept

PIECES = ["[CLS]", "who", "?", "[SEP]", "na", "##me", "ann", "lee", "4", "bob", "7"]
TOKENS = KeptTokens(
    kinds=["question"] * 4 + ["header"] * 2 + ["body"] * 5,
    rows=np.array([0] * 6 + [1, 1, 1, 2, 2]),
    cells=np.array([0] * 4 + [1, 1, 2, 2, 3, 4, 5]),
    kept=np.array([True] * 6 + [True, False, False, True, False]),
    scores=np.array([0.0] * 4 + [-1.0, -1.0, -3.0, -5.0, -5.0, -2.0, -4.0], np.float32),
    in_table=np.array([False] * 4 + [True] * 7),
    in_answer=np.array([False] * 6 + [True, True] + [False] * 3),
)


def printed(tokens: KeptTokens, **options) -> str:
    console = Console(file=io.StringIO(), width=80, **options)
    print_kept(tokens, PIECES, console)
    return console.file.getvalue()


def test_without_a_terminal_what_is_left_out_stands_in_brackets():
    lines = [line.rstrip() for line in printed(TOKENS).splitlines()]
    assert lines == [
        "kept      8 of 11 tokens; of the answer 1 of 2",
        *("scores    log P in the table -5.00 to -1.00; mean of kept tokens -1.75, of the rest -4.67", ""),
        *("question  [CLS] who ? [SEP]", "header    name", "row 1     ann [-lee-] │ [-4-]", "row 2     bob │ [-7-]"),
        "",
    ]


def test_the_higher_the_score_the_stronger_the_colour():
    colours = [TOKENS.style(token).bgcolor for token in range(len(PIECES))]
    assert colours[:4] == [None] * 4, "nobody scores the question"
    assert tuple(colours[4].triplet) == STRONG
    assert colours[4].triplet.blue < colours[9].triplet.blue < colours[6].triplet.blue < PALE[2]
    assert colours[7] is colours[8] is colours[10] is None
    assert TOKENS.style(7).strike
    assert [TOKENS.style(token).underline for token in (6, 7, 9)] == [True, True, None]


def test_a_terminal_gets_colours_and_what_they_mean():
    text = printed(TOKENS, force_terminal=True, color_system="truecolor")
    assert "[-" not in text
    assert "left out" in text
    assert "-5.00" in text.splitlines()[-2]


@pytest.mark.parametrize("change", [{"scores": None}, {"in_table": np.zeros(11, bool)}])
def test_where_nothing_is_scored_nothing_is_coloured(change):
    tokens = replace(TOKENS, **change)
    assert all(tokens.style(token).bgcolor is None for token in range(11))
    assert "log P" not in printed(tokens)
    assert "left out" in printed(tokens, force_terminal=True)


def test_equal_scores_have_one_colour():
    tokens = replace(TOKENS, scores=np.full(11, -0.5, np.float32), kept=np.ones(11, bool))
    assert len({tokens.style(token).bgcolor for token in range(4, 11)}) == 1
    assert "of the rest" not in printed(tokens)
