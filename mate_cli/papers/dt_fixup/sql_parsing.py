"""Text to SQL: derive a query of the grammar, action by action, from a question and a schema.

Source: Xu et al., "Optimizing Deeper Transformers on Small Datasets", ACL 2021, appendix C (SQL-SP).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from mate_cli.errors import ConfigError
from mate_cli.lit_modules.base import TableTask, TaskSpec
from mate_cli.metrics.specs import Metric
from mate_cli.models.base.table_encoder import EncoderOutput, TableEncoder, TaskContext
from mate_cli.models.layers.encoder import Dropout
from mate_cli.papers.dt_fixup.metrics.exact_set_match import score_queries
from mate_cli.papers.dt_fixup.models.relation_aware import node_kinds
from mate_cli.papers.dt_fixup.models.schemes import draw
from mate_cli.papers.dt_fixup.models.tree_decoder import DecoderSize, Memory, Scores, Steps, TreeDecoder
from mate_cli.papers.dt_fixup.models.tree_search import ScoredDerivation, Search, ranked_derivations
from mate_cli.papers.dt_fixup.schema.relations import ACTIONS, COLUMN, TABLE
from mate_cli.papers.dt_fixup.sql.exact_match import queries_match
from mate_cli.papers.dt_fixup.sql.example import SchemaExample
from mate_cli.papers.dt_fixup.sql.grammar import PRODUCTIONS, TYPES
from mate_cli.papers.dt_fixup.sql.ir import Query
from mate_cli.papers.dt_fixup.sql.schema import Schema, SchemaColumn, SchemaTable
from mate_cli.papers.dt_fixup.sql.tree import build_query
from mate_cli.papers.dt_fixup.sql.write import write
from mate_cli.tokenization.layout import TableBatch


class ScoredSteps(NamedTuple):
    """Known derivations with the scores of all actions at each of their steps; `columns` is that of `Memory`."""

    steps: Steps
    scores: Scores
    columns: Tensor


class SqlHead(nn.Module):
    """A decoder that looks at all nodes and points at columns."""

    def __init__(self, width: int, size: DecoderSize) -> None:
        super().__init__()
        self.decoder = TreeDecoder(width, len(PRODUCTIONS), len(TYPES), size)
        draw(self)

    def memory(self, output: EncoderOutput) -> Memory:
        """Return what the decoder looks at: all nodes, and columns in the order of the schema."""
        kinds = node_kinds(output.batch)
        is_column = kinds == COLUMN
        count = is_column.sum(1)
        most = int(count.max())
        places = (~is_column).int().argsort(dim=1, stable=True)[:, :most]
        columns = output.states.gather(1, places[..., None].expand(-1, -1, output.states.shape[-1]))
        real = torch.arange(most, device=count.device) < count[:, None]
        return self.decoder.memory(output.states, kinds > 0, columns, real)

    def forward(self, output: EncoderOutput) -> ScoredSteps:
        """Score the steps of known derivations.

        Raises:
            ConfigError: there are none.
        """
        actions = output.batch.more.get(ACTIONS)
        if actions is None:
            raise ConfigError("none of these examples has a query", where="data", remedy="Use examples with queries")
        memory, steps = self.memory(output), Steps.of(*actions.unbind(-1))
        return ScoredSteps(steps, self.decoder(memory, steps), memory.columns)


def schema_shapes(batch: TableBatch) -> list[Schema]:
    """Return the schemas of a batch of nodes as far as nodes tell: how many tables and columns, and whose columns."""
    counts = [(node_kinds(batch) == kind).sum(1).tolist() for kind in (TABLE, COLUMN)]
    return [schema_shape(tables, columns) for tables, columns in zip(*counts, strict=True)]


def schema_shape(tables: int, columns: int) -> Schema:
    """Return a schema of so many tables and columns without names, which is all that legal actions depend on."""
    return Schema("", (SchemaTable("", ""),) * tables, (SchemaColumn(0, "", ""),) * columns)


def derivation_loss(scored: ScoredSteps, smoothing: float) -> Tensor:
    """Return the negative logarithm of the probability of each derivation, [B].

    Args:
        scored: steps with the scores of all actions.
        smoothing: the share of a column's target that all columns of the schema share.

    Source: Xu et al. 2021 (DT-Fixup), appendix C.4, and the released code.
    """
    steps, scores, columns = scored
    rules, chosen = _of(scores.rules, steps.rules), _of(scores.columns, steps.columns)
    count = columns.sum(1, keepdim=True)
    shared = scores.columns.masked_fill(~columns[:, None], 0.0).sum(-1) / count
    smoothed = (1 - smoothing) * chosen + smoothing * shared
    log_probabilities: Tensor = rules * (steps.rules >= 0) + smoothed * (steps.columns >= 0)
    return -log_probabilities.sum(1)


def _of(scores: Tensor, actions: Tensor) -> Tensor:
    """Return the scores [B, A, S] of actions [B, A]; of those that are -1, of any one that is there."""
    return scores.gather(-1, actions.clamp(min=0).unsqueeze(-1)).squeeze(-1)


@dataclass(frozen=True)
class SqlPrediction:
    """The derivations that are complete, of which the first makes the query; none where there is no query."""

    example_id: str
    derivations: tuple[ScoredDerivation, ...] = ()

    def queries(self, example: SchemaExample) -> Iterator[Query]:
        """Yield the query, then the next ones, the best first, on the schema of their example."""
        return (build_query(derivation.actions, example.schema) for derivation in self.derivations)


class SqlParsing(TableTask[SchemaExample, SqlPrediction]):
    """Scores every action of the known derivation, and searches for the best one.

    Args:
        context: of a network whose output is of nodes.
    """

    spec = TaskSpec("dev/exact_set_match", label="sql", encoding="schema")

    def __init__(
        self,
        context: TaskContext,
        smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.2,
        beam: Annotated[int, Field(gt=0)] = 5,
        steps: Annotated[int, Field(gt=0)] = 100,
        column_weight: Annotated[float, Field(gt=0)] = 3.0,
        action_width: Annotated[int, Field(gt=0)] = 128,
        type_width: Annotated[int, Field(gt=0)] = 64,
        state_width: Annotated[int, Field(gt=0)] = 512,
        attention_width: Annotated[int, Field(gt=0)] = 256,
        readout_width: Annotated[int, Field(gt=0)] = 1024,
        heads: Annotated[int, Field(gt=0)] = 8,
        dropout: Dropout = 0.6,
        *,
        metrics: Sequence[Metric] = (),
    ) -> None:
        super().__init__(context, metrics=metrics)
        size = DecoderSize(action_width, type_width, state_width, attention_width, heads, readout_width, dropout)
        self.add_heads(lambda encoder: SqlHead(encoder.states_size, size))
        self.smoothing = smoothing
        self.greedy, self.search = (Search(width, steps, column_weight) for width in (1, beam))
        self.runs: Callable[[SchemaExample, str], bool] | None = None

    def training_examples(self, examples: Sequence[SchemaExample]) -> list[SchemaExample]:
        """Return the questions whose query the grammar has."""
        return [example for example in examples if example.actions]

    def skip_reason(self, example: SchemaExample) -> str:
        """Return a query, or one that the grammar can make."""
        if example.query is None:
            return "no query"
        return "" if example.actions else "a query that the grammar cannot make"

    def output_loss(self, output: EncoderOutput, head: SqlHead, encoder: TableEncoder) -> torch.Tensor:
        """Average the losses of all examples, a scalar."""
        return self.average_terms(derivation_loss(head(output), self.smoothing).sum(), output.batch)

    def predictions(self, output: EncoderOutput, batch: TableBatch) -> list[SqlPrediction]:
        """Return the best derivation of each example."""
        return self._search_queries(output, self.search)

    def validation_predictions(self, output: EncoderOutput, batch: TableBatch) -> list[SqlPrediction]:
        """Return the derivation of the best action at each step, in a fraction of the time."""
        return self._search_queries(output, self.greedy)

    def _search_queries(self, output: EncoderOutput, search: Search) -> list[SqlPrediction]:
        head = self.head
        assert isinstance(head, SqlHead)
        derivations = ranked_derivations(head.decoder, head.memory(output), schema_shapes(output.batch), search)
        return [
            SqlPrediction(name, tuple(some)) for name, some in zip(output.batch.example_ids, derivations, strict=True)
        ]

    def answers(self, predictions: Sequence[SqlPrediction], examples: Mapping[str, SchemaExample]) -> dict[str, str]:
        """Return the SQL of each prediction, by example; empty where there is no query.

        Where it is known what runs, the best query that does; the best of all where none does.
        Source: Wang et al., "Robust Text-to-SQL Generation with Execution-Guided Decoding", 2018, for whole queries.
        """
        return {parse.example_id: self._answer(parse, examples[parse.example_id]) for parse in predictions}

    def _answer(self, prediction: SqlPrediction, example: SchemaExample) -> str:
        texts = [write(query, example.schema) for query in prediction.queries(example)]
        best = texts[0] if texts else ""
        return next((text for text in texts if self.runs(example, text)), best) if self.runs else best

    def is_correct(self, prediction: SqlPrediction, example: SchemaExample) -> bool:
        """Tell whether the query is the known one, by the official exact-set match."""
        query = next(prediction.queries(example), None)
        return bool(query and example.query and queries_match(query, example.query, example.schema))

    def score(self, predictions: Sequence[SqlPrediction], examples: Mapping[str, SchemaExample]) -> dict[str, float]:
        """Return the exact-set match of all questions with a known query, also by hardness, and the kinds of errors."""
        queries = {parse.example_id: parse.queries(examples[parse.example_id]) for parse in predictions}
        return score_queries({name: next(some, None) for name, some in queries.items()}, examples)

    def details(self, prediction: SqlPrediction) -> dict[str, Any]:
        """Return the score of the query."""
        return {"score": prediction.derivations[0].score} if prediction.derivations else {}
