"""SQuAD 1.1, whose questions all have an answer, and 2.0, of which half have none.

Source: Rajpurkar et al. 2016, "SQuAD: 100,000+ Questions for Machine Comprehension of Text"; Rajpurkar, Jia and Liang
2018, "Know What You Don't Know: Unanswerable Questions for SQuAD".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from mate_cli.data.check import Problem, parse_json_as
from mate_cli.data.datasets.entries import DamagedEntryError, entry_name, optional_text, part, required_text, typed
from mate_cli.data.datasets.passage_questions import PassageQuestion, PassageQuestions, Span


class SquadLayout(PassageQuestions):
    """Questions of SQuAD 1.1 or 2.0, or of files with its layout.

    Answers without a word are those that a release holds back.
    """

    def questions(self, file: str, content: bytes, problems: list[Problem]) -> Iterator[PassageQuestion]:
        """The questions of a file, see `PassageQuestions`."""
        whole = parse_json_as(dict, "an object with a list of articles", file, content, problems)
        try:
            articles = [] if whole is None else part(whole, "data", list)
        except DamagedEntryError as error:
            problems.append(Problem(file, "", str(error)))
            return
        for place, article in enumerate(articles):
            name = f"article {place}"
            try:
                title, paragraphs = (
                    optional_text(typed(article, dict, "it"), "title"),
                    part(article, "paragraphs", list),
                )
            except DamagedEntryError as error:
                problems.append(Problem(file, name, str(error)))
                continue
            for number, paragraph in enumerate(paragraphs):
                yield from _of_paragraph(file, f"{title or name}, paragraph {number}", title, paragraph, problems)


def _of_paragraph(
    file: str,
    key: str,
    title: str,
    paragraph: Any,  # noqa: ANN401 - what JSON holds
    problems: list[Problem],
) -> Iterator[PassageQuestion]:
    try:
        passage, asked = required_text(typed(paragraph, dict, "it"), "context"), part(paragraph, "qas", list)
    except DamagedEntryError as error:
        problems.append(Problem(file, key, str(error)))
        return
    for place, entry in enumerate(asked):
        try:
            name, question = required_text(typed(entry, dict, "it"), "id"), required_text(entry, "question")
            yield PassageQuestion(name, question, passage, _answers(entry), title)
        except DamagedEntryError as error:
            name = entry_name(entry) if isinstance(entry, dict) else ""
            problems.append(Problem(file, name or f"{key}, question {place}", str(error)))


def _answers(entry: Mapping[str, Any]) -> tuple[Span, ...] | None:
    """The answers of a question; None where they are held back.

    Raises:
        DamagedEntryError: they are missing, or of other types.
    """
    if typed(entry.get("is_impossible", False), bool, "is_impossible"):
        return ()
    answers = part(entry, "answers", list)
    spans = tuple(Span(part(answer, "text", str), part(answer, "answer_start", int)) for answer in answers)
    said = tuple(span for span in spans if span.text.strip())
    return None if spans and not said else said


FILES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "1.1": {"train": ("train-v1.1.json", "train-v1.1-part.json", "extra_train.json"), "dev": ("dev-v1.1.json",)},
    "2.0": {"train": ("train-v2.0.json",), "dev": ("dev-v2.0.json", "dev-v2.0-half.json")},
}
"""The files of the releases, and those of partial copies."""


@dataclass(eq=False, kw_only=True)
class SQuAD(SquadLayout):
    """Questions about paragraphs of Wikipedia.

    Args:
        version: of the release.
    """

    version: Annotated[Literal["1.1", "2.0"], BeforeValidator(str)] = "1.1"

    @property
    def released_files(self) -> Mapping[str, Sequence[str]]:
        """The files of the version."""
        return FILES[str(self.version)]
