"""Readers of questions about passages, one class per file layout.

Source: Rajpurkar et al. 2016, "SQuAD: 100,000+ Questions for Machine Comprehension of Text"; Rajpurkar, Jia and Liang
2018, "Know What You Don't Know: Unanswerable Questions for SQuAD"; Fisch et al. 2019, "MRQA 2019 Shared Task:
Evaluating Generalization in Reading Comprehension" (mrqa/MRQA-Shared-Task-2019, README).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from mate_cli.data.check import Problem, parse_json_as
from mate_cli.data.datasets.file_formats import (
    DamagedEntryError,
    find_name,
    find_text,
    note_damage,
    read_entries,
    require_name,
    require_part,
    require_text,
    require_texts,
    require_type,
)
from mate_cli.data.datasets.passage_questions import PassageQuestion, PassageQuestions, Span
from mate_cli.data.download import RemoteFile
from mate_cli.data.question_contamination import normalize_words

Entry = Mapping[str, Any]
Subset = Literal["SQuAD", "NewsQA", "TriviaQA-web", "SearchQA", "HotpotQA", "NaturalQuestionsShort"]
"""Training datasets of MRQA."""
SQUAD_FILES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "1.1": {"train": ("train-v1.1.json", "train-v1.1-part.json", "extra_train.json"), "dev": ("dev-v1.1.json",)},
    "2.0": {"train": ("train-v2.0.json",), "dev": ("dev-v2.0.json", "dev-v2.0-half.json")},
}
"""Files of the releases, and of partial copies."""


@dataclass(eq=False, kw_only=True)
class SQuAD(PassageQuestions):
    """Questions about paragraphs of Wikipedia, or of other files in the format of SQuAD.

    In version 2.0 half of the questions have no answer. Blank answers are answers that a release withholds.

    Args:
        version: version of the release.
    """

    version: Annotated[Literal["1.1", "2.0"], BeforeValidator(str)] = "1.1"

    @property
    def released_files(self) -> Mapping[str, Sequence[str]]:
        """Paths of the files of this version of SQuAD, by split."""
        return SQUAD_FILES[str(self.version)]

    def questions(self, file: str, content: bytes, problems: list[Problem]) -> Iterator[PassageQuestion]:
        """Parse a file in SQuAD format, and yield its valid questions with their passages.

        See `PassageQuestions.questions`.
        """
        content_object = parse_json_as(dict, "an object with a list of articles", file, content, problems)
        articles: list[Any] = []
        with note_damage(file, "", problems):
            articles = [] if content_object is None else require_part(content_object, "data", list)
        for index, article in enumerate(articles):
            with note_damage(file, f"article {index}", problems):
                title = find_text(require_type(article, dict, "it"), "title")
                for number, paragraph in enumerate(require_part(article, "paragraphs", list)):
                    key = f"{title or f'article {index}'}, paragraph {number}"
                    yield from _questions_of(file, key, title, paragraph, problems)


def _questions_of(
    file: str, key: str, title: str, paragraph: object, problems: list[Problem]
) -> Iterator[PassageQuestion]:
    with note_damage(file, key, problems):
        context = require_text(require_type(paragraph, dict, "it"), "context")
        for index, entry in enumerate(require_part(paragraph, "qas", list)):
            name = find_name(entry) if isinstance(entry, dict) else ""
            with note_damage(file, name or f"{key}, question {index}", problems):
                name, text = require_name(require_type(entry, dict, "it")), require_text(entry, "question")
                yield PassageQuestion(name, text, context, _squad_answers(entry), title)


def _squad_answers(entry: Entry) -> tuple[Span, ...] | None:
    """Return the answers of a question in SQuAD format with their positions.

    Return None if the release withholds the answers.

    Raises:
        DamagedEntryError: the answers are missing or have another type.
    """
    if require_type(entry.get("is_impossible", False), bool, "is_impossible"):
        return ()
    answers = require_part(entry, "answers", list)
    spans = [Span(require_part(answer, "text", str), require_part(answer, "answer_start", int)) for answer in answers]
    visible = tuple(span for span in spans if span.text.strip())
    return None if spans and not visible else visible


@dataclass(eq=False, kw_only=True)
class MRQA(PassageQuestions):
    """Reader of MRQA: questions about passages, from six training datasets of a shared task.

    A file has one passage per line.

    Args:
        subsets: datasets to read and download.
    """

    subsets: Sequence[Subset] = field(default_factory=lambda: ["NaturalQuestionsShort"])

    @property
    def released_files(self) -> Mapping[str, Sequence[str]]:
        """Paths of the files of the selected datasets, by split."""
        return {split: tuple(f"{split}/{name}.jsonl" for name in self.subsets) for split in ("train", "dev")}

    @property
    def remote_files(self) -> Sequence[RemoteFile]:
        """Files of the selected datasets that can be downloaded."""
        destinations = {f"{file}.gz" for files in self.released_files.values() for file in files}
        return [file for file in super().remote_files if file.destination in destinations]

    def questions(self, file: str, content: bytes, problems: list[Problem]) -> Iterator[PassageQuestion]:
        """Yield the questions of a file, whose first line may be a header.

        See `PassageQuestions.questions`.
        """
        for key, entry in read_entries(file, content, problems):
            with note_damage(file, key, problems):
                passage = "" if "header" in entry else require_text(entry, "context")
                for question_entry in require_part(entry, "qas", list) if passage else ():
                    with note_damage(file, key, problems):
                        yield _mrqa_question(require_type(question_entry, dict, "a question"), passage)


def _mrqa_question(entry: Entry, passage: str) -> PassageQuestion:
    name, question = require_name(entry, "qid"), require_text(entry, "question")
    references = require_texts(entry.get("answers"), "answers")
    answers = require_part(entry, "detected_answers", list)
    spans = [span for answer in answers for span in _detected_spans(answer, passage)]
    return PassageQuestion(name, question, passage, spans, references=references)


def _detected_spans(answer: Entry, passage: str) -> Iterator[Span]:
    """Yield the positions at which an MRQA file locates an answer in its passage.

    Upper and lower case of the answer may differ.

    The end positions in the file are inclusive.

    Raises:
        DamagedEntryError: the answer does not occur at a span.
    """
    text = require_part(answer, "text", str)
    for positions in require_part(answer, "char_spans", list):
        if len(require_type(positions, list, "an answer position")) != 2:
            raise DamagedEntryError("an answer position is not [begin, end]")
        first, end = (require_type(index, int, "an answer position") for index in positions)
        if not 0 <= first <= end < len(passage):
            raise DamagedEntryError(f"the answer {text!r:.60} is not at characters {first} to {end} of the passage")
        span = Span(passage[first : end + 1], first)
        if not {*normalize_words(text)} & {*normalize_words(span.text)} and normalize_words(text):
            raise DamagedEntryError(f"the answer {text!r:.60} is not {span.text!r:.60} of the passage")
        yield span
