"""New layers behind a pre-trained encoder of texts that stand side by side.

Source: Xu et al., "Optimizing Deeper Transformers on Small Datasets", ACL 2021, section 4.2: ReClor.
"""

from __future__ import annotations

from typing import Any

from mate_cli.attention.base import AttentionBackend
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.candidates import Candidates
from mate_cli.models.layers.extra import Extra


class Deeper(Candidates):
    """Texts side by side, each read by itself, by a network of which the last layers are new.

    Args:
        size: of the encoder, a name in `SIZES` or a size.
        attention: how attention is computed, in all layers.
        extra: the new layers.
        **options: those of `TableEncoder`.
    """

    def __init__(
        self,
        size: str | EncoderSize,
        *,
        attention: AttentionBackend,
        extra: Extra,
        **options: Any,  # noqa: ANN401 - passed on
    ) -> None:
        super().__init__(size, attention=attention, extra=extra, **options)
