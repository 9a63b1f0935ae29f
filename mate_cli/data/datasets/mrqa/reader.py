"""MRQA 2019: reading datasets that were brought into one layout, a line for each passage with its questions.

Source: Fisch et al. 2019, "MRQA 2019 Shared Task: Evaluating Generalization in Reading Comprehension";
mrqa/MRQA-Shared-Task-2019, README.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from mate_cli.data.check import Problem
from mate_cli.data.datasets.document_questions import read_entries
from mate_cli.data.datasets.passage_questions import PassageQuestion, PassageQuestions, Span
from mate_cli.data.download import fetch_all
from mate_cli.errors import DataError

Subset = Literal["SQuAD", "NewsQA", "TriviaQA-web", "SearchQA", "HotpotQA", "NaturalQuestionsShort"]
"""Those that may be learnt from."""


@dataclass(eq=False, kw_only=True)
class MRQA(PassageQuestions):
    """Questions of some of the six datasets that the shared task trained on.

    Args:
        subsets: which ones; only their files are read and fetched.
    """

    subsets: Sequence[Subset] = field(default_factory=lambda: ["NaturalQuestionsShort"])

    @property
    def released_files(self) -> Mapping[str, Sequence[str]]:
        """The files of the subsets."""
        return {split: tuple(f"{split}/{name}.jsonl" for name in self.subsets) for split in ("train", "dev")}

    def fetch(self) -> None:
        """Fetch the files of the subsets into `root`; what is there and intact is kept.

        Raises:
            DataError: a file cannot be fetched.
        """
        if self.info is None:
            raise DataError("has no public release to fetch", where=self.name)
        wanted = {f"{file}.gz" for files in self.released_files.values() for file in files}
        fetch_all([file for file in self.info.remote_files if file.destination in wanted], self.root)

    def questions(self, file: str, content: bytes, problems: list[Problem]) -> Iterator[PassageQuestion]:
        """The questions of a file, see `PassageQuestions`; the first line may be a header."""
        for key, entry in read_entries(file, content, problems):
            if "header" in entry:
                continue
            try:
                passage = entry["context"]
                for asked in entry["qas"]:
                    name, spans = str(asked["qid"]), _spans(asked, passage)
                    yield PassageQuestion(name, asked["question"], passage, spans, references=asked["answers"])
            except (KeyError, TypeError) as error:
                problems.append(Problem(file, key, f"is no passage of this layout ({error!r:.60})"))


def _spans(asked: Mapping[str, Any], passage: str) -> tuple[Span, ...]:
    """Where the answers stand; ends are those of their last characters. Cases may differ from those of the answer."""
    places = [place for found in asked["detected_answers"] for place in found["char_spans"]]
    return tuple(Span(passage[begin : end + 1], begin) for begin, end in places)
