"""Text-to-SQL task: predict the derivation of an SQL query from a question and a database schema.

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
    """Gold derivations of a batch, with the log probability of every action at each step.

    Args:
        steps: actions and decoder inputs of the derivations.
        scores: log probabilities of all actions.
        columns: mask of columns, as in `Memory`.
    """

    steps: Steps
    scores: Scores
    columns: Tensor


class SqlHead(nn.Module):
    """A decoder that attends to all nodes and selects columns with a pointer network."""

    def __init__(self, width: int, size: DecoderSize) -> None:
        super().__init__()
        self.decoder = TreeDecoder(width, len(PRODUCTIONS), len(TYPES), size)
        draw(self)

    def memory(self, output: EncoderOutput) -> Memory:
        """Compute the decoder inputs from the encoder's hidden states of all nodes and of columns."""
        kinds = node_kinds(output.batch)
        is_column = kinds == COLUMN
        count = is_column.sum(1)
        max_columns = int(count.max())
        positions = (~is_column).int().argsort(dim=1, stable=True)[:, :max_columns]
        columns = output.states.gather(1, positions[..., None].expand(-1, -1, output.states.shape[-1]))
        is_real = torch.arange(max_columns, device=count.device) < count[:, None]
        return self.decoder.memory(output.states, kinds > 0, columns, is_real)

    def forward(self, output: EncoderOutput) -> ScoredSteps:
        """Compute the log probabilities of all actions at each step of the gold derivations (training).

        Raises:
            ConfigError: no example has a derivation.
        """
        actions = output.batch.more.get(ACTIONS)
        if actions is None:
            raise ConfigError("none of these examples has a query", where="data", remedy="Use examples with queries")
        memory, steps = self.memory(output), Steps.build(*actions.unbind(-1))
        return ScoredSteps(steps, self.decoder(memory, steps), memory.columns)


def schema_shapes(batch: TableBatch) -> list[Schema]:
    """Build a schema with unnamed tables and columns per example, which determines the legal actions.

    Its numbers of tables and columns are those of the example's schema, which determine the legal actions.
    """
    counts = [(node_kinds(batch) == kind).sum(1).tolist() for kind in (TABLE, COLUMN)]
    return [schema_shape(tables, columns) for tables, columns in zip(*counts, strict=True)]


def schema_shape(tables: int, columns: int) -> Schema:
    """Build a schema with the given numbers of unnamed tables and columns.

    Legal actions depend only on these counts.
    """
    return Schema("", (SchemaTable("", ""),) * tables, (SchemaColumn(0, "", ""),) * columns)


def derivation_loss(scored_steps: ScoredSteps, smoothing: float) -> Tensor:
    """Compute the negative log probability of each gold derivation, [B].

    Args:
        scored_steps: steps with the scores of all actions.
        smoothing: share of the target distribution that is uniform over all columns of the schema.

    Source: Xu et al. 2021 (DT-Fixup), appendix C.4, and the released code.
    """
    steps, scores, columns = scored_steps
    rules, selected_columns = _select_scores(scores.rules, steps.rules), _select_scores(scores.columns, steps.columns)
    count = columns.sum(1, keepdim=True)
    uniform = scores.columns.masked_fill(~columns[:, None], 0.0).sum(-1) / count
    smoothed = (1 - smoothing) * selected_columns + smoothing * uniform
    log_probabilities: Tensor = rules * (steps.rules >= 0) + smoothed * (steps.columns >= 0)
    return -log_probabilities.sum(1)


def _select_scores(scores: Tensor, actions: Tensor) -> Tensor:
    """Select the log probability of each step's gold action: [B, A, S] to [B, A].

    A missing action (-1) gets the score of action 0.
    """
    return scores.gather(-1, actions.clamp(min=0).unsqueeze(-1)).squeeze(-1)


@dataclass(frozen=True)
class SqlPrediction:
    """The predicted derivations of the query for one example, best first.

    The first derivation is the predicted query.

    Args:
        derivations: empty if no query was found.
    """

    example_id: str
    derivations: tuple[ScoredDerivation, ...] = ()

    def queries(self, example: SchemaExample) -> Iterator[Query]:
        """Yield the SQL queries that the derivations produce on the schema of the example, best first."""
        return (build_query(derivation.actions, example.schema) for derivation in self.derivations)


class SqlParsing(TableTask[SchemaExample, SqlPrediction]):
    """Text-to-SQL task: train on gold derivations, and search the most probable derivation in evaluation.

    Args:
        context: context of a network whose output has one token per node.
        smoothing: share of a column's target that is uniform over all columns.
        beam: beam width in evaluations. Validations during training are greedy.
        steps: maximum number of actions of a query.
        column_weight: factor of the log probability of columns in the search; 3 as released, 1 for none.
        action_width: embedding size of actions.
        type_width: embedding size of the types of the grammar; 128 as released.
        state_width: hidden size of the decoder's LSTM.
        attention_width: output size of a decoder step.
        readout_width: size of the hidden layer before the production logits.
        heads: number of attention heads of the decoder.
        dropout: dropout probability of the output of a step.
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
        """Return the questions whose gold query the grammar can derive."""
        return [example for example in examples if example.actions]

    def skip_reason(self, example: SchemaExample) -> str:
        """Describe why a question cannot be trained on, such as a query outside the grammar. Return "" if it can."""
        if example.query is None:
            return "no query"
        return "" if example.actions else "a query that the grammar cannot make"

    def output_loss(self, output: EncoderOutput, head: SqlHead, encoder: TableEncoder) -> torch.Tensor:
        """Compute the mean loss of the gold derivations in a batch, a scalar.

        Args:
            output: output of the encoder.
            head: head of the task.
            encoder: encoder of the output.
        """
        return self.average_terms(derivation_loss(head(output), self.smoothing).sum(), output.batch)

    def predictions(self, output: EncoderOutput, batch: TableBatch) -> list[SqlPrediction]:
        """Return the best derivation of each example by beam search."""
        return self._search_queries(output, self.search)

    def validation_predictions(self, output: EncoderOutput, batch: TableBatch) -> list[SqlPrediction]:
        """Return the greedy derivation of each example, which is much faster than beam search."""
        return self._search_queries(output, self.greedy)

    def _search_queries(self, output: EncoderOutput, search: Search) -> list[SqlPrediction]:
        head = self.head
        assert isinstance(head, SqlHead)
        derivations = ranked_derivations(head.decoder, head.memory(output), schema_shapes(output.batch), search)
        return [
            SqlPrediction(name, tuple(example_derivations))
            for name, example_derivations in zip(output.batch.example_ids, derivations, strict=True)
        ]

    def answers(self, predictions: Sequence[SqlPrediction], examples: Mapping[str, SchemaExample]) -> dict[str, str]:
        """Return the predicted SQL query of each example, keyed by example id.

        The query is "" if the search found no query. If `runs` is set, the best query that runs is returned, or the
        best query if none runs. Source: Wang et al., "Robust Text-to-SQL Generation with Execution-Guided Decoding",
        2018, for whole queries.
        """
        return {parse.example_id: self._answer(parse, examples[parse.example_id]) for parse in predictions}

    def _answer(self, prediction: SqlPrediction, example: SchemaExample) -> str:
        texts = [write(query, example.schema) for query in prediction.queries(example)]
        best_text = texts[0] if texts else ""
        return next((text for text in texts if self.runs(example, text)), best_text) if self.runs else best_text

    def is_correct(self, prediction: SqlPrediction, example: SchemaExample) -> bool:
        """Return whether the query equals the gold query by the official exact-set match."""
        query = next(prediction.queries(example), None)
        return bool(query and example.query and queries_match(query, example.query, example.schema))

    def score(self, predictions: Sequence[SqlPrediction], examples: Mapping[str, SchemaExample]) -> dict[str, float]:
        """Return the exact-set match of questions with a gold query, by hardness, and error rates."""
        queries = {parse.example_id: parse.queries(examples[parse.example_id]) for parse in predictions}
        return score_queries({name: next(ranked_queries, None) for name, ranked_queries in queries.items()}, examples)

    def details(self, prediction: SqlPrediction) -> dict[str, Any]:
        """Return the log probability of the predicted query, for the file of predictions."""
        return {"score": prediction.derivations[0].score} if prediction.derivations else {}
