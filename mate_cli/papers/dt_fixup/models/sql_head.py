"""From the states of nodes to the scores of a query's actions."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from mate_cli.errors import ConfigError
from mate_cli.models.base.encoder_output import EncoderOutput
from mate_cli.papers.dt_fixup.models.nodes import node_kinds
from mate_cli.papers.dt_fixup.models.schemes import draw
from mate_cli.papers.dt_fixup.models.tree_decoder import DecoderSize, Memory, Scores, Steps, TreeDecoder
from mate_cli.papers.dt_fixup.schema.arrays import ACTIONS, COLUMN, TABLE
from mate_cli.papers.dt_fixup.sql.grammar import PRODUCTIONS, TYPES
from mate_cli.papers.dt_fixup.sql.schema import Schema, SchemaColumn, SchemaTable
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
    found: Tensor = rules * (steps.rules >= 0) + smoothed * (steps.columns >= 0)
    return -found.sum(1)


def _of(scores: Tensor, actions: Tensor) -> Tensor:
    """Return the scores [B, A, S] of actions [B, A]; of those that are -1, of any one that is there."""
    return scores.gather(-1, actions.clamp(min=0).unsqueeze(-1)).squeeze(-1)
