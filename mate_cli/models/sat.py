"""SAT: all heads see the row and the column, as the MATE paper compares it, or as its authors made it.

Source: Zhang et al., "Table Fact Verification with Structure-Aware Transformer", EMNLP 2020; zhhongzhi/sat4table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from mate_cli.attention.base import AttentionBackend, AttentionPattern
from mate_cli.attention.patterns.same_row_or_column import SameRowOrColumn
from mate_cli.attention.patterns.sat import SatLayer
from mate_cli.attention.plan import AttentionPlan
from mate_cli.errors import ConfigError
from mate_cli.models.sizes import EncoderSize, encoder_size
from mate_cli.models.table_encoder import TableEncoder

if TYPE_CHECKING:
    from torch import Tensor


class Sat(TableEncoder):
    """A table encoder of which every head sees the row and the column.

    Args:
        size: a name in `SIZES`, or a size.
        attention: how attention is computed.
        variant: `tapas`: the mask of that code base in all layers, and the embeddings of TAPAS; `original`: rows only
            in the lower half of the layers, the header visible to all, and nothing embedded but words, positions and
            segments. What the authors also do to the table itself is `encoding=sat`.
        **options: those of `TableEncoder`.

    Raises:
        ConfigError: there is no such variant.
    """

    _patterns: Mapping[str, AttentionPattern] | None = None

    def __init__(
        self,
        size: str | EncoderSize,
        *,
        attention: AttentionBackend,
        variant: Literal["tapas", "original"] = "tapas",
        **options: Any,  # noqa: ANN401 - passed on
    ) -> None:
        if variant not in ("tapas", "original"):
            raise ConfigError(f"SAT has no variant {variant!r}", where="model.variant", remedy="Use tapas or original")
        heads, layers = encoder_size(size).num_heads, encoder_size(size).num_layers
        if variant == "tapas":
            super().__init__(size, SameRowOrColumn(heads), attention=attention, **options)
            return
        lower = WithPattern(attention, SatLayer(heads, columns=False))
        backends = [lower if layer < layers // 2 else attention for layer in range(layers)]
        pattern = SatLayer(heads, columns=True)
        super().__init__(size, pattern, attention=backends, token_types=("segment_ids",), **options)
        if backends[0] is lower:
            self._patterns = {"lower layers": lower.pattern, "upper layers": pattern}

    @property
    def patterns(self) -> Mapping[str, AttentionPattern]:
        """What may be seen, by the layers in which it may."""
        return self._patterns or super().patterns


class WithPattern:
    """A backend for layers that see something else than the network's pattern.

    Args:
        backend: computes it.
        pattern: what these layers see.
    """

    def __init__(self, backend: AttentionBackend, pattern: AttentionPattern) -> None:
        self.backend, self.pattern = backend, pattern

    def supports(self, pattern: AttentionPattern, dropout: float = 0.0) -> None:
        """Accept any pattern of the network, as it plays no part here.

        Raises:
            ConfigError: the backend cannot compute the pattern of these layers.
        """
        self.backend.supports(self.pattern, dropout)

    def prepare(self, plan: AttentionPlan) -> None:
        """Derive what the backend will ask of this pattern."""
        self.backend.prepare(self._plan(plan))

    def forward(self, qkv: Tensor, plan: AttentionPlan, key_bias: Tensor | None = None, dropout: float = 0.0) -> Tensor:
        """Attend: [P, 3, N, H] to [P, N, H]."""
        own = plan.derive(("with", self.pattern), self._plan)
        return self.backend.forward(qkv, own, key_bias, dropout)

    def _plan(self, plan: AttentionPlan) -> AttentionPlan:
        own = AttentionPlan(self.pattern, plan.batch)
        own.derived = plan.derived
        return own
