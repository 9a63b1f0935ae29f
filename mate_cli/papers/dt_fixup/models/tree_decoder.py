"""Grammar decoder: an LSTM whose inputs include the last action and the parent's state.

Source: Yin and Neubig, "A Syntactic Neural Model for General-Purpose Code Generation", ACL 2017; Xu et al. 2021
(DT-Fixup), appendix C.3, and the released code, whose attention does not scale its scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, log_softmax, pad

from mate_cli.models.layers.encoder import FastDropout
from mate_cli.papers.dt_fixup.sql.grammar import NONE


@dataclass(frozen=True)
class DecoderSize:
    """Sizes of the SQL decoder: layer widths (set in `SqlParsing`), number of attention heads, dropout."""

    action: int = 128
    type: int = 64
    state: int = 512
    attention: int = 256
    heads: int = 8
    readout: int = 1024
    dropout: float = 0.6


class Memory(NamedTuple):
    """Encoder outputs for the decoder: keys and values of nodes, and embeddings of columns.

    They are computed once per batch.

    Args:
        keys: attention keys of nodes, [B, N, H, K].
        values: attention values of nodes, [B, N, K, H].
        hidden: additive mask, 0 for nodes and the lowest number for padding, [B, 1, 1, K].
        pointers: pointer keys of columns, [B, C, attention].
        inputs: action embeddings of columns, [B, C, action].
        columns: Bool [B, C], True for columns, False for padding.
    """

    keys: Tensor
    values: Tensor
    hidden: Tensor
    pointers: Tensor
    inputs: Tensor
    columns: Tensor

    def at(self, rows: Tensor) -> Memory:
        """Select examples by index, Int64 [B'], such as one example per beam hypothesis."""
        return Memory(*(tensor.index_select(0, rows) for tensor in self))


class Frontier(NamedTuple):
    """Inputs of each decoder step: the previous action and the field to fill next.

    They include step and production of the parent, and the type of the open field. All are Int64 [B, A], with -1 for a
    missing value, as in the first step. The parent is the action that opened the current field.

    Args:
        rules: production that the previous step applied; the number of productions for Reduce.
        columns: column that the previous step selected, from 0.
        parents: step that created the expanded field.
        productions: production that the parent step applied.
        types: type of the expanded field.
    """

    rules: Tensor
    columns: Tensor
    parents: Tensor
    productions: Tensor
    types: Tensor


class Steps(NamedTuple):
    """Gold derivations of a batch as tensors, with one grammar action per decoder step.

    Args:
        rules: production that each step applies, Int64 [B, A]. The number of productions for Reduce; -1 if the step
            selects a column or the derivation is complete.
        columns: column that each step selects, from 0, Int64 [B, A]; -1 if the step selects no column.
        frontier: decoder inputs before each step.
    """

    rules: Tensor
    columns: Tensor
    frontier: Frontier

    @classmethod
    def build(cls, rules: Tensor, columns: Tensor, parents: Tensor, productions: Tensor, types: Tensor) -> Steps:
        """Create the targets and decoder inputs of all steps from the columns of `action_rows`, all Int64 [B, A].

        Args:
            rules: production that each step applies.
            columns: column that each step selects.
            parents: step that created the expanded field.
            productions: production that the parent step applied.
            types: type of the expanded field.
        """
        rule, column = (pad(actions[:, :-1], (1, 0), value=NONE) for actions in (rules, columns))
        # All inputs of the first step are missing, as released.
        types = torch.cat([torch.full_like(types[:, :1], NONE), types[:, 1:]], 1)
        return cls(rules, columns, Frontier(rule, column, parents, productions, types))


class DecoderState(NamedTuple):
    """State of the decoder (LSTM and attention output) after one step.

    Args:
        state: hidden state of the LSTM [B, state].
        cell: cell state of the LSTM [B, state].
        attended: attention output [B, attention].
    """

    state: Tensor
    cell: Tensor
    attended: Tensor


class Scores(NamedTuple):
    """Log probabilities of the possible next decoder actions.

    An action applies a production, ends a field or selects a column of the schema.

    Args:
        rules: productions and Reduce [..., productions + 1].
        columns: columns [..., C].
    """

    rules: Tensor
    columns: Tensor


class TreeDecoder(nn.Module):
    """LSTM decoder that scores the grammar actions of a SQL query, one action per step."""

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

    def memory(self, nodes: Tensor, is_node: Tensor, columns: Tensor, is_column: Tensor) -> Memory:
        """Precompute keys and values of nodes and pointer keys of columns for all decoding steps.

        Args:
            nodes: states of nodes [B, K, nodes].
            is_node: Bool [B, K], True for nodes, False for padding.
            columns: states of columns [B, C, nodes].
            is_column: Bool [B, C], True for columns, False for padding.
        """
        keys, values = (layer(nodes).unflatten(-1, (self.size.heads, -1)) for layer in (self.key, self.value))
        lowest = torch.finfo(nodes.dtype).min
        hidden = torch.zeros_like(is_node, dtype=nodes.dtype).masked_fill(~is_node, lowest)[:, None, None]
        return Memory(
            keys.permute(0, 2, 3, 1).contiguous(),
            values.transpose(1, 2).contiguous(),
            hidden,
            self.pointer(columns),
            self.column_action(columns),
            is_column,
        )

    def start(self, examples: int) -> DecoderState:
        """Return the initial decoder state of `examples` examples, filled with zeros."""
        parameter = self.production_bias
        widths = (self.size.state, self.size.state, self.size.attention)
        return DecoderState(*(parameter.new_zeros(examples, width) for width in widths))

    def forward(self, memory: Memory, steps: Steps) -> Scores:
        """Return the scores of all actions at every step of gold derivations, [B, A, ...]."""
        outputs = self._run(memory, steps)
        used_columns = _find_used_columns(steps.columns, memory.columns.shape[1])
        return self.scores(memory, outputs, used_columns)

    def _run(self, memory: Memory, steps: Steps) -> Tensor:
        """Run the decoder over gold derivations. Return its attention output per step, [B, A, attention]."""
        input_gates, recurrent = self.known_gates(memory, steps.frontier).unbind(1), self.recurrent_weights()
        state, rows = self.start(len(steps.rules)), torch.arange(len(steps.rules), device=steps.rules.device)
        parents, parent = steps.frontier.parents.clamp(min=0).unbind(1), state.state
        states: list[DecoderState] = []
        for time, gates in enumerate(input_gates):
            if time:
                parent = torch.stack([earlier.state for earlier in states])[parents[time], rows]
            state = self.step(memory, recurrent, gates, parent, state)
            states.append(state)
        return torch.stack([state.attended for state in states], 1)

    def known_gates(self, memory: Memory, frontier: Frontier) -> Tensor:
        """Compute the part of the LSTM gates that depends on the given earlier actions, [B, A, 4 * state].

        The part is computed for all steps of training at once. The biases of the LSTM are included.
        """
        columns = frontier.columns[..., None]
        column_inputs = memory.inputs.gather(1, columns.clamp(min=0).expand(-1, -1, self.size.action)) * (columns >= 0)
        actions = _rows(self.productions, frontier.rules) + column_inputs
        known_inputs = actions, _rows(self.productions, frontier.productions), _rows(self.types, frontier.types)
        return self.gates(torch.cat(known_inputs, -1))

    def gates(self, inputs: Tensor) -> Tensor:
        """Compute the LSTM gate inputs that come from embeddings of previous actions.

        Args:
            inputs: concatenated embeddings of the last action, the parent's production and the type [..., width].
        """
        action, _, parent, kind, _ = self._input_weights()
        return linear(inputs, torch.cat([action, parent, kind], 1), self.lstm.bias_ih + self.lstm.bias_hh)

    def _input_weights(self) -> tuple[Tensor, ...]:
        s = self.size
        return torch.split(self.lstm.weight_ih, [s.action, s.attention, s.action, s.type, s.state], dim=1)

    def recurrent_weights(self) -> Tensor:
        """Concatenate the LSTM gate weights that are applied to outputs of earlier steps.

        This is done once per batch.
        """
        _, attended, _, _, parent = self._input_weights()
        return torch.cat([attended, parent, self.lstm.weight_hh], 1)

    def step(
        self, memory: Memory, recurrent: Tensor, input_gates: Tensor, parent: Tensor, previous: DecoderState
    ) -> DecoderState:
        """Apply one step of the decoder (LSTM and attention to the nodes), and return the new state.

        Args:
            memory: memory of the examples.
            recurrent: weights of the gates, as returned by `recurrent_weights`.
            input_gates: part of the gates that depends on known inputs, [B, 4 * state].
            parent: hidden state of the parent step, [B, state]; zero in the first step.
            previous: state after the previous step.
        """
        gates = input_gates + linear(torch.cat([previous.attended, parent, previous.state], -1), recurrent)
        entry, forget, update, exit_ = gates.chunk(4, -1)
        cell = forget.sigmoid() * previous.cell + entry.sigmoid() * update.tanh()
        state = exit_.sigmoid() * cell.tanh()
        query = self.query(state).view(len(state), self.size.heads, 1, -1)
        shares = (query @ memory.keys + memory.hidden).softmax(-1)  # not scaled, as released
        context = self.context((shares @ memory.values).flatten(1))
        attended = self.dropout(self.attended(torch.cat([state, context], -1)).tanh())
        return DecoderState(state, cell, attended)

    def scores(self, memory: Memory, outputs: Tensor, used_columns: Tensor) -> Scores:
        """Compute the log probabilities of all grammar actions from the outputs of decoder steps.

        Args:
            memory: memory of the examples.
            outputs: attention outputs of steps [B, A, attention].
            used_columns: columns selected in earlier steps, Bool [B, A, C].
        """
        rules = linear(self.readout(outputs), self.productions.weight, self.production_bias)
        logits = outputs @ memory.pointers.transpose(1, 2)
        gate = self.used_gate(outputs).sigmoid()
        logits = logits * torch.where(used_columns, gate, 1 - gate)
        hidden = ~memory.columns[:, None]
        return Scores(log_softmax(rules.float(), -1), log_softmax(logits.float().masked_fill(hidden, -torch.inf), -1))


def _rows(table: nn.Embedding, ids: Tensor) -> Tensor:
    """Look up embedding vectors by id. The id -1 gives a vector of zeros."""
    return table(ids.clamp(min=0)) * (ids >= 0)[..., None]


def _find_used_columns(columns: Tensor, count: int) -> Tensor:
    """Return for each step whether each column was selected in an earlier step, [B, A] to Bool [B, A, C]."""
    is_selected = columns[..., None] == torch.arange(count, device=columns.device)
    return (is_selected.cumsum(1) - is_selected.long()) > 0
