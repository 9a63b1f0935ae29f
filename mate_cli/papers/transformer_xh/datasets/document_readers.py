"""Datasets of multi-document questions: HotpotQA, its graphs of pages, and MuSiQue.

Source: Yang et al. 2018, "HotpotQA: A Dataset for Diverse, Explainable Multi-hop Question Answering"; Trivedi et al.
2022, "MuSiQue: Multihop Questions via Single-hop Question Composition"; microsoft/Transformer-XH, `data/hotpotqa.py`,
for the graphs. A file of graphs has one object per line with `qid`, `question`, `node` (`full_name` or `name`,
`context` in word pieces, `is_ans`, `spans` of the context) and `edge` (`start`, `end`, `sent`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

from mate_cli.data.check import Problem
from mate_cli.data.datasets.file_formats import (
    DamagedEntryError,
    find_name,
    find_text,
    note_damage,
    read_entries,
    require_list,
    require_name,
    require_text,
    require_texts,
    require_type,
)
from mate_cli.data.datasets.release import Release
from mate_cli.errors import DataError
from mate_cli.tables.example import Answer, DocumentLink, TableExample
from mate_cli.tables.table import Cell, Table

HEADER = (Cell("document"),)


@dataclass(eq=False, kw_only=True)
class DocumentQuestions(Release):
    """Base class of readers of questions about several documents, in JSON or JSON lines files.

    Args:
        train_file: training questions, relative to the root; None for none.
        dev_file: questions of the dev split. May equal `train_file`, to overfit.
        test_file: questions of the test split.
    """

    metric = "mate_cli.papers.transformer_xh.metrics.supporting.SupportedAnswers"
    unit = "documents"

    train_file: str | None = None
    dev_file: str | None = None
    test_file: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.train_file or self.dev_file or self.test_file):
            raise DataError("no file was given", where=self.name, remedy="Set data.train_file, dev_file or test_file")

    @property
    def split_files(self) -> Mapping[str, str]:
        """Path of the question file of each split."""
        files = {"train": self.train_file, "dev": self.dev_file, "test": self.test_file}
        return {split: file for split, file in files.items() if file}

    def read(self, split: str, problems: list[Problem]) -> list[TableExample]:
        """Return the valid questions of a split in file order, see `Release.read`."""
        file = self.split_files[split]
        examples = []
        for key, entry in read_entries(file, self.need(file), problems):
            with note_damage(file, find_name(entry) or key, problems):
                examples.append(self.example(file, key, entry, problems))
        return examples

    @abstractmethod
    def example(self, file: str, key: str, entry: Mapping[str, Any], problems: list[Problem]) -> TableExample:
        """Convert one entry of a question file to an example.

        Args:
            file: name of the file, for messages.
            key: fallback name of the entry, for messages.
            entry: the parsed entry.
            problems: list to which problems of a usable entry are appended.

        Raises:
            DamagedEntryError: the entry is unusable.
        """


def document_example(
    name: str,
    question: str,
    documents: Sequence[tuple[str, Sequence[str]]],
    answers: Sequence[str] | None,
    rows: Sequence[int],
    **fields: Any,
) -> TableExample:
    """Create an example of a question about documents. Each document is a table row with one cell and one passage.

    Args:
        name: id of the example and its table.
        question: the question.
        documents: title and sentences of each document.
        answers: the gold answer and its aliases. None: the answer is unknown.
        rows: indices of the documents that lead to the answer, from 0.
        **fields: further fields of `TableExample`.
    """
    links = [f"{index}/{title}" for index, (title, _) in enumerate(documents)]
    table = Table(
        table_id=name,
        header=HEADER,
        rows=tuple((Cell(title, (link,)),) for link, (title, _) in zip(links, documents, strict=True)),
        passages={link: "".join(texts) for link, (_, texts) in zip(links, documents, strict=True)},
    )
    sentences = tuple(tuple(text.strip() for text in texts) for _, texts in documents)
    coordinates = tuple((row, 0) for row in sorted(set(rows)))
    answer = None if answers is None else Answer(tuple(answers), coordinates, "passage" if coordinates else "missing")
    return TableExample(name, question, table, answer, sentences=sentences, **fields)


@dataclass(eq=False, kw_only=True)
class HotpotQA(DocumentQuestions):
    """Reader of HotpotQA: questions about paragraphs, or about graphs of pages, of Wikipedia.

    The format is detected per entry. Subsets are the type of a question (bridge, comparison) and its level (easy,
    medium, hard). Graphs contain neither subsets nor answer strings. Both are read from the official files if these
    contain the question.

    Args:
        setting: "distractor": the paragraphs contain the supporting facts; "fullwiki": the paragraphs are search
            results, with or without the supporting facts.
        answer_files: official files with the questions of the graphs.
    """

    train_file: str | None = "hotpot_train_v1.1.json"
    dev_file: str | None = "hotpot_dev_distractor_v1.json"
    test_file: str | None = "hotpot_test_fullwiki_v1.json"
    setting: Literal["distractor", "fullwiki"] = "distractor"
    answer_files: Sequence[str] = ()

    def example(self, file: str, key: str, entry: Mapping[str, Any], problems: list[Problem]) -> TableExample:
        """Convert one entry of a file, with paragraphs or a graph, to an example. See `DocumentQuestions`."""
        if "node" in entry:
            return graph_example(entry, self._answers.get(find_name(entry), {}))
        return paragraphs_example(entry, lost_facts=self.setting == "fullwiki")

    @cached_property
    def _answers(self) -> dict[str, Mapping[str, Any]]:
        """Entries of the official question files by question id, which supply missing answers.

        The files with graphs have no answers.
        """
        return {
            find_name(entry): entry
            for file in self.answer_files
            for _, entry in read_entries(file, self.need(file), [])
        }


def paragraphs_example(entry: Mapping[str, Any], *, lost_facts: bool) -> TableExample:
    """Convert an entry of the official HotpotQA files, a question with its paragraphs, to an example.

    A question without an answer belongs to the test split. Supporting facts with a missing sentence, which occur in the
    release, or with a paragraph that the search did not find are kept. They count as missed, as in the official script.

    Args:
        entry: the parsed entry.
        lost_facts: if true, the paragraphs need not contain any supporting fact.

    Raises:
        DamagedEntryError: the entry is unusable.
    """
    name, question = require_name(entry, "_id"), require_text(entry, "question")
    documents = [_paragraph(part) for part in require_list(entry, "context")]
    answer = entry.get("answer")
    if answer is not None:
        answer = require_text(entry, "answer")
    supporting_facts = _parse_facts(entry.get("supporting_facts", [] if answer is None else None))
    titles = [title for title, _ in documents]
    titles += [title for title, _ in supporting_facts if title not in titles]
    supporting = tuple((titles.index(title), number) for title, number in supporting_facts)
    rows = [row for row, _ in supporting if row < len(documents)]
    if answer and not rows and not lost_facts:
        raise DamagedEntryError("no supporting fact is in its paragraphs (allowed with data.setting=fullwiki)")
    subsets = tuple(filter(None, (find_text(entry, kind) for kind in ("type", "level"))))
    return document_example(
        name, question, documents, answer and (answer,), rows, supporting=supporting, subsets=subsets
    )


def _paragraph(part: object) -> tuple[str, tuple[str, ...]]:
    match part:
        case [str(title), list(texts)] if all(isinstance(text, str) for text in texts):
            return title, tuple(texts)
        case _:
            raise DamagedEntryError("a paragraph of context is not [title, sentences]")


def _parse_facts(parts: object) -> list[tuple[str, int]]:
    if not isinstance(parts, list):
        raise DamagedEntryError("supporting_facts is not a list")
    supporting_facts = [(part[0], part[1]) for part in parts if isinstance(part, list) and len(part) == 2]
    if len(supporting_facts) < len(parts) or not all(
        isinstance(t, str) and type(n) is int and n >= 0 for t, n in supporting_facts
    ):
        raise DamagedEntryError("a supporting fact is not [title, sentence]")
    return supporting_facts


def graph_example(entry: Mapping[str, Any], official: Mapping[str, Any]) -> TableExample:
    """Convert an entry of a graph file to an example. Its pages are rows, in the order of the nodes of the graph.

    The answer is the official answer if known, else the text of the first span.

    Args:
        entry: the parsed graph.
        official: the same question in the official files; empty if unknown.

    Raises:
        DamagedEntryError: the entry is unusable.
    """
    nodes = [_node(part) for part in require_list(entry, "node")]
    documents = [(title, (text_of_pieces(context),)) for title, context, _, _ in nodes]
    rows = [row for row, (_, _, judged, _) in enumerate(nodes) if judged == 1]
    spans = [
        text_of_pieces(context[start : end + 1])
        for _, context, judged, (start, end) in nodes
        if judged == 1 and 0 <= start <= end < len(context)
    ]
    answer = official.get("answer") or next(iter(spans), None)
    return document_example(
        require_name(entry, "qid"),
        require_text(entry, "question"),
        documents,
        None if answer is None else (answer, *(text for text in spans if text != answer)),
        rows,
        links=_links(entry.get("edge", []), len(nodes)),
        unjudged=tuple(row for row, (_, _, judged, _) in enumerate(nodes) if judged not in (0, 1)),
        subsets=tuple(str(official[kind]) for kind in ("type", "level") if official.get(kind)),
    )


def text_of_pieces(tokens: Sequence[str]) -> str:
    """Join BERT's word pieces to a text with the usual spaces around words and punctuation."""
    return " ".join(tokens).replace(" ##", "")


def _node(part: object) -> tuple[str, list[str], int, tuple[int, int]]:
    if not isinstance(part, dict):
        raise DamagedEntryError("a node is not an object")
    context = part.get("context")
    title = (find_text(part, "full_name") or find_text(part, "name")).replace("_", " ")
    if not isinstance(context, list) or not all(isinstance(word, str) for word in context):
        raise DamagedEntryError(f"the context of node {title!r} is not a list of word pieces")
    judged = require_type(part.get("is_ans", -1), int, f"is_ans of node {title!r}")
    match part.get("spans", []):
        case []:
            return title, context, judged, (-1, -1)
        case [[int(start), int(end)], *_]:
            return title, context, judged, (start, end)
        case _:
            raise DamagedEntryError(f"spans of node {title!r} are not a list of [begin, end]")


def _links(parts: object, nodes: int) -> tuple[DocumentLink, ...]:
    """Convert the edges of a graph to links between rows, one per sentence that mentions another page."""
    if not isinstance(parts, list):
        raise DamagedEntryError("edge is not a list")
    links: dict[DocumentLink, None] = {}
    for part in parts:
        edge = require_type(part, dict, "an edge")
        start, end = (require_type(edge.get(key), int, f"{key} of an edge") for key in ("start", "end"))
        link = DocumentLink(start, end, find_text(edge, "sent"))
        if not (0 <= link.source < nodes and 0 <= link.target < nodes):
            raise DamagedEntryError(f"an edge joins nodes {link.source} and {link.target}, but there are {nodes} nodes")
        links[link] = None
    return tuple(links)


@dataclass(eq=False, kw_only=True)
class MuSiQue(DocumentQuestions):
    """Reader of MuSiQue-Ans. The unanswerable questions of MuSiQue-Full are excluded.

    A supporting paragraph counts as one sentence. Subsets are the numbers of hops. Answers, including yes and no, are
    scored by words only, as in the authors' script.
    """

    folders: ClassVar[Sequence[str]] = ("", "data")

    train_file: str | None = "musique_ans_v1.0_train.jsonl"
    dev_file: str | None = "musique_ans_v1.0_dev.jsonl"
    test_file: str | None = "musique_ans_v1.0_test.jsonl"

    def example(self, file: str, key: str, entry: Mapping[str, Any], problems: list[Problem]) -> TableExample:
        """Convert one entry of a file to an example. See `DocumentQuestions`."""
        name, question = require_name(entry), require_text(entry, "question")
        paragraphs = require_list(entry, "paragraphs")
        if not all(isinstance(part, dict) for part in paragraphs):
            raise DamagedEntryError("a paragraph is not an object")
        documents = [(require_text(part, "title"), (require_text(part, "paragraph_text"),)) for part in paragraphs]
        rows = [row for row, part in enumerate(paragraphs) if part.get("is_supporting")]
        answer = entry.get("answer")
        # Only MuSiQue-Full has this key. Its unanswerable questions repeat the answer of their answerable twin.
        answerable = entry.get("answerable", True)
        judged = [answerable, *(part.get("is_supporting") for part in paragraphs)]
        if answer is not None and not all(isinstance(label, bool) for label in judged):
            raise DamagedEntryError("answerable or is_supporting is neither true nor false")
        if answer is not None and answerable and not rows:
            raise DamagedEntryError("no paragraph supports its answer")
        aliases = require_texts(entry.get("answer_aliases", []), "answer_aliases")
        answers = None if answer is None else (require_text(entry, "answer"), *aliases) if answerable else ()
        supporting = tuple((row, 0) for row in rows) if answers else ()
        subsets = (name.partition("__")[0][:4],)
        fields = {"supporting": supporting, "subsets": subsets, "answers_by_words": True}
        return document_example(name, question, documents, answers, rows, **fields)

    def skip_reason(self, example: TableExample) -> str:
        """Return "without an answer" for an unanswerable question, else ""."""
        return "" if example.answer is None or example.answer.texts else "without an answer"
