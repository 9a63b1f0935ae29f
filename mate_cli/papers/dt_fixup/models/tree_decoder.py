"""The decoder of a grammar: an LSTM that is fed its last action and the state of the parent of what it expands.

Source: Yin and Neubig, "A Syntactic Neural Model for General-Purpose Code Generation", ACL 2017; Xu et al. 2021
(DT-Fixup), appendix C.3, and the released code, whose attention does not scale its scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, log_softmax, pad

from mate_cli.models.layers.embeddings import FastDropout
from mate_cli.papers.dt_fixup.sql.grammar import NONE


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


class TimedLinear:
    """A dense layer without bias for many steps, whose weight gets its gradient in one product after all of them."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight.detach()
        self.inputs: list[Tensor] = []
        self.gradients: list[Tensor] = []
        self._steps: Tensor = _Sum.apply(weight, self)  # type: ignore[no-untyped-call]

    def __call__(self, inputs: Tensor) -> Tensor:
        """Map [B, inputs] to [B, outputs]."""
        outputs: Tensor = _Step.apply(inputs, self._steps, self)  # type: ignore[no-untyped-call]
        return outputs


class _Sum(torch.autograd.Function):
    """A number that every step depends on, so that its gradient comes after those of all steps."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, layer: TimedLinear) -> Tensor:  # noqa: ANN401 - torch's own context
        ctx.layer = layer
        return weight.new_zeros(())

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401 - torch's own context
        layer: TimedLinear = ctx.layer
        gradient = torch.cat(layer.gradients).T @ torch.cat(layer.inputs)
        layer.gradients, layer.inputs = [], []
        return gradient, None


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, steps: Tensor, layer: TimedLinear) -> Tensor:  # noqa: ANN401
        ctx.layer, ctx.nothing = layer, torch.zeros_like(steps)
        ctx.save_for_backward(inputs)
        return inputs @ layer.weight.T

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:  # noqa: ANN401 - torch's own context
        ctx.layer.inputs.append(ctx.saved_tensors[0])
        ctx.layer.gradients.append(gradient)
        return gradient @ ctx.layer.weight, ctx.nothing, None


class History:
    """The states of all steps so far, of which every example looks up another one."""

    def __init__(self, steps: int, like: Tensor) -> None:
        self.states = like.new_zeros(steps, *like.shape)
        self.gradients: Tensor | None = None
        self.rows = torch.arange(len(like), device=like.device)

    def keep(self, step: int, state: Tensor) -> Tensor:
        """Return the state [B, D] of a step, to be used from here on in its place."""
        output: Tensor = _Keep.apply(state, self, step)  # type: ignore[no-untyped-call]
        return output

    def at(self, steps: Tensor, last: Tensor) -> Tensor:
        """Return the states [B, D] of earlier steps [B]; `last` is the one that was kept last."""
        states: Tensor = _Find.apply(last, self, steps)  # type: ignore[no-untyped-call]
        return states

    def learn(self, steps: Tensor, gradient: Tensor) -> None:
        """Add what was learnt of states that were looked up."""
        if self.gradients is None:
            self.gradients = torch.zeros_like(self.states)
        self.gradients.index_put_((steps, self.rows), gradient, accumulate=True)


class _Keep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, state: Tensor, history: History, step: int) -> Tensor:  # noqa: ANN401
        history.states[step] = state
        ctx.history, ctx.step = history, step
        return state.view_as(state)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:  # noqa: ANN401 - torch's own context
        learnt = ctx.history.gradients
        return gradient if learnt is None else gradient + learnt[ctx.step], None, None


class _Find(torch.autograd.Function):
    """Lookup that depends on the last state, so that its gradient comes before that of any earlier state."""

    @staticmethod
    def forward(ctx: Any, last: Tensor, history: History, steps: Tensor) -> Tensor:  # noqa: ANN401
        ctx.history, ctx.steps = history, steps
        return history.states[steps, history.rows]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, None]:  # noqa: ANN401 - torch's own context
        ctx.history.learn(ctx.steps, gradient)
        return None, None, None
