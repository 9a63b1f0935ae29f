"""Exact-set match of queries by hardness, and error types of other queries.

Source: Yu et al. 2018 (Spider), the official script; Xu et al. 2021 (DT-Fixup), section 5.4 and table 6, without the
matches that only manual inspection finds. SQL modules are imported only when a query is scored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mate_cli.metrics.specs import MetricSpec, MetricTable, Score, SubsetSpec
from mate_cli.metrics.subsets import average_by_group
from mate_cli.metrics.system_answers import AnswerMetric

if TYPE_CHECKING:
    from mate_cli.papers.dt_fixup.sql.example import SchemaExample
    from mate_cli.papers.dt_fixup.sql.ir import Query

LEVELS = ("easy", "medium", "hard", "extra")
COLUMN_ERROR, SKETCH_ERROR, DOUBLE_ERROR = "column_error", "sketch_error", "column_and_sketch_error"
QUERIES = MetricTable("Text to SQL", "subsets")
EXACT_SET_MATCH = MetricSpec("exact_set_match", "Exact-set match", 1, order=44, importance=4, table=QUERIES)
ERRORS = (
    MetricSpec(COLUMN_ERROR, "Wrong columns only", -1, order=95, importance=0, table=QUERIES),
    MetricSpec(SKETCH_ERROR, "Wrong structure only", -1, order=96, importance=0, table=QUERIES),
    MetricSpec(DOUBLE_ERROR, "Both wrong", -1, order=97, importance=0, table=QUERIES),
)
"""Shares of all questions, by error type."""
BY_HARDNESS = tuple(
    SubsetSpec(level, level.capitalize(), "by hardness", order=34 + index, many=False)
    for index, level in enumerate(LEVELS)
)


def score_queries(queries: Mapping[str, Query | None], examples: Mapping[str, SchemaExample]) -> dict[str, float]:
    """Compute the exact-set match of predicted SQL by gold query hardness, and error rates.

    Questions without a gold query are not scored.
    """
    questions = {name: example for name, example in examples.items() if example.query}
    if not questions:
        return {}
    errors = {name: _error(queries.get(name), example) for name, example in questions.items()}
    groups = {level: [name for name, example in questions.items() if level in example.subsets] for level in LEVELS}
    is_match = {name: not error for name, error in errors.items()}
    shares = average_by_group(EXACT_SET_MATCH.name, is_match, questions, groups)
    kinds = Counter(errors.values())
    return shares | {spec.name: Score(kinds[spec.name] / len(questions), len(questions)) for spec in ERRORS}


class Queries(AnswerMetric["SchemaExample"]):
    """Exact-set match of SQL queries. An unreadable query is scored as wrong."""

    def score(self, examples: Mapping[str, SchemaExample]) -> dict[str, float]:
        """Return the exact-set match of questions with a gold query, by hardness, and error rates."""
        return score_queries({name: self._query(example) for name, example in examples.items()}, examples)

    def _query(self, example: SchemaExample) -> Query | None:
        from mate_cli.papers.dt_fixup.sql.expressions import UnreadableQueryError
        from mate_cli.papers.dt_fixup.sql.parse import parse

        answer = self.answers.get(example.example_id)
        try:
            return parse(" ".join(answer.texts), example.schema) if answer else None
        except UnreadableQueryError:
            return None

    def is_readable(self, example: SchemaExample) -> bool:
        """Return whether the answer is a readable query on the database of the question."""
        return self._query(example) is not None


def _error(query: Query | None, example: SchemaExample) -> str:
    """Classify the error of a predicted query. Return "" for an exact-set match with the gold query.

    A column error has the correct structure with wrong columns. A sketch error has the correct columns with a wrong
    structure.
    """
    from mate_cli.papers.dt_fixup.sql.exact_match import has_same_columns, has_same_structure, queries_match

    assert example.query is not None
    if query is None:
        return DOUBLE_ERROR
    if queries_match(query, example.query, example.schema):
        return ""
    if has_same_structure(query, example.query, example.schema):
        return COLUMN_ERROR
    return SKETCH_ERROR if has_same_columns(query, example.query) else DOUBLE_ERROR
