"""Text to SQL: derive a query of the grammar, action by action, from a question and a schema.

Source: Xu et al., "Optimizing Deeper Transformers on Small Datasets", ACL 2021, appendix C (SQL-SP).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from pydantic import Field

from mate_cli.lit_modules.base import TableTask
from mate_cli.lit_modules.losses.actions import action_loss
from mate_cli.metrics.exact_set_match import score_queries
from mate_cli.models.encoder_output import EncoderOutput
from mate_cli.models.layers.sql_head import SqlHead
from mate_cli.models.layers.tree_decoder import DecoderSize
from mate_cli.models.layers.tree_search import Search, best_derivations
from mate_cli.models.table_encoder import TableEncoder
from mate_cli.sql.derivation import Action
from mate_cli.sql.exact_match import exact_match
from mate_cli.sql.hardness import hardness
from mate_cli.sql.ir import Query
from mate_cli.sql.tree import query_of
from mate_cli.sql.write import write
from mate_cli.tokenization.layout import TableBatch

NO_QUERY = ""
"""The answer where no derivation was complete within the steps that there are."""


@dataclass(frozen=True)
class SqlPrediction:
    """A derived query.

    Args:
        actions: that derive it; None where no derivation was complete.
        score: the logarithm of its probability, columns weighed.
    """

    example_id: str
    actions: tuple[Action, ...] | None
    score: float = -torch.inf


class SqlParsing(TableTask[SchemaExample, SqlPrediction]):
    """Scores every action of the known derivation, and searches for the best one.

    Args:
        encoder: a network whose output is of nodes.
        smoothing: the share of a column's target that all columns share.
        beam: derivations that are kept side by side when a finished network is asked; validations during training are
            greedy.
        steps: the most actions of a derivation.
        column_weight: what the logarithm of the probability of a column is multiplied by in the search.
        action_width: of the embedding of an action.
        type_width: of the embedding of a type of the grammar.
        state_width: of the decoder's LSTM.
        attention_width: of what comes out of a step.
        readout_width: of the layer in front of the productions.
        heads: of the decoder's attention.
        dropout: on what comes out of a step.
    """

    monitor = "dev/exact_set_match"
    label: ClassVar[Label | None] = "sql"

    def __init__(
        self,
        encoder: TableEncoder,
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
        dropout: Annotated[float, Field(ge=0, lt=1)] = 0.6,
    ) -> None:
        super().__init__(encoder)
        size = DecoderSize(action_width, type_width, state_width, attention_width, heads, readout_width, dropout)
        self.add_heads(lambda one: SqlHead(one.states_size, size))
        self.smoothing = smoothing
        self.greedy, self.search = Search(1, steps, column_weight), Search(beam, steps, column_weight)

    def training_examples(self, examples: Sequence[SchemaExample]) -> list[SchemaExample]:
        """Questions whose query the grammar has."""
        return [example for example in examples if example.query is not None]

    def output_loss(self, output: EncoderOutput, head: SqlHead, encoder: TableEncoder) -> torch.Tensor:
        """The mean of the losses of whole derivations, a scalar."""
        steps, scores, columns = head(output)
        return action_loss(scores, steps, columns, self.smoothing)

    def predictions(self, output: EncoderOutput, given: TableBatch) -> list[SqlPrediction]:
        """The best derivation of each example."""
        search = self.greedy if self._is_fitting else self.search
        found = best_derivations(self.head.decoder, self.head.memory(output), schema_shapes(output.batch), search)
        pairs = zip(output.batch.example_ids, found, strict=True)
        return [SqlPrediction(name, *one) if one else SqlPrediction(name, None) for name, one in pairs]

    @property
    def _is_fitting(self) -> bool:
        return self._trainer is not None and self.trainer.state.fn == TrainerFn.FITTING

    def answers(self, predictions: Sequence[SqlPrediction], examples: Mapping[str, SchemaExample]) -> dict[str, str]:
        """The SQL of each prediction, by example."""
        found = {}
        for one in predictions:
            query = self.query(one, examples[one.example_id])
            found[one.example_id] = NO_QUERY if query is None else write(query, examples[one.example_id].schema)
        return found
