"""What a metric's name says: its split, its score, the part of the questions, and how to print it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

SPLITS = ("dev", "test")
PLACES = {"table": "In-Table", "passage": "In-Passage"}
PARTS = {
    **PLACES,
    "": "Total",
    "simple": "Simple",
    "complex": "Complex",
    "small": "Small",
    "q1": "Q1",
    "q2": "Q2",
    "q3": "Q3",
    "gold_previous": "Right answers before",
}
"""Parts of the questions, in the order shown; those by length of the input, such as 129-256_words, come after them."""
KINDS = {
    **dict.fromkeys(PLACES, "by place of the answer"),
    **dict.fromkeys(("simple", "complex", "small"), "by subset"),
    **dict.fromkeys(("q1", "q2", "q3"), "by place in the conversation"),
    "gold_previous": "with right answers before",
    "_words": "by words of the input",
}
"""What a part is a part of; those by length end as the last one says, such as 129-256_words."""
WORDS, PREVIOUS = "_words", "gold_previous"
SCORE_ORDER = (
    "em",
    "f1",
    "gold_em",
    "gold_f1",
    "hits@1",
    "hits@3",
    "hits@5",
    "denotation_accuracy",
    "official_accuracy",
    "sequence_accuracy",
    "accuracy",
)
PRETTY = {
    "em": "EM",
    "f1": "F1",
    "gold_em": "EM",
    "gold_f1": "F1",
    "lr": "learning rate",
    "denotation_accuracy": "Denotation accuracy",
    "official_accuracy": "Official",
    "sequence_accuracy": "SEQ",
    "accuracy": "Accuracy",
    "aggregation_accuracy": "Aggregation",
    "cell_accuracy": "Cells",
    "joint_accuracy": "Cells and aggregation",
}
ACCURACIES = frozenset({"denotation_accuracy", "official_accuracy", "sequence_accuracy", "accuracy"})
"""Of whole answers, one figure per system in papers."""
FRACTIONS = frozenset({"em", "f1", "accuracy", "precision", "recall", "mrr", "map", "exact", "match", "coverage"})
LOWER_IS_BETTER = frozenset({"loss", "perplexity", "error", "seconds", "ms", "mb", "memory", "time", "failures"})
BASELINE = "baseline/"


@dataclass(frozen=True)
class MetricName:
    """A metric's name taken apart: `test/em/table` is split `test`, score `em`, part `table`."""

    full: str
    split: str
    score: str
    part: str

    @classmethod
    def parse(cls, full: str) -> MetricName:
        """Takes a name apart; without a slash the split is empty."""
        split, _, rest = full.rpartition("/") if full.count("/") < 2 else full.partition("/")
        if full.count("/") < 2:
            return cls(full, split, rest, "")
        score, _, part = rest.partition("/")
        return cls(full, split, score, part)

    @property
    def is_fraction(self) -> bool:
        """Whether the value is a share of one, printed in percent and better when higher."""
        return self.score.startswith("hits@") or bool(FRACTIONS & self.words)

    @property
    def direction(self) -> int:
        """1 when more is better, -1 when less is, 0 where nobody can say."""
        if self.is_fraction:
            return 1
        return -1 if LOWER_IS_BETTER & self.words else 0

    @property
    def words(self) -> frozenset[str]:
        """The words of the score: `span_loss` is `span` and `loss`."""
        return frozenset(self.score.lower().split("_"))

    @property
    def family(self) -> str:
        """The table this metric belongs to: `hits`, `answers`, `reading` (in the right cell), `accuracy` or `other`."""
        if self.score.startswith("hits@"):
            return "hits"
        if self.score in ACCURACIES:
            return "accuracy"
        if self.score in ("gold_em", "gold_f1"):
            return "reading"
        return "answers" if self.score in ("em", "f1") else "other"

    @property
    def title(self) -> str:
        """A heading for people, such as `Test Hits@1` or `Dev EM, In-Table`."""
        words = f"{self.split.capitalize()} {self.short}".strip()
        return f"{words}, {self.part_title}" if self.part else words

    @property
    def part_title(self) -> str:
        """A heading for the part: `In-Table`, `Q1`, `129-256 words`; `Total` for all questions."""
        return PARTS.get(self.part, self.part.replace("_", " "))

    @property
    def kind(self) -> str:
        """What the part is a part of, such as `by words of the input`; empty for all questions and unknown parts."""
        return KINDS.get(WORDS if self.part.endswith(WORDS) else self.part, "")

    @property
    def short(self) -> str:
        """The score alone, such as `Hits@1`, `EM` or `loss`."""
        return PRETTY.get(self.score, self.score.replace("hits@", "Hits@").replace("_", " "))

    def rank(self) -> tuple[int, int, int, str]:
        """The place in a table: dev before test, in-table, in-passage, total ..., then EM F1 Hits@1 ..."""
        return (
            SPLITS.index(self.split) if self.split in SPLITS else len(SPLITS),
            part_rank(self.part),
            SCORE_ORDER.index(self.score) if self.score in SCORE_ORDER else len(SCORE_ORDER),
            self.full,
        )


def part_rank(part: str) -> int:
    """Orders parts: unknown ones, those of `PARTS`, then those by length of the input, the shortest first."""
    if part in PARTS:
        return list(PARTS).index(part)
    number = re.search(r"\d+", part) if part.endswith(WORDS) else None
    return -1 if number is None else len(PARTS) + int(number[0])


def main_metric(per_configuration: Iterable[Iterable[str]]) -> str | None:
    """Picks the metric to rank by: the one most configurations have; at a tie test, then EM, Hits@1, total."""
    counts: dict[str, int] = {}
    for names in per_configuration:
        for name in names:
            if not name.startswith(BASELINE) and MetricName.parse(name).is_fraction:
                counts[name] = counts.get(name, 0) + 1
    return min(counts, key=lambda name: (-counts[name], *preference(name)), default=None)


def preference(name: str) -> tuple[bool, bool, int, str]:
    """Orders metrics by how well they sum up a run: test first, all questions first, then the score."""
    metric = MetricName.parse(name)
    favourites = ("em", "hits@1", "denotation_accuracy", "accuracy", "f1", "hits@3", "hits@5", "official_accuracy")
    place = favourites.index(metric.score) if metric.score in favourites else len(favourites)
    return (metric.split != "test", bool(metric.part), place, name)
