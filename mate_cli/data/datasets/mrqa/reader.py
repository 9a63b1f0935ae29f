"""MRQA 2019: reading datasets that were brought into one layout, a line for each passage with its questions.

Source: Fisch et al. 2019, "MRQA 2019 Shared Task: Evaluating Generalization in Reading Comprehension";
mrqa/MRQA-Shared-Task-2019, README.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from mate_cli.data.check import Problem
from mate_cli.data.datasets.entries import DamagedEntryError, part, read_entries, required_text, texts_of, typed
from mate_cli.data.datasets.passage_questions import PassageQuestion, PassageQuestions, Span
from mate_cli.data.download import fetch_all
from mate_cli.data.question_contamination import plain_words
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
                passage, asked = required_text(entry, "context"), part(entry, "qas", list)
            except DamagedEntryError as error:
                problems.append(Problem(file, key, str(error)))
                continue
            for one in asked:
                try:
                    yield _question(one, passage)
                except DamagedEntryError as error:
                    problems.append(Problem(file, key, str(error)))


def _question(asked: Mapping[str, Any], passage: str) -> PassageQuestion:
    name, question = required_text(typed(asked, dict, "a question"), "qid"), required_text(asked, "question")
    references = texts_of(asked.get("answers"), "answers")
    spans = [span for found in part(asked, "detected_answers", list) for span in _spans(found, passage)]
    return PassageQuestion(name, question, passage, spans, references=references)


def _spans(found: Mapping[str, Any], passage: str) -> Iterator[Span]:
    """Where an answer stands; ends are those of its last characters. Its words may be in other cases there.

    Raises:
        DamagedEntryError: it stands nowhere.
    """
    text = part(found, "text", str)
    for place in part(found, "char_spans", list):
        begin, end = (typed(one, int, "a place of an answer") for one in _pair(place))
        if not 0 <= begin <= end < len(passage):
            raise DamagedEntryError(f"the answer {text!r:.60} is not at characters {begin} to {end} of the passage")
        span = Span(passage[begin : end + 1], begin)
        if not {*plain_words(text)} & {*plain_words(span.text)} and plain_words(text):
            raise DamagedEntryError(f"the answer {text!r:.60} is not {span.text!r:.60} of the passage")
        yield span


def _pair(place: object) -> list[Any]:
    pair = typed(place, list, "a place of an answer")
    if len(pair) != 2:
        raise DamagedEntryError("a place of an answer is not [begin, end]")
    return pair
