"""The output of a network for a batch."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from mate_cli.tokenization.layout import TableBatch


class EncoderOutput(NamedTuple):
    """States, and the batch that they are of.

    A network may return fewer tokens than it was given, or others: heads and losses read masks, ids, labels and names
    from `batch`, never from what the network was given.

    Args:
        states: of every token of `batch`, [B, T, D].
        pooled: of every example, [B, D].
        batch: whose tokens the states are of; what was given where the network changes nothing.
        early: states of an earlier stage, with the batch that these are of, such as those by which a network chooses
            the tokens that it keeps: for a loss on the way, and for people to look at. None where there is no such
            stage.
        scores: by which tokens were chosen: the logarithm of the probability that each token of what was given matters,
            [B, T], without gradient. None where none are scored.
    """

    states: Tensor
    pooled: Tensor
    batch: TableBatch
    early: EncoderOutput | None = None
    scores: Tensor | None = None

    def with_states(self, states: Tensor) -> EncoderOutput:
        """Return the same with other states [B, T, D], such as after dropout."""
        return self._replace(states=states)

    def spread(self, length: int) -> Tensor:
        """Return the states where their tokens stand in the encodings, [B, length, D]; zero where no token was kept."""
        return self.spread_out(self.states, length, 0.0)

    def spread_out(self, values: Tensor, length: int, fill: float) -> Tensor:
        """Return what belongs to its tokens [B, T, ...] where these stand in the encodings, [B, length, ...].

        Else `fill`.
        """
        places = self.batch.places
        if places is None:
            return values
        empty = values.new_full((len(values), length, *values.shape[2:]), fill)
        return empty.scatter(1, places.reshape(*places.shape, *(1,) * (values.ndim - 2)).expand_as(values), values)
