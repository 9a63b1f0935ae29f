"""Plans made ahead of time, by the processes that make batches."""

from dataclasses import dataclass, replace

from mate_cli.attention.base import AttentionBackend
from mate_cli.attention.pattern import AttentionPattern
from mate_cli.attention.plan import Plans
from mate_cli.tokenization.layout import TableBatch


@dataclass(frozen=True)
class Planner:
    """Derives what attention will ask of a batch ahead of time, where batches are made.

    Args:
        layers: the patterns of a network, each with what will compute it; None for what stays with its weights.
    """

    layers: tuple[tuple[AttentionPattern, AttentionBackend | None], ...]

    def __call__(self, batch: TableBatch) -> TableBatch:
        """The batch with its plans prepared, to be pinned and moved with it."""
        plans = Plans((pattern for pattern, _ in self.layers), batch)
        for pattern, backend in self.layers:
            if backend is not None:
                backend.prepare(plans[pattern])
        return replace(batch, prepared=plans.derived)
