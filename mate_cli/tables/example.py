"""A question, about a table or anything else, with what is known of its answer."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from mate_cli.tables.table import Table

AGGREGATIONS = ("none", "sum", "average", "count")
"""What is done with the selected cells; the place is the id (google-research/tapas, `Interaction.Answer`)."""

Coordinates = tuple[tuple[int, int], ...]
"""(row, column) of body cells, both from 0."""
USER_SUBSET = "subset/"
"""The prefix of the names of user-defined subsets in metrics, as in `dev/accuracy/subset/easy`."""
VERDICTS = ("refuted", "entailed")
"""Verdicts on a statement; the place is the label."""
LABELS = {
    **dict.fromkeys(("1", "true", "yes", "entailed", "supported", "supports"), 1),
    **dict.fromkeys(("0", "false", "no", "refuted", "refutes"), 0),
}
"""What labels of statements may be called, in lower case."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Known parts of an answer.

    Args:
        texts: the answer as the dataset states it; none where it says that nothing answers the question.
        coordinates: (row, column) of the body cells that hold it; both start at 0. For HybridQA these
            are the candidate cells of the marginal likelihood.
        source: where the answer is found: "table", "passage" or "missing"; empty when the dataset does not say.
        aggregation: one of `AGGREGATIONS`, where the dataset says it.
        number: the answer as one number, where it is one.
        label: of a statement, 1 when the table entails it and 0 when it refutes it; of options, the place of the right
            one, from 0.
        canonical: of each text, what the dataset's own evaluation takes it for: a number, a date as yyyy-mm-dd, or
            the text itself; empty where the dataset does not say.
        span: where the answer stands in the text of the first of `coordinates`, as its first character and the one
            behind its last; None where the dataset does not say, and the first occurrence is taken.
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
        """True if the dataset says that nothing answers the question."""
        known = self.texts or self.coordinates or self.source
        return not known and self.number is None and self.label is None


@dataclass(frozen=True, slots=True)
class SystemAnswer:
    """An answer of any system, as its user hands it in.

    Args:
        texts: the answer, a label, an option or a query.
        cells: (row, column) of body cells, both from 0, in place of texts; of a ranking the best first.
        aggregation: what is done with the cells, one of `AGGREGATIONS`.
        supporting: the sentences that lead to the answer: the title of their document or its row, and their place.
        confidence: from 0 to 1.
        cost: in any unit.
    """

    texts: tuple[str, ...] = ()
    cells: Coordinates = ()
    aggregation: str = "none"
    supporting: tuple[tuple[str | int, int], ...] = ()
    confidence: float | None = None
    cost: float | None = None


class DocumentLink(NamedTuple):
    """One document links to another.

    Args:
        source: row of the document with the link, from 0.
        target: row of the document that it leads to.
        text: what stands around the link; empty where the data do not say.
    """

    source: int
    target: int
    text: str = ""


NOT_GIVEN, UNUSABLE = "not given", "unusable: "
"""What is known of an answer that teaches nothing: it is missing, or of no use, and why stands behind."""
UNANSWERABLE = "no answer in this table"
"""Kind of label of a question that nothing in its table answers, and what is shown if a model says so."""


@dataclass(frozen=True, slots=True)
class TableExample:
    """One question about one table; of one about documents each row is a document, a cell with its title and a link.

    The text that a question with options is about is a table of one cell. A kind of example with more fields overrides
    `outcome` and `sizes`, by which datasets are checked and described.

    Args:
        answer: None when it is not known.
        question_tags: part-of-speech tags of the question's words, parted by spaces, where the dataset has them.
        conversation: the sequence of questions that this one belongs to.
        history: the questions before this one in its conversation, the first one first.
        previous_cells: the cells that answer the question before.
        subsets: parts of its split that are also scored separately, such as "simple". A user-defined one has
            `USER_SUBSET` before its name, so that it is never taken for one of a paper.
        options: to choose from, in their order; none of a question that is answered freely.
        sentences: of each row, its text in sentences, as the data part it; none where they do not.
        supporting: (row, sentence) of the sentences that lead to the answer, both from 0; also of those that are not
            among the documents, behind the last row or sentence.
        links: which document links to which, where the data say so.
        unjudged: rows of which nobody knows whether they hold the answer.
        answers_by_words: yes and no are scored by the words of an answer, too, as by the script of MuSiQue; by that of
            HotpotQA they are right or wrong as a whole.
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
        """Kind of label that the answer gives in a word or two, `NOT_GIVEN`, or `UNUSABLE` and why."""
        answer = self.answer
        if answer is None:
            return NOT_GIVEN
        if answer.label is not None:
            return "option" if self.options else VERDICTS[answer.label]
        if answer.is_null:
            return UNANSWERABLE
        number = answer.number is not None and not math.isnan(answer.number)
        known = [name for name, there in (("cells", answer.coordinates), ("number", number)) if there]
        return " or ".join(known) or f"{UNUSABLE}{answer.source or 'neither cells nor number'}"

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes by what is counted; of its table none, of options how many they are, and of how many words."""
        sizes = {"words in a question": len(self.question.split())}
        if self.options:
            words = sum(len(text.split()) for text in self.options) // len(self.options)
            return sizes | {"options": len(self.options), "words in an option": words}
        cells = len(self.answer.coordinates) if self.answer else 0
        return sizes | ({"cells in an answer": cells} if cells else {})


def group_by_table(examples: Iterable[TableExample]) -> list[list[int]]:
    """Return the places of examples, table by table in the order in which these come first."""
    places: dict[int, list[int]] = defaultdict(list)
    for place, example in enumerate(examples):
        places[id(example.table)].append(place)
    return list(places.values())
