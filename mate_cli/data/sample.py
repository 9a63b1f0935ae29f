"""The small made-up dataset that comes with the package: learns in under a minute, needs no download."""

from __future__ import annotations

from pathlib import Path

from mate_cli.data.hybridqa import HybridQA

SAMPLE_ROOT = Path(__file__).parent / "sample"
"""Holds the packed folders of the HybridQA layout and vocab.txt, a WordPiece vocabulary of the sample's words."""


class Sample(HybridQA):
    """80 small tables with passages and 1,500 questions, made by `mate_cli.data.synthetic` from our own word lists.

    Half of the questions are answered by a cell, half by words of a passage; a few by neither, as in HybridQA.
    """

    def __init__(self, name: str = "sample") -> None:
        super().__init__(SAMPLE_ROOT, name=name)

    def download(self) -> None:
        """Do nothing: the sample comes with the package."""
