"""A score of all questions, and of parts of them: subsets that the dataset names, and lengths of the input.

Source: Krichene et al. 2021 (DoT), tables 3 and 9, tell accuracy by tokens of the input before it is cut. The limits in
words are our own, and the same for every vocabulary: a word is 1.2 word pieces of BERT on the test questions of SQA,
WikiTableQuestions and TabFact.
"""

import re
from collections.abc import Collection, Mapping, Sequence

from mate_cli.metrics.specs import Score, SubsetSpec
from mate_cli.tables.example import TableExample

LIMITS = (128, 256, 512, 1024)
"""Most words of a part; the last part has more."""
TOKEN_LIMITS = (256, 512, 1024)
"""The same in tokens."""
IN_TABLE = SubsetSpec("table", "In-Table", "by place of the answer", order=-2)
IN_PASSAGE = SubsetSpec("passage", "In-Passage", "by place of the answer", order=-1)
BY_SUBSET = tuple(
    SubsetSpec(name, name.capitalize(), "by subset", 10 + place)
    for place, name in enumerate(("simple", "complex", "small"))
)
"""Subsets of TabFact."""
BY_TABLE = (
    SubsetSpec("seen_tables", "Seen tables", "by whether training has the table", 14),
    SubsetSpec("unseen_tables", "Unseen tables", "by whether training has the table", 15),
)
"""Subsets of SQA's dev and of the seen split of WikiTableQuestions."""

_WORD = re.compile(r"\w+|[^\w\s]")
ANSWERED = SubsetSpec("has_answer", "Has answer", "by answerability", order=24, many=False)
UNANSWERED = SubsetSpec("no_answer", "No answer", "by answerability", order=25, many=False)


def average_by_group(
    name: str,
    scores: Mapping[str, float],
    questions: Collection[str],
    groups: Mapping[str, Collection[str]] | None = None,
) -> dict[str, float]:
    """Return the mean of a score over questions (<name>), and over each group that has any (<name>/<group>).

    Each mean is a `Score` that carries the number of its questions.

    Args:
        name: of the score.
        scores: by question; one that is missing counts 0.
        questions: all that count.
        groups: questions by the group's name.
    """
    everyone = {name: questions} | {f"{name}/{group}": keys for group, keys in (groups or {}).items()}
    means = {part: sum(scores.get(key, 0.0) for key in keys) / len(keys) for part, keys in everyone.items() if keys}
    return {part: Score(mean, len(everyone[part])) for part, mean in means.items()}


def average_by_part(
    correct: Mapping[str, bool | float], examples: Mapping[str, TableExample], name: str
) -> dict[str, float]:
    """Return the mean of a score over all questions with an answer, and over each part of them.

    Args:
        correct: the score of a question, from 0 to 1, by its name; a question that is not in it counts 0.
        examples: the questions of a split, by name.
        name: of the metric, such as "accuracy".

    Returns:
        <name>; <name>/<subset> for each subset that an example names; <name>/1-128_words and so on, where the
        questions are of more than one length. A part without questions has no score.
    """
    known = {key: example for key, example in examples.items() if example.answer}
    return average_by_group(name, correct, known, {**group_by_subset(known), **_by_length(known)})


def group_by_subset(examples: Mapping[str, TableExample]) -> dict[str, list[str]]:
    """Return names of the examples of each part that the dataset names."""
    groups: dict[str, list[str]] = {}
    for name, example in examples.items():
        for subset in example.subsets:
            groups.setdefault(subset, []).append(name)
    null = {name for name, example in examples.items() if example.answer and example.answer.is_null}
    if null and len(null) < len(examples):
        groups |= {ANSWERED.name: [name for name in examples if name not in null], UNANSWERED.name: sorted(null)}
    return dict(sorted(groups.items()))


def group_by_source(examples: Mapping[str, TableExample]) -> dict[str, list[str]]:
    """Return names of the examples whose answer is in the table, and of those whose answer is in a passage."""
    known = {name: example.answer for name, example in examples.items() if example.answer}
    return {kind: [name for name, a in known.items() if a.source == kind] for kind in (IN_TABLE.name, IN_PASSAGE.name)}


def _by_length(examples: Mapping[str, TableExample]) -> dict[str, list[str]]:
    return _split(words_of(examples), LIMITS, length_parts()) if len(examples) > 1 else {}


def words_of(examples: Mapping[str, TableExample]) -> dict[str, int]:
    """Return how many words and punctuation marks each uncut input has: the question, the header and all cells.

    Questions that came before are not counted, nor titles and linked passages.
    """
    tables = {id(example.table): example.table for example in examples.values()}
    texts = {key: (cell.text for row in (table.header, *table.rows) for cell in row) for key, table in tables.items()}
    words = {key: len(_WORD.findall(" ".join(cells))) for key, cells in texts.items()}
    return {name: words[id(example.table)] + len(_WORD.findall(example.question)) for name, example in examples.items()}


def parts_by_tokens(tokens: Mapping[str, int]) -> dict[str, list[str]]:
    """Return the questions by the tokens of their inputs before they are cut; nothing where all are in one part."""
    return {part: names for part, names in _split(tokens, TOKEN_LIMITS, token_parts()).items() if names}


def _split(lengths: Mapping[str, int], limits: Sequence[int], parts: Sequence[str]) -> dict[str, list[str]]:
    """Return names by length, one part more than there are limits; nothing where all are in one part."""
    groups: dict[str, list[str]] = {part: [] for part in parts}
    for name, length in lengths.items():
        groups[parts[sum(length > limit for limit in limits)]].append(name)
    return groups if sum(map(bool, groups.values())) > 1 else {}


def length_parts() -> tuple[str, ...]:
    """Return the names of the parts by words, the shortest first."""
    return _names(LIMITS, "words")


def token_parts() -> tuple[str, ...]:
    """Return the names of the parts by tokens, the shortest first."""
    return _names(TOKEN_LIMITS, "tokens")


def _names(limits: Sequence[int], unit: str) -> tuple[str, ...]:
    bounds = zip((0, *limits), limits, strict=False)
    return (*(f"{low + 1}-{high}_{unit}" for low, high in bounds), f"over_{limits[-1]}_{unit}")


BY_LENGTH = tuple(
    SubsetSpec(part, part.replace("_", " "), "by words of the input", order=100 + place)
    for place, part in enumerate(length_parts())
)
BY_TOKENS = tuple(
    SubsetSpec(part, part.replace("_", " "), "by tokens of the uncut input", order=120 + place)
    for place, part in enumerate(token_parts())
)
