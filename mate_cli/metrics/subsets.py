"""Averages of a score over all questions, over the subsets of a dataset, and over ranges of input lengths.

Source: Krichene et al. 2021 (DoT), tables 3 and 9, report accuracy by number of tokens before truncation. The limits in
words are specific to mate, and independent of the vocabulary: a word has 1.2 BERT tokens on average in the test
questions of SQA, WikiTableQuestions and TabFact.
"""

import re
from collections.abc import Collection, Mapping, Sequence

from mate_cli.metrics.specs import Score, SubsetSpec
from mate_cli.tables.example import TableExample

LIMITS = (128, 256, 512, 1024)
"""Maximum numbers of words of the length subsets. The last subset has more words."""
TOKEN_LIMITS = (256, 512, 1024)
"""Maximum numbers of tokens of the length subsets. The last subset has more tokens."""
IN_TABLE = SubsetSpec("table", "In-Table", "by place of the answer", order=-2)
IN_PASSAGE = SubsetSpec("passage", "In-Passage", "by place of the answer", order=-1)
BY_SUBSET = tuple(
    SubsetSpec(name, name.capitalize(), "by subset", 10 + index)
    for index, name in enumerate(("simple", "complex", "small"))
)
"""Subsets of TabFact."""
BY_TABLE = (
    SubsetSpec("seen_tables", "Seen tables", "by whether training has the table", 14),
    SubsetSpec("unseen_tables", "Unseen tables", "by whether training has the table", 15),
)
"""Subsets of the dev split of SQA and of the seen split of WikiTableQuestions."""

_WORD = re.compile(r"\w+|[^\w\s]")
HAS_ANSWER = SubsetSpec("has_answer", "Has answer", "by answerability", order=24, many=False)
UNANSWERED = SubsetSpec("no_answer", "No answer", "by answerability", order=25, many=False)


def average_by_group(
    name: str,
    scores: Mapping[str, float],
    questions: Collection[str],
    groups: Mapping[str, Collection[str]] | None = None,
) -> dict[str, float]:
    """Average question scores over all questions (<name>) and each group (<name>/<group>).

    Each mean is a `Score`, which contains the number of its questions. A group without questions has no mean.

    Args:
        name: name of the metric.
        scores: score of each question, by id. A missing question has score 0.
        questions: ids of all questions to score.
        groups: question ids by group name. None: no groups.
    """
    members = {name: questions} | {f"{name}/{group}": keys for group, keys in (groups or {}).items()}
    means = {part: sum(scores.get(key, 0.0) for key in keys) / len(keys) for part, keys in members.items() if keys}
    return {part: Score(mean, len(members[part])) for part, mean in means.items()}


def average_by_part(
    correct: Mapping[str, bool | float], examples: Mapping[str, TableExample], name: str
) -> dict[str, float]:
    """Average question scores over all questions, by dataset subset, and by input length.

    Questions without an answer are ignored.

    Args:
        correct: score of each question, from 0 to 1, by id. A missing question has score 0.
        examples: questions of a split, by id.
        name: name of the metric, such as "accuracy".

    Returns:
        <name>, <name>/<subset> for each subset of the dataset, and <name>/1-128_words and so on if the questions are in
        more than one length range. A subset without questions has no score.
    """
    answerable = {key: example for key, example in examples.items() if example.answer}
    return average_by_group(
        name, correct, answerable, {**group_by_subset(answerable), **_split(words_of(answerable), LIMITS, LENGTH_PARTS)}
    )


def group_by_subset(examples: Mapping[str, TableExample]) -> dict[str, list[str]]:
    """Group example ids by subset of the dataset, and by answerability.

    Answerability is omitted if all questions are answerable or none is.
    """
    groups: dict[str, list[str]] = {}
    for name, example in examples.items():
        for subset in example.subsets:
            groups.setdefault(subset, []).append(name)
    null = {name for name, example in examples.items() if example.answer and example.answer.is_null}
    if null and len(null) < len(examples):
        groups |= {HAS_ANSWER.name: [name for name in examples if name not in null], UNANSWERED.name: sorted(null)}
    return dict(sorted(groups.items()))


def group_by_source(examples: Mapping[str, TableExample]) -> dict[str, list[str]]:
    """Group example ids by the source of the answer, as {"table": [...], "passage": [...]}."""
    answers = {name: example.answer for name, example in examples.items() if example.answer}
    return {
        kind: [name for name, a in answers.items() if a.source == kind] for kind in (IN_TABLE.name, IN_PASSAGE.name)
    }


def words_of(examples: Mapping[str, TableExample]) -> dict[str, int]:
    """Count the words and punctuation marks of each example's question and table.

    The input is the question, the header and all cells. Previous questions of a conversation, titles and linked
    passages are not counted.
    """
    tables = {id(example.table): example.table for example in examples.values()}
    texts = {key: (cell.text for row in (table.header, *table.rows) for cell in row) for key, table in tables.items()}
    words = {key: len(_WORD.findall(" ".join(cells))) for key, cells in texts.items()}
    return {name: words[id(example.table)] + len(_WORD.findall(example.question)) for name, example in examples.items()}


def parts_by_tokens(tokens: Mapping[str, int]) -> dict[str, list[str]]:
    """Group question ids by input length in tokens, in the ranges of `TOKEN_LIMITS`.

    The length is that before truncation.

    The result is empty if all questions are in one range.

    Args:
        tokens: number of tokens by question id.
    """
    return _split(tokens, TOKEN_LIMITS, TOKEN_PARTS)


def _split(lengths: Mapping[str, int], limits: Sequence[int], parts: Sequence[str]) -> dict[str, list[str]]:
    """Group ids by length, and return {range name: ids} without empty ranges.

    There are `len(limits) + 1` ranges. If all ids are in one range, the result is {}.

    Args:
        lengths: length by name.
        limits: maximum length of each range except the last, ascending.
        parts: name of each range.
    """
    part_of = {name: parts[sum(length > limit for limit in limits)] for name, length in lengths.items()}
    groups = {part: [name for name in lengths if part_of[name] == part] for part in parts}
    filled = {part: names for part, names in groups.items() if names}
    return filled if len(filled) > 1 else {}


def _names(limits: Sequence[int], unit: str) -> tuple[str, ...]:
    bounds = zip((0, *limits), limits, strict=False)
    return (*(f"{low + 1}-{high}_{unit}" for low, high in bounds), f"over_{limits[-1]}_{unit}")


LENGTH_PARTS, TOKEN_PARTS = _names(LIMITS, "words"), _names(TOKEN_LIMITS, "tokens")
"""Names of the length ranges in words and in tokens, ascending."""
BY_LENGTH = tuple(
    SubsetSpec(part, part.replace("_", " "), "by words of the input", order=100 + index)
    for index, part in enumerate(LENGTH_PARTS)
)
BY_TOKENS = tuple(
    SubsetSpec(part, part.replace("_", " "), "by tokens of the uncut input", order=120 + index)
    for index, part in enumerate(TOKEN_PARTS)
)
