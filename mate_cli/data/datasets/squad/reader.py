"""SQuAD 1.1, whose questions all have an answer, and 2.0, of which half have none.

Source: Rajpurkar et al. 2016, "SQuAD: 100,000+ Questions for Machine Comprehension of Text"; Rajpurkar, Jia and Liang
2018, "Know What You Don't Know: Unanswerable Questions for SQuAD".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from mate_cli.data.datasets.squad_layout import SquadLayout

FILES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "1.1": {
        "train": ("train-v1.1.json", "train-v1.1-part.json", "extra_train.json"),
        "dev": ("dev-v1.1.json",),
    },
    "2.0": {
        "train": ("train-v2.0.json",),
        "dev": ("dev-v2.0.json", "dev-v2.0-half.json"),
    },
}
"""The files of the releases, and those of partial copies."""


@dataclass(eq=False)
class SQuAD(SquadLayout):
    """Questions about paragraphs of Wikipedia.

    Args:
        version: of the release.
    """

    _: KW_ONLY
    version: Literal["1.1", "2.0"] = "1.1"

    @property
    def released_files(self) -> Mapping[str, Sequence[str]]:
        """The files of the version."""
        return FILES[self.version]
