"""TyDi QA with gold passages, and MLQA, both of which have SQuAD's layout.

Source: Clark et al. 2020, "TyDi QA: A Benchmark for Information-Seeking Question Answering in Typologically Diverse
Languages"; Lewis et al. 2020, "MLQA: Evaluating Cross-lingual Extractive Question Answering".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from mate_cli.data.check import Problem
from mate_cli.data.datasets.passage_questions import PassageQuestion
from mate_cli.data.datasets.squad.reader import SquadLayout


@dataclass(eq=False, kw_only=True)
class TyDiQA(SquadLayout):
    """Questions that people wanted to know the answer of.

    Args:
        language: of the questions, as their ids begin; None for all.
    """

    released_files: ClassVar[Mapping[str, Sequence[str]]] = {
        "train": ("tydiqa-goldp-v1.1-train.json", "tydiqa.goldp.en.train.json", "mlqa.dev-context-en-question-en.json"),
        "dev": ("tydiqa-goldp-v1.1-dev.json",),
        "test": ("tydiqa.goldp.en.dev.json",),
    }

    held_out: float = 0.05
    language: str | None = "english"

    def questions(self, file: str, content: bytes, problems: list[Problem]) -> Iterator[PassageQuestion]:
        """The questions of a file that are asked in the language, see `PassageQuestions`.

        Ids that name no language are those of MLQA, or of copies that have numbers instead, which are not unique: such
        questions are called by their place, and of the language of the file.
        """
        for place, question in enumerate(super().questions(file, content, problems)):
            language, _, rest = question.name.partition("-")
            if not rest:
                yield replace(question, name=f"{file.removesuffix('.json')}/{place}")
            elif self.language in (None, language):
                yield question
