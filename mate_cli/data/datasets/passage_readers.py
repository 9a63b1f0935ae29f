"""Readers of questions about passages: each brings the layout of its files into one.

Source: Rajpurkar et al. 2016, "SQuAD: 100,000+ Questions for Machine Comprehension of Text"; Rajpurkar, Jia and Liang
2018, "Know What You Don't Know: Unanswerable Questions for SQuAD"; Miller et al. 2020, "The Effect of Natural
Distribution Shift on Question Answering Models"; Clark et al. 2020, "TyDi QA: A Benchmark for Information-Seeking
Question Answering in Typologically Diverse Languages"; Lewis et al. 2020, "MLQA: Evaluating Cross-lingual Extractive
Question Answering"; Fisch et al. 2019, "MRQA 2019 Shared Task: Evaluating Generalization in Reading Comprehension"
(mrqa/MRQA-Shared-Task-2019, README); Chen, Wang and Wang 2021, "A Dataset for Answering Time-Sensitive Questions";
Kwiatkowski et al. 2019, "Natural Questions"; Lamm et al. 2021, "QED"; Liu et al. 2024, "Lost in the Middle"; Longpre
et al. 2021, "Entity-Based Knowledge Conflicts in Question Answering"; Michael et al. 2018, "Crowdsourcing
Question-Answer Meaning Representations".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from operator import itemgetter
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator

from mate_cli.data.check import Problem, parse_json_as
from mate_cli.data.datasets.csv_tables import open_end, read_lines
from mate_cli.data.datasets.entries import (
    DamagedEntryError,
    find_name,
    find_text,
    note_damage,
    read_entries,
    require_list,
    require_name,
    require_part,
    require_text,
    require_texts,
    require_type,
)
from mate_cli.data.datasets.passage_questions import PassageQuestion, PassageQuestions, Span, find_occurrences
from mate_cli.data.download import RemoteFile
from mate_cli.data.question_contamination import normalize_words

Entry = Mapping[str, Any]
Subset = Literal["SQuAD", "NewsQA", "TriviaQA-web", "SearchQA", "HotpotQA", "NaturalQuestionsShort"]
"""Parts of MRQA that may be learnt from."""
SQUAD_FILES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "1.1": {"train": ("train-v1.1.json", "train-v1.1-part.json", "extra_train.json"), "dev": ("dev-v1.1.json",)},
    "2.0": {"train": ("train-v2.0.json",), "dev": ("dev-v2.0.json", "dev-v2.0-half.json")},
}
"""The files of the releases, and those of partial copies."""
QAMR_SENTENCES = "wiki-sentences.tsv"
QAMR_COLUMNS = 7
"""Sentence, key words, writer, number, key word, question, the writer's answer; then a column per validator."""
BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}", "``": '"', "''": '"'}
_TAGS = re.compile(r"\s*</?[A-Z][a-z0-9]*>\s*")


class SquadLayout(PassageQuestions):
    """Questions of SQuAD 1.1 or 2.0, or of files with its layout.

    Answers without a word are those that a release holds back.
    """

    def entries(self, file: str, content: bytes, problems: list[Problem]) -> Iterator[tuple[str, Entry]]:
        """Yield name or place of each question, and the question with its passage and title."""
        for name, article in _articles(file, content, problems):
            with note_damage(file, name, problems):
                title = find_text(require_type(article, dict, "it"), "title")
                for number, paragraph in enumerate(require_part(article, "paragraphs", list)):
                    yield from _questions_of(file, f"{title or name}, paragraph {number}", title, paragraph, problems)

    def question(self, file: str, key: str, entry: Entry) -> PassageQuestion:
        """Read one question, see `PassageQuestions`."""
        asked = require_type(entry["asked"], dict, "it")
        name, question = require_name(asked), require_text(asked, "question")
        return PassageQuestion(name, question, entry["context"], _squad_answers(asked), entry["title"])


def _articles(file: str, content: bytes, problems: list[Problem]) -> Iterator[tuple[str, Any]]:
    whole = parse_json_as(dict, "an object with a list of articles", file, content, problems)
    with note_damage(file, "", problems):
        articles = [] if whole is None else require_part(whole, "data", list)
        yield from ((f"article {place}", article) for place, article in enumerate(articles))


def _questions_of(
    file: str, key: str, title: str, paragraph: object, problems: list[Problem]
) -> Iterator[tuple[str, Entry]]:
    with note_damage(file, key, problems):
        context = require_text(require_type(paragraph, dict, "it"), "context")
        for place, asked in enumerate(require_part(paragraph, "qas", list)):
            name = find_name(asked) if isinstance(asked, dict) else ""
            yield name or f"{key}, question {place}", {"asked": asked, "context": context, "title": title}


def _squad_answers(entry: Entry) -> tuple[Span, ...] | None:
    """Return the answers of a question; None where they are held back.

    Raises:
        DamagedEntryError: they are missing, or of other types.
    """
    if require_type(entry.get("is_impossible", False), bool, "is_impossible"):
        return ()
    parts = (
        (require_part(answer, "text", str), require_part(answer, "answer_start", int))
        for answer in require_part(entry, "answers", list)
    )
    spans = tuple(Span(*part) for part in parts)
    visible = tuple(span for span in spans if span.text.strip())
    return None if spans and not visible else visible


@dataclass(eq=False, kw_only=True)
class SQuAD(SquadLayout):
    """Questions about paragraphs of Wikipedia; in 2.0, half of them have no answer.

    Args:
        version: of the release.
    """

    version: Annotated[Literal["1.1", "2.0"], BeforeValidator(str)] = "1.1"

    @property
    def released_files(self) -> Mapping[str, Sequence[str]]:
        """The files of the version."""
        return SQUAD_FILES[str(self.version)]


@dataclass(eq=False, kw_only=True)
class SquadShifts(SquadLayout):
    """SQuADShifts: new articles of Wikipedia and of a newspaper, comments and reviews.

    Made to test readers; here there is more to learn from in it.
    """

    released_files: ClassVar[Mapping[str, Sequence[str]]] = {
        "train": ("new_wiki_v1.0.json", "nyt_v1.0.json", "reddit_v1.0.json", "amazon_reviews_v1.0.json")
    }

    held_out: float = 0.05


@dataclass(eq=False, kw_only=True)
class TyDiQA(SquadLayout):
    """TyDi QA with gold passages, and MLQA: questions that people wanted to know the answer of.

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
        """Read the questions of a file that are asked in the language, see `PassageQuestions`.

        Ids that name no language are those of MLQA, or of copies that have numbers instead, which are not unique: such
        questions are called by their place, and of the language of the file.
        """
        for place, question in enumerate(super().questions(file, content, problems)):
            language, _, rest = question.name.partition("-")
            if not rest:
                yield replace(question, name=f"{file.removesuffix('.json')}/{place}")
            elif self.language in (None, language):
                yield question


@dataclass(eq=False, kw_only=True)
class MRQA(PassageQuestions):
    """Questions of some of the six datasets that the shared task trained on, a line for each passage.

    Args:
        subsets: which ones; only their files are read and fetched.
    """

    subsets: Sequence[Subset] = field(default_factory=lambda: ["NaturalQuestionsShort"])

    @property
    def released_files(self) -> Mapping[str, Sequence[str]]:
        """The files of the subsets."""
        return {split: tuple(f"{split}/{name}.jsonl" for name in self.subsets) for split in ("train", "dev")}

    @property
    def remote_files(self) -> Sequence[RemoteFile]:
        """The files of the subsets that are fetched."""
        needed = {f"{file}.gz" for files in self.released_files.values() for file in files}
        return [file for file in super().remote_files if file.destination in needed]

    def entries(self, file: str, content: bytes, problems: list[Problem]) -> Iterator[tuple[str, Entry]]:
        """Yield the line of each question, and the question with its passage; the first line may be a header."""
        for key, entry in read_entries(file, content, problems):
            with note_damage(file, key, problems):
                if "header" not in entry:
                    passage = require_text(entry, "context")
                    questions = require_part(entry, "qas", list)
                    yield from ((key, {"asked": question, "context": passage}) for question in questions)

    def question(self, file: str, key: str, entry: Entry) -> PassageQuestion:
        """Read one question, see `PassageQuestions`."""
        asked, passage = require_type(entry["asked"], dict, "a question"), entry["context"]
        name, question = require_name(asked, "qid"), require_text(asked, "question")
        references = require_texts(asked.get("answers"), "answers")
        answers = require_part(asked, "detected_answers", list)
        spans = [span for answer in answers for span in _detected_spans(answer, passage)]
        return PassageQuestion(name, question, passage, spans, references=references)


def _detected_spans(answer: Entry, passage: str) -> Iterator[Span]:
    """Yield where an answer stands; ends are those of its last characters. Its words may be in other cases there.

    Raises:
        DamagedEntryError: it stands nowhere.
    """
    text = require_part(answer, "text", str)
    for place in require_part(answer, "char_spans", list):
        if len(require_type(place, list, "an answer position")) != 2:
            raise DamagedEntryError("an answer position is not [begin, end]")
        begin, end = (require_type(index, int, "an answer position") for index in place)
        if not 0 <= begin <= end < len(passage):
            raise DamagedEntryError(f"the answer {text!r:.60} is not at characters {begin} to {end} of the passage")
        span = Span(passage[begin : end + 1], begin)
        if not {*normalize_words(text)} & {*normalize_words(span.text)} and normalize_words(text):
            raise DamagedEntryError(f"the answer {text!r:.60} is not {span.text!r:.60} of the passage")
        yield span


@dataclass(eq=False, kw_only=True)
class TimeQA(PassageQuestions):
    """Questions that people wrote about long articles, easy and hard, whose answers depend on the time they name."""

    released_files: ClassVar[Mapping[str, Sequence[str]]] = {
        "train": ("human_train.easy.jsonl", "human_train.hard.jsonl")
    }

    held_out: float = 0.05

    def question(self, file: str, key: str, entry: Entry) -> PassageQuestion:
        """Read one question, see `PassageQuestions`; none of its answers is left where nothing answers it."""
        name = f"{require_text(entry, 'idx')}/{file.split('.')[-2]}"
        title = name.split("/")[2].partition("#")[0] if name.startswith("/wiki/") else ""
        passage, question = require_text(entry, "context"), require_text(entry, "question")
        texts, starts, ends = (require_part(entry, key, list) for key in ("targets", "from", "end"))
        if not len(texts) == len(starts) == len(ends):
            raise DamagedEntryError("targets, from and end are not of the same length")
        parts = zip(texts, starts, ends, strict=True)
        spans = [_bounded_span(text, start, end, "a target", "its place", "its end") for text, start, end in parts]
        return PassageQuestion(name, question, passage, tuple(span for span in spans if span.text.strip()), title)


def _bounded_span(text: object, start: object, end: object, *names: str) -> Span:
    """Return an answer whose end is known; `names` say what its parts are.

    Raises:
        DamagedEntryError: a part is of another type, or the text of another length.
    """
    span = Span(require_type(text, str, names[0]), require_type(start, int, names[1]))
    if require_type(end, int, names[2]) - span.start != len(span.text):
        raise DamagedEntryError(f"the answer {span.text!r:.60} does not end at character {end}")
    return span


@dataclass(eq=False, kw_only=True)
class NaturalQuestionsShort(PassageQuestions):
    """Natural Questions with short answers: QED, oracle passages of NQ-open, and NQ-swap; an entry shows which it is.

    In NQ-swap the answer is another one of its kind, everywhere in the passage: it has to be read, not known.
    """

    released_files: ClassVar[Mapping[str, Sequence[str]]] = {
        "train": (
            "qed-train.jsonlines",
            "qed-dev.jsonlines",
            "nq-open-oracle.jsonl",
            "nq-swap/train.json",
            "nq-swap/dev.json",
            "nq-swap/test.json",
        )
    }

    held_out: float = 0.05

    def question(self, file: str, key: str, entry: Entry) -> PassageQuestion:
        """Read one question, see `PassageQuestions`."""
        name = f"{file.partition('.')[0]}/{key.partition(' ')[2]}"
        if "paragraph_text" in entry:
            return _qed_question(name, entry)
        if "ctxs" in entry:
            document = require_type(require_list(entry, "ctxs")[0], dict, "a passage of ctxs")
            passage, question = require_text(document, "text"), require_text(entry, "question")
            answers = require_texts(require_list(entry, "answers"), "answers")
            title = find_text(document, "title")
            return PassageQuestion(name, question, passage, _find_spans(answers, passage), title, answers)
        passage, question = _TAGS.sub(" ", require_text(entry, "context")).strip(), require_text(entry, "question")
        return PassageQuestion(name, question, passage, _find_spans([require_text(entry, "answer")], passage))


def _qed_question(name: str, entry: Entry) -> PassageQuestion:
    passage, title = require_text(entry, "paragraph_text"), find_text(entry, "title_text")
    annotators = [
        [_qed_span(answer) for answer in require_type(some, list, "an answer")]
        for some in require_list(entry, "original_nq_answers")
    ]
    # An annotator who marks several spans means all of them, as a list: of these none alone is the answer.
    spans = [some[0] for some in annotators if len(some) == 1] or [span for some in annotators for span in some][:1]
    return PassageQuestion(name, require_text(entry, "question_text"), passage, spans or None, title)


def _qed_span(answer: object) -> Span:
    answer = require_type(answer, dict, "what holds string")
    return _bounded_span(answer.get("string"), answer.get("start"), answer.get("end"), "string", "start", "end")


def _find_spans(answers: Sequence[str], passage: str) -> list[Span]:
    spans = find_occurrences(answers, passage)
    if not spans:
        raise DamagedEntryError(f"the answer {answers[0]!r:.60} is not in its passage")
    return spans


@dataclass(eq=False)
class QAMR(PassageQuestions):
    """Questions about the words of a sentence, for every word with a meaning of its own: up to dozens of a sentence.

    Answers are words that follow each other; an annotator whose words do not is not counted.
    """

    released_files: ClassVar[Mapping[str, Sequence[str]]] = {
        "train": ("filtered/train.tsv", "filtered/dev.tsv"),
        "dev": ("filtered/test.tsv",),
    }

    def questions(self, file: str, content: bytes, problems: list[Problem]) -> Iterator[PassageQuestion]:
        """Read the questions of a file that have an answer, see `PassageQuestions`."""
        return (question for question in super().questions(file, content, problems) if question.answers)

    def entries(self, file: str, content: bytes, problems: list[Problem]) -> Iterator[tuple[str, Entry]]:
        """Yield each line with its fields and the words of its sentence."""
        sentences, damaged = self._sentences(problems)
        lines = [line.split("\t") for line in read_lines(file, content, problems)]
        known, width = len(problems), max(Counter(map(len, lines)).items(), key=itemgetter(1), default=(0, 0))[0]
        for number, fields in enumerate(lines, 1):
            key = f"line {number}"
            if len(fields) < QAMR_COLUMNS:
                problems.append(Problem(file, key, f"has {len(fields)} columns, not {QAMR_COLUMNS} or more"))
            elif fields[0] in sentences:
                if len(fields) < width:
                    self.suspicions.append(Problem(file, key, f"has {len(fields)} columns, most lines {width}"))
                yield key, {"fields": fields, "words": sentences[fields[0]]}
            elif not damaged:  # else that is the cause
                problems.append(Problem(file, key, f"its sentence {fields[0]!r} is not in {QAMR_SENTENCES}"))
        if lines and len(problems) == known and len(lines[-1]) == width:
            self.suspicions += open_end(file, content)

    def question(self, file: str, key: str, entry: Entry) -> PassageQuestion:
        """Read one line, see `PassageQuestions`."""
        fields, words = entry["fields"], entry["words"]
        name = f"{PurePosixPath(file).name.partition('.')[0]}/{key.partition(' ')[2]}"
        spans = _word_spans(fields[0], words, fields[QAMR_COLUMNS - 1 :])
        return PassageQuestion(name, fields[5], " ".join(words), spans)

    def _sentences(self, problems: list[Problem]) -> tuple[dict[str, list[str]], bool]:
        """Return the words of each sentence, by its id; and whether some are damaged."""
        known, sentences = len(problems), dict[str, list[str]]()
        for number, line in enumerate(read_lines(QAMR_SENTENCES, self.need(QAMR_SENTENCES), problems), 1):
            name, _, words = line.partition("\t")
            if not words.strip():
                problems.append(Problem(QAMR_SENTENCES, f"line {number}", "has no sentence behind its id"))
            elif name in sentences:
                problems.append(Problem(QAMR_SENTENCES, f"line {number}", f"the sentence {name!r} occurs twice"))
            else:
                sentences[name] = [BRACKETS.get(word, word) for word in words.split(" ")]
        return sentences, len(problems) > known


def _word_spans(sentence: str, words: Sequence[str], answers: Sequence[str]) -> list[Span]:
    """Find the answers of the writer and of the validators, each as indices of words, some of which come with a number.

    Raises:
        DamagedEntryError: one names a word that is not in the sentence.
    """
    starts = [0, *accumulate(len(word) + 1 for word in words)]
    spans = []
    for answer in answers:
        indices = answer.rpartition(":")[2].split()
        places = sorted(int(index) for index in indices if index.isdecimal())
        if places and places[-1] >= len(words):
            what = f"an answer names word {places[-1]}, from 0, of the {len(words)} words of"
            raise DamagedEntryError(f"{what} {sentence!r} in {QAMR_SENTENCES}")
        if len(places) == len(indices) and places and places == list(range(places[0], places[-1] + 1)):
            spans.append(Span(" ".join(words[places[0] : places[-1] + 1]), starts[places[0]]))
    return spans
