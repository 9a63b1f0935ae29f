"""Examples: a question about a table, document or text, with its known answer."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from mate_cli.tables.table import Table

AGGREGATIONS = ("none", "sum", "average", "count")
"""Names of the operations on selected cells. The index of a name is the class index of the aggregation head, as in
google-research/tapas (`Interaction.Answer`)."""

Coordinates = tuple[tuple[int, int], ...]
"""(row, column) of body cells, both indices from 0."""
USER_SUBSET = "subset/"
"""Prefix of user-defined subsets in metric names, as in `dev/accuracy/subset/easy`."""
VERDICTS = ("refuted", "entailed")
"""Names of the two classes of table entailment. The index of a name is the label."""
INFERENCES = (*VERDICTS, "neutral")
"""Names of the three classes of InfoTabS. The first two are those of table entailment."""
LABELS = {
    **dict.fromkeys(("1", "true", "yes", "entailed", "supported", "supports"), 1),
    **dict.fromkeys(("0", "false", "no", "refuted", "refutes"), 0),
}
"""Entailment label (index of `VERDICTS`) by each lower-case name that data files may use for it."""
SCALES = ("", "thousand", "million", "billion", "percent")
"""Scales of the numbers of an answer in TAT-QA. "" means none."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The gold answer to a question, in all forms that the dataset states. Fields with default values are unknown.

    Args:
        texts: answer texts of the dataset. Empty if the dataset states that the question has no answer.
        coordinates: (row, column) of the body cells that contain the answer, both from 0. For HybridQA, the candidate
            cells of the marginal likelihood.
        source: location of the answer: "table", "passage" or "missing". If `supervise` derives no label, the reason.
        aggregation: one of `AGGREGATIONS`, or None if the dataset states none.
        number: the answer as a number, or None if the answer is not one number.
        label: for a statement, 1 if the table entails it and 0 if the table refutes it. For a question with options,
            the index of the correct option, from 0.
        canonical: for each text, its value in the official evaluation of the dataset: a number, a date (yyyy-mm-dd)
            or the text itself.
        span: [start, end) of the answer in the text of the first cell of `coordinates`, in characters. If None, the
            first occurrence is used.
    """

    texts: tuple[str, ...]
    coordinates: Coordinates = ()
    source: str = ""
    aggregation: str | None = None
    number: float | None = None
    label: int | None = None
    canonical: tuple[str, ...] = ()
    span: tuple[int, int] | None = None

    @property
    def is_null(self) -> bool:
        """True if the dataset states that the question has no answer."""
        has_content = self.texts or self.coordinates or self.source
        return not has_content and self.number is None and self.label is None


@dataclass(frozen=True, slots=True)
class SystemAnswer:
    """The answer of an external system to one question, as supplied by the user.

    Args:
        texts: texts of the answer, or a label, an option or a query.
        cells: (row, column) of body cells, both from 0, instead of texts. A ranking has the best cell first.
        aggregation: aggregation of the cells, one of `AGGREGATIONS`.
        supporting: sentences that support the answer, each as (title or row of its document, index of the sentence).
        confidence: confidence in the answer, from 0 to 1.
        cost: cost of the answer, in any unit.
        scale: scale of the numbers of the answer, one of `SCALES`.
    """

    texts: tuple[str, ...] = ()
    cells: Coordinates = ()
    aggregation: str = "none"
    supporting: tuple[tuple[str | int, int], ...] = ()
    confidence: float | None = None
    cost: float | None = None
    scale: str = ""


class DocumentLink(NamedTuple):
    """A link from one document to another document.

    Args:
        source: row of the document that contains the link, from 0.
        target: row of the linked document, from 0.
        text: text around the link. Empty if the dataset has no such text.
    """

    source: int
    target: int
    text: str = ""


NOT_GIVEN, UNUSABLE = "not given", "unusable: "
"""Values of `TableExample.outcome` for an example without a usable label. `NOT_GIVEN`: the dataset has no answer.
`UNUSABLE`: prefix of the reason why the answer is no training signal."""
UNANSWERABLE = "no answer in this table"
"""Value of `TableExample.outcome` for a question that its table does not answer. Also shown to users if a model
predicts that the table does not answer their question."""


@dataclass(frozen=True, slots=True)
class TableExample:
    """One question about one table, set of documents or text, with its answer.

    For a question about documents, each row is a document: a cell with its title and a link to its text. For a
    question with options, the text that it is about is a table of one cell. Subclasses with more fields override
    `outcome` and `sizes`, which check and describe datasets. Default values mean that the dataset has no such data.

    Args:
        example_id: identifier of the example.
        question: text of the question.
        table: table of the question.
        answer: gold answer, or None if unknown.
        question_tags: part-of-speech tags of the words of the question, separated by spaces.
        conversation: identifier of the conversation that contains the question.
        history: previous questions of the conversation, oldest first.
        previous_cells: (row, column) of the cells that answer the previous question.
        subsets: parts of the split that are also scored separately, such as "simple". The names of user-defined
            subsets start with `USER_SUBSET`, to distinguish them from subsets of a paper.
        options: answer options, in order. Empty for a question without options.
        sentences: sentences of each row, as the dataset splits its text.
        supporting: (row, sentence) of the sentences that support the answer, both from 0. A missing document or
            sentence has an index after the last row or sentence.
        links: links between the documents.
        unjudged: rows without a judgment of whether they contain the answer.
        answers_by_words: whether the answers yes and no are scored by word overlap too, as in the script of MuSiQue.
            The script of HotpotQA scores them as correct or wrong.
    """

    example_id: str
    question: str
    table: Table
    answer: Answer | None = None
    question_tags: str = ""
    conversation: str = ""
    history: tuple[str, ...] = ()
    previous_cells: Coordinates = ()
    subsets: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    sentences: tuple[tuple[str, ...], ...] = ()
    supporting: tuple[tuple[int, int], ...] = ()
    links: tuple[DocumentLink, ...] = ()
    unjudged: tuple[int, ...] = ()
    answers_by_words: bool = False

    @property
    def outcome(self) -> str:
        """Type of the training label of this example as text, such as "cells" or "entailed".

        Examples are "cells", "cells or number", "entailed", "option" and `UNANSWERABLE`. Without a usable label it is
        `NOT_GIVEN`, or `UNUSABLE` followed by the reason.
        """
        answer = self.answer
        if answer is None:
            return NOT_GIVEN
        if answer.label is not None:
            return "option" if self.options else INFERENCES[answer.label]
        if answer.is_null:
            return UNANSWERABLE
        number = answer.number is not None and not math.isnan(answer.number)
        labels = [name for name, value in (("cells", answer.coordinates), ("number", number)) if value]
        return " or ".join(labels) or f"{UNUSABLE}{answer.source or 'neither cells nor number'}"

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes of the question, options and answer, such as {"words in a question": 9}.

        The size of options is their mean length in words. Sizes of the table are not included.
        """
        sizes = {"words in a question": len(self.question.split())}
        if self.options:
            words = sum(len(text.split()) for text in self.options) // len(self.options)
            return sizes | {"options": len(self.options), "words in an option": words}
        cells = len(self.answer.coordinates) if self.answer else 0
        return sizes | ({"cells in an answer": cells} if cells else {})


@dataclass(frozen=True, slots=True)
class ScaledExample(TableExample):
    """An example whose answer numbers have a scale, such as "million" or "percent".

    Args:
        scale: scale of the numbers of the gold answer, one of `SCALES`.
    """

    scale: str = ""


@dataclass(frozen=True, slots=True)
class DescribedExample(TableExample):
    """An example that asks for a description of cells.

    Args:
        highlighted: texts of the cells to describe, which may be in the header.
    """

    highlighted: tuple[str, ...] = ()


def group_by_table(examples: Iterable[TableExample]) -> list[list[int]]:
    """Group examples that share a `Table` object. Return one list of example indices per table, in order."""
    groups: dict[int, list[int]] = defaultdict(list)
    for index, example in enumerate(examples):
        groups[id(example.table)].append(index)
    return list(groups.values())
