"""Greedy and beam search for the most probable derivation, restricted to legal actions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from mate_cli.papers.dt_fixup.models.tree_decoder import DecoderState, Frontier, Memory, TreeDecoder
from mate_cli.papers.dt_fixup.sql.grammar import NONE, Action, Derivation, encode_action
from mate_cli.papers.dt_fixup.sql.schema import Schema


@dataclass(frozen=True)
class Search:
    """Options of greedy and beam search for the most probable derivation.

    Args:
        width: beam width. It decreases by one for every complete derivation. 1: greedy search.
        most: maximum number of steps.
        column_weight: factor of the log probability of columns; 3 in the released code.
    """

    width: int = 5
    most: int = 100
    column_weight: float = 1.0


class ScoredDerivation(NamedTuple):
    """A complete derivation and its score: log probability with a separate weight for columns."""

    actions: tuple[Action, ...]
    score: float


@dataclass(frozen=True)
class _Hypothesis:
    """An incomplete derivation in beam search, with its log probability.

    Args:
        example: index of the example in the batch.
        derivation: derivation so far.
        score: log probability with weighted columns.
        rows: index of this hypothesis among the hypotheses of each step so far.
    """

    example: int
    derivation: Derivation
    score: float = 0.0
    rows: tuple[int, ...] = ()


def ranked_derivations(
    decoder: TreeDecoder, memory: Memory, schemas: Sequence[Schema], search: Search
) -> list[list[ScoredDerivation]]:
    """Find the most probable derivations of each example by greedy and beam search, best first.

    Args:
        decoder: decoder that scores actions.
        memory: memory of the decoder for the batch.
        schemas: schema of each example.
        search: options of the search.
    """
    derivations = _Beam(decoder, memory, replace(search, width=1)).run(schemas)
    if search.width > 1:
        beam = _Beam(decoder, memory, search).run(schemas)
        derivations = [[*group, *beam_group] for group, beam_group in zip(derivations, beam, strict=True)]
    sorted_groups = (sorted(group, key=lambda derivation: -derivation.score) for group in derivations)
    return [
        list({derivation.actions: derivation for derivation in reversed(group)}.values())[::-1]
        for group in sorted_groups
    ]


class _Beam:
    """Beam search for all examples of a batch, whose hypotheses are scored together in each step."""

    def __init__(self, decoder: TreeDecoder, memory: Memory, search: Search) -> None:
        self.decoder, self.memory, self.search = decoder, memory, search
        self.weights = decoder.recurrent_weights()
        self.states: list[Tensor] = []
        self.derivations: dict[int, list[ScoredDerivation]] = {}

    @torch.no_grad()
    def run(self, schemas: Sequence[Schema]) -> list[list[ScoredDerivation]]:
        hypotheses = [_Hypothesis(index, Derivation(schema)) for index, schema in enumerate(schemas)]
        state = self.decoder.start(len(hypotheses))
        for _ in range(self.search.most):
            if not hypotheses:
                break
            rows = [hypothesis.rows[-1] if hypothesis.rows else index for index, hypothesis in enumerate(hypotheses)]
            previous_state = DecoderState(*(tensor.index_select(0, torch.tensor(rows)) for tensor in state))
            state = self._step(hypotheses, previous_state)
            hypotheses = self._extend(hypotheses, state)
        return [self.derivations.get(index, []) for index in range(len(schemas))]

    def _step(self, hypotheses: Sequence[_Hypothesis], previous_state: DecoderState) -> DecoderState:
        self.looked_at = self.memory.at(torch.tensor([hypothesis.example for hypothesis in hypotheses]))
        frontier = _frontier(hypothesis.derivation for hypothesis in hypotheses)
        gates = self.decoder.known_gates(self.looked_at, frontier)[:, 0]
        parent = previous_state.state
        if self.states:
            parents = zip(frontier.parents[:, 0].tolist(), hypotheses, strict=True)
            parent = torch.stack([self.states[step][hypothesis.rows[step]] for step, hypothesis in parents])
        result = self.decoder.step(self.looked_at, self.weights, gates, parent, previous_state)
        self.states.append(result.state)
        return result

    def _extend(self, hypotheses: Sequence[_Hypothesis], state: DecoderState) -> list[_Hypothesis]:
        """Extend each hypothesis by its best actions, and return the best new hypotheses of each example.

        Complete derivations are moved to `derivations`.
        """
        count = self.looked_at.columns.shape[1]
        used_columns = torch.zeros(len(hypotheses), 1, count, dtype=torch.bool)
        for row, hypothesis in enumerate(hypotheses):
            used_columns[row, 0, list(hypothesis.derivation.columns)] = True
        scores = self.decoder.scores(self.looked_at, state.attended[:, None], used_columns)
        rules, columns = (values[:, 0].double().numpy() for values in scores)
        columns = columns * self.search.column_weight
        incomplete: list[_Hypothesis] = []
        for example, group in groupby(enumerate(hypotheses), key=lambda numbered: numbered[1].example):
            completed = self.derivations.setdefault(example, [])
            free_width = self.search.width - len(completed)
            candidates = [
                (hypothesis.score + score, row, hypothesis, action)
                for row, hypothesis in group
                for score, action in _best_actions(hypothesis.derivation.legal(), rules[row], columns[row], free_width)
            ]
            for score, row, hypothesis, action in sorted(candidates, key=lambda candidate: -candidate[0])[:free_width]:
                derivation = hypothesis.derivation.apply(action)
                if derivation.is_complete:
                    completed.append(ScoredDerivation(derivation.actions, score))
                else:
                    incomplete.append(_Hypothesis(example, derivation, score, (*hypothesis.rows, row)))
        return incomplete


def _best_actions(
    legal: Sequence[Action], rules: np.ndarray, columns: np.ndarray, limit: int
) -> Iterator[tuple[float, Action]]:
    """Yield (score, action) for the `limit` most probable legal actions, best first.

    Args:
        legal: legal actions, all of which select columns or none.
        rules: log probability of each production.
        columns: log probability of each column.
        limit: maximum number of actions.
    """
    of_rules, of_columns = zip(*map(encode_action, legal), strict=True)
    scores = columns[list(of_columns)] if of_rules[0] == NONE else rules[list(of_rules)]
    for index in np.argsort(-scores, kind="stable")[:limit]:
        yield float(scores[index]), legal[index]


def _frontier(derivations: Iterator[Derivation]) -> Frontier:
    """Collect the decoder inputs for the next step of each partial derivation, [B, 1]."""
    no_step = (NONE,) * len(Frontier._fields)
    rows = [(*encode_action(d.actions[-1]), *d.frontier) if d.actions else no_step for d in derivations]
    return Frontier(*torch.tensor(rows)[:, :, None].unbind(1))
