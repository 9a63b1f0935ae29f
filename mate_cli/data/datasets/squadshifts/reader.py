"""SQuADShifts: new articles of Wikipedia and of a newspaper, comments and reviews, with questions as SQuAD has them.

Source: Miller et al. 2020, "The Effect of Natural Distribution Shift on Question Answering Models".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from mate_cli.data.datasets.squad.reader import SquadLayout


@dataclass(eq=False, kw_only=True)
class SquadShifts(SquadLayout):
    """Made to test readers; here there is more to learn from in it."""

    released_files: ClassVar[Mapping[str, Sequence[str]]] = {
        "train": ("new_wiki_v1.0.json", "nyt_v1.0.json", "reddit_v1.0.json", "amazon_reviews_v1.0.json")
    }

    held_out: float = 0.05
