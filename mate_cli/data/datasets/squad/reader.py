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
from mate_cli.data.datasets.passage_questions import PassageQuestion, PassageQuestions, Span


class SquadLayout(PassageQuestions):
    """Questions of SQuAD 1.1 or 2.0, or of files with its layout.

    Answers without a word are those that a release holds back.
    """

    def questions(self, file: str, content: bytes, problems: list[Problem]) -> Iterator[PassageQuestion]:
        """The questions of a file, see `PassageQuestions`."""
        whole = parse_json_as(dict, "an object with a list of articles", file, content, problems)
        if whole is None:
            return
        for place, article in enumerate(_list(whole, "data", file, "", problems)):
            title = str(article.get("title", "")) if isinstance(article, dict) else ""
            for paragraph in _list(article, "paragraphs", file, title or f"article {place}", problems):
                yield from self._of_paragraph(file, title, paragraph, problems)

    def _of_paragraph(
        self,
        file: str,
        title: str,
        paragraph: Any,  # noqa: ANN401 - what JSON holds
        problems: list[Problem],
    ) -> Iterator[PassageQuestion]:
        for entry in _list(paragraph, "qas", file, title, problems):
            name = str(entry.get("id", "")) if isinstance(entry, dict) else ""
            try:
                found = PassageQuestion(name, entry["question"], paragraph["context"], _answers(entry), title)
            except (KeyError, TypeError, AttributeError) as error:
                problems.append(Problem(file, name or title, f"is no question of this layout ({error!r:.60})"))
            else:
                yield found


def _answers(entry: Mapping[str, Any]) -> tuple[Span, ...] | None:
    """The answers of a question; None where they are held back."""
    if entry.get("is_impossible"):
        return ()
    spans = tuple(Span(str(answer["text"]), int(answer["answer_start"])) for answer in entry.get("answers") or ())
    said = tuple(span for span in spans if span.text.strip())
    return None if spans and not said else said


def _list(node: Any, key: str, file: str, where: str, problems: list[Problem]) -> list[Any]:  # noqa: ANN401
    """A list that has to be there; a problem, and an empty one, where it is not."""
    found = node.get(key) if isinstance(node, dict) else None
    if isinstance(found, list):
        return found
    problems.append(Problem(file, where, f"has no list of {key}"))
    return []


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
