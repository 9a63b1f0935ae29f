"""The small made-up dataset that comes with the package: learns in under a minute, needs no download."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mate_cli.data.datasets.hybridqa.reader import HybridQA

SAMPLE_ROOT = Path(__file__).parent / "release"
"""Holds the packed folders of the HybridQA layout and vocab.txt, a WordPiece vocabulary of the sample's words."""


@dataclass(eq=False, kw_only=True)
class Sample(HybridQA):
    """80 small tables with passages and 1,500 questions, made by `tools/make_sample.py` from our own word lists.

    Half of the questions are answered by a cell, half by words of a passage; a few by neither, as in HybridQA.

    Args:
        root: where they come with the package; for the other options see `HybridQA`.
    """

    root: Path = SAMPLE_ROOT

    def fetch(self) -> None:
        """Do nothing: the sample comes with the package."""
