"""The decoder of a grammar: an LSTM that is fed its last action and the state of the parent of what it expands.

Source: Yin and Neubig, "A Syntactic Neural Model for General-Purpose Code Generation", ACL 2017; Xu et al. 2021
(DT-Fixup), appendix C.3, and the released code, whose attention does not scale its scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, log_softmax, pad

from mate_cli.models.layers.embeddings import FastDropout
from mate_cli.papers.dt_fixup.models.recurrence import History, TimedLinear

NONE = -1
"""Index of no parent, no production, no column."""


@dataclass(frozen=True)
class DecoderSize:
    """The shape of a decoder: the widths of `SqlParsing`, the heads of its attention over nodes, and its dropout."""

    action: int = 128
    type: int = 64
    state: int = 512
    attention: int = 256
    heads: int = 8
    readout: int = 1024
    dropout: float = 0.6


class Memory(NamedTuple):
    """The memory that a decoder attends to while it decodes a batch, made once.

    Args:
        keys: of nodes, [B, N, H, K].
        values: of nodes, [B, N, K, H].
        hidden: 0 where there is a node and the lowest number where there is none, [B, 1, 1, K].
        pointers: of columns, what they are found by, [B, C, attention].
        inputs: of columns, what they are as an action, [B, C, action].
        columns: Bool [B, C], True where there is a column.
    """

    keys: Tensor
    values: Tensor
    hidden: Tensor
    pointers: Tensor
    inputs: Tensor
    columns: Tensor

    def at(self, rows: Tensor) -> Memory:
        """Return the memory of some examples, by their places [B']."""
        return Memory(*(tensor.index_select(0, rows) for tensor in self))


class Frontier(NamedTuple):
    """The state known before steps; all are Int64 [B, A], and -1 where there is nothing, as at first.

    Args:
        rules: the production that the step before applied, or their number for Reduce.
        columns: the column that it selected, from 0.
        parents: the step that made what is expanded.
        productions: the production that was applied there.
        types: of what is expanded.
    """

    rules: Tensor
    columns: Tensor
    parents: Tensor
    productions: Tensor
    types: Tensor


class Steps(NamedTuple):
    """Known derivations.

    Args:
        rules: the production that each step applies, or their number for Reduce; -1 where it selects a column, or the
            derivation is complete. Int64 [B, A], as `columns`.
        columns: the column that it selects, from 0; -1 where it selects none.
        frontier: what is known before each step.
    """

    rules: Tensor
    columns: Tensor
    frontier: Frontier

    @classmethod
    def of(cls, rules: Tensor, columns: Tensor, parents: Tensor, productions: Tensor, types: Tensor) -> Steps:
        """Return the state before actions, and what is expanded by them, all Int64 [B, A]."""
        rule, column = (pad(actions[:, :-1], (1, 0), value=NONE) for actions in (rules, columns))
        types = torch.cat([torch.full_like(types[:, :1], NONE), types[:, 1:]], 1)  # at first all is zero, as released
        return cls(rules, columns, Frontier(rule, column, parents, productions, types))


class StepWeights(NamedTuple):
    """The dense layers of a step."""

    recurrent: TimedLinear
    query: TimedLinear
    context: TimedLinear
    attended: TimedLinear


class DecoderState(NamedTuple):
    """The state between steps: the LSTM's two states and its attention output, [B, state] twice and [B, attention]."""

    state: Tensor
    cell: Tensor
    attended: Tensor


class Scores(NamedTuple):
    """Logarithms of probabilities: of productions and Reduce [..., productions + 1], and of columns [..., C]."""

    rules: Tensor
    columns: Tensor


class TreeDecoder(nn.Module):
    """Scores the actions that derive a query, one after the other."""

    def __init__(self, nodes: int, productions: int, types: int, size: DecoderSize) -> None:
        super().__init__()
        self.size = size
        self.reduce = productions
        self.productions = nn.Embedding(productions + 1, size.action)
        self.types = nn.Embedding(types, size.type)
        fed = size.action + size.attention + size.action + size.type + size.state
        self.lstm = nn.LSTMCell(fed, size.state)
        self.query = nn.Linear(size.state, nodes, bias=False)
        self.key = nn.Linear(nodes, nodes, bias=False)
        self.value = nn.Linear(nodes, nodes, bias=False)
        self.context = nn.Linear(nodes, nodes)
        self.attended = nn.Linear(size.state + nodes, size.attention, bias=False)
        self.dropout = FastDropout(size.dropout)
        self.readout = nn.Sequential(
            nn.Linear(size.attention, size.readout), nn.Tanh(), nn.Linear(size.readout, size.action)
        )
        self.production_bias = nn.Parameter(torch.zeros(productions + 1))
        self.pointer = nn.Linear(nodes, size.attention, bias=False)
        self.column_action = nn.Linear(nodes, size.action, bias=False)
        self.used_gate = nn.Linear(size.attention, 1, bias=False)

    def memory(self, nodes: Tensor, real: Tensor, columns: Tensor, is_column: Tensor) -> Memory:
        """Return what is looked at while a batch is decoded.

        Args:
            nodes: [B, K, nodes].
            real: Bool [B, K], True where there is a node.
            columns: of them, [B, C, nodes].
            is_column: Bool [B, C], True where there is a column.
        """
        keys, values = (layer(nodes).unflatten(-1, (self.size.heads, -1)) for layer in (self.key, self.value))
        lowest = torch.finfo(nodes.dtype).min
        hidden = torch.zeros_like(real, dtype=nodes.dtype).masked_fill(~real, lowest)[:, None, None]
        return Memory(
            keys.permute(0, 2, 3, 1).contiguous(),
            values.transpose(1, 2).contiguous(),
            hidden,
            self.pointer(columns),
            self.column_action(columns),
            is_column,
        )

    def start(self, examples: int) -> DecoderState:
        """Return what the first step is given: zeros."""
        like = self.production_bias
        return DecoderState(
            *(like.new_zeros(examples, width) for width in (self.size.state,) * 2 + (self.size.attention,))
        )

    def forward(self, memory: Memory, steps: Steps) -> Scores:
        """Return the scores of all actions at every step of known derivations, [B, A, ...]."""
        outputs = self._run(memory, steps)
        used = _used_before(steps.columns, memory.columns.shape[1])
        return self.scores(memory, outputs, used)

    def _run(self, memory: Memory, steps: Steps) -> Tensor:
        """Return what comes out of every step, [B, A, attention]."""
        known, weights = self.known_gates(memory, steps.frontier).unbind(1), self.step_weights()
        carried = self.start(len(steps.rules))
        history, outputs = History(len(known), carried.state), []
        parents, parent = steps.frontier.parents.clamp(min=0).unbind(1), carried.state
        for time, gates in enumerate(known):
            if time:
                parent = history.at(parents[time], carried.state)
            carried = self.step(memory, weights, gates, parent, carried)
            carried = carried._replace(state=history.keep(time, carried.state))
            outputs.append(carried.attended)
        return torch.stack(outputs, 1)

    def known_gates(self, memory: Memory, frontier: Frontier) -> Tensor:
        """Return the share of what is known before steps in the LSTM's gates, with its biases, [B, A, 4 * state]."""
        columns = frontier.columns[..., None]
        chosen = memory.inputs.gather(1, columns.clamp(min=0).expand(-1, -1, self.size.action)) * (columns >= 0)
        actions = _rows(self.productions, frontier.rules) + chosen
        known = actions, _rows(self.productions, frontier.productions), _rows(self.types, frontier.types)
        return self.gates(torch.cat(known, -1))

    def gates(self, known: Tensor) -> Tensor:
        """Give the share of the last action, the parent's production and the type [..., width] in the LSTM's gates."""
        action, _, parent, kind, _ = self._input_weights()
        return linear(known, torch.cat([action, parent, kind], 1), self.lstm.bias_ih + self.lstm.bias_hh)

    def _input_weights(self) -> tuple[Tensor, ...]:
        s = self.size
        return torch.split(self.lstm.weight_ih, [s.action, s.attention, s.action, s.type, s.state], dim=1)

    def step_weights(self) -> StepWeights:
        """Return the weights of a step, made once for all steps of a batch."""
        _, attended, _, _, parent = self._input_weights()
        recurrent = torch.cat([attended, parent, self.lstm.weight_hh], 1)
        layers = recurrent, self.query.weight, self.context.weight, self.attended.weight
        return StepWeights(*map(TimedLinear, layers))

    def step(
        self, memory: Memory, weights: StepWeights, known: Tensor, parent: Tensor, carried: DecoderState
    ) -> DecoderState:
        """Return one step of the examples.

        Args:
            memory: what they look at.
            weights: of steps.
            known: share of the gates, [B, 4 * state].
            parent: the state of the step that made what is expanded, [B, state]; zero at first.
            carried: from the step before.
        """
        gates = known + weights.recurrent(torch.cat([carried.attended, parent, carried.state], -1))
        entry, forget, update, exit_ = gates.chunk(4, -1)
        cell = forget.sigmoid() * carried.cell + entry.sigmoid() * update.tanh()
        state = exit_.sigmoid() * cell.tanh()
        query = weights.query(state).view(len(state), self.size.heads, 1, -1)
        shares = (query @ memory.keys + memory.hidden).softmax(-1)  # not scaled, as released
        context = weights.context((shares @ memory.values).flatten(1)) + self.context.bias
        attended = self.dropout(weights.attended(torch.cat([state, context], -1)).tanh())
        return DecoderState(state, cell, attended)

    def scores(self, memory: Memory, outputs: Tensor, used: Tensor) -> Scores:
        """Score actions by outputs of steps [B, A, attention]; `used` is Bool [B, A, C], columns selected before."""
        rules = linear(self.readout(outputs), self.productions.weight, self.production_bias)
        logits = outputs @ memory.pointers.transpose(1, 2)
        gate = self.used_gate(outputs).sigmoid()
        logits = logits * torch.where(used, gate, 1 - gate)
        hidden = ~memory.columns[:, None]
        return Scores(log_softmax(rules.float(), -1), log_softmax(logits.float().masked_fill(hidden, -torch.inf), -1))


def _rows(table: nn.Embedding, ids: Tensor) -> Tensor:
    """Return rows of a table; zeros for -1."""
    return table(ids.clamp(min=0)) * (ids >= 0)[..., None]


def _used_before(columns: Tensor, count: int) -> Tensor:
    """Return which of so many columns were selected before each step: [B, A] to Bool [B, A, C]."""
    selected = columns[..., None] == torch.arange(count, device=columns.device)
    return (selected.cumsum(1) - selected.long()) > 0
