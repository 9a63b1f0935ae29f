"""Exact-set match of queries, by how hard they are, and what is wrong with those that do not match.

Source: Yu et al. 2018 (Spider), the official script; Xu et al. 2021 (DT-Fixup), section 5.4 and table 6, but for the
matches that the script misses, which only people find. No SQL is loaded before a query is scored.
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
"""Shares of all questions."""
BY_HARDNESS = tuple(
    SubsetSpec(level, level.capitalize(), "by hardness", order=34 + place, many=False)
    for place, level in enumerate(LEVELS)
)


def score_queries(queries: Mapping[str, Query | None], examples: Mapping[str, SchemaExample]) -> dict[str, float]:
    """Return the share of known queries that are matched, in all and by hardness, and the shares of errors."""
    known = {name: example for name, example in examples.items() if example.query}
    if not known:
        return {}
    errors = {name: _error(queries.get(name), example) for name, example in known.items()}
    groups = {level: [name for name, example in known.items() if level in example.subsets] for level in LEVELS}
    right = {name: not error for name, error in errors.items()}
    shares = average_by_group(EXACT_SET_MATCH.name, right, known, groups)
    kinds = Counter(errors.values())
    return shares | {spec.name: Score(kinds[spec.name] / len(known), len(known)) for spec in ERRORS}


class Queries(AnswerMetric["SchemaExample"]):
    """Exact-set match of queries in SQL; one that cannot be read is wrong."""

    def score(self, examples: Mapping[str, SchemaExample]) -> dict[str, float]:
        """Return the exact-set match of all questions with a known query, by hardness, and the kinds of errors."""
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
        """Tell whether it is a query on the database of the question."""
        return self._query(example) is not None


def _error(query: Query | None, example: SchemaExample) -> str:
    """Return what is wrong with a query; empty where nothing is.

    A column error has the right structure with wrong columns, a sketch error the other way round.
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
