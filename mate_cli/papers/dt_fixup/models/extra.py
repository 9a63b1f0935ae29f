"""New layers on states that something else has made, such as pre-trained layers.

Source: Xu et al., "Optimizing Deeper Transformers on Small Datasets", ACL 2021, figure 1 and section 3.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field
from torch import Tensor, nn

from mate_cli.attention.base import Plans
from mate_cli.errors import ConfigError
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.layers.added import AddedLayers, DeepenedNetwork, ExtraOptions
from mate_cli.models.layers.embeddings import FastDropout
from mate_cli.models.layers.encoder import Dropout, Encoder, LayerOptions, LayerSpec, Norm
from mate_cli.papers.dt_fixup.models.schemes import draw, find_scheme
from mate_cli.tokenization.layout import TableBatch


@dataclass(frozen=True)
class Extra(ExtraOptions):
    """Options of added layers: number, size and first weights.

    Args:
        layers: N; 0 for none at all, but the dropout and the map to their width.
        width: of their states; None for that of what they are given.
        heads: of each.
        inner: width of the feed-forward layers.
        scheme: a name in `SCHEMES`: what they begin with.
        norm: where their LayerNorms are; None for where the scheme wants them.
        input_dropout: the probability of dropping a number of what they are given.
        dropout: after every dense layer.
        attention_dropout: on attention weights.
        activation: of the feed-forward layers, by its name in transformers.
        projection_bias: queries, keys and values have one.
        mu_source: where the largest norm is measured: of what is given (`pre_map`, as released) or of what the first
            layer is given, after the map to another width (`input`, as the paper says).

    The sizes are those of the paper's ReClor, appendix D.
    """

    layers: Annotated[int, Field(ge=0)] = 4
    width: Annotated[int, Field(gt=0)] | None = None
    heads: Annotated[int, Field(gt=0)] = 8
    inner: Annotated[int, Field(gt=0)] = 2048
    scheme: str = "dt_fixup"
    norm: Norm | None = None
    input_dropout: Dropout = 0.4
    dropout: Dropout = 0.1
    attention_dropout: Dropout = 0.1
    activation: str = "gelu"
    projection_bias: bool = True
    mu_source: Literal["pre_map", "input"] = "pre_map"

    def build(self, given: int, spec: Callable[[EncoderSize], LayerSpec], **options: Any) -> ExtraLayers:
        """Build the layers, see `ExtraLayers`."""
        return ExtraLayers(self, given, spec, **options)


class ExtraLayers(AddedLayers):
    """New layers: dropout, a map to their width where it is another, N layers, their last norm, and a map back.

    All matrices are drawn by Xavier; what the scheme makes of them waits for data, see `prepare`.

    Args:
        spec: what a layer sees and how, for layers of a size; asked for every layer, so that attention with weights
            can be each layer's own.
        returned: width of what they return; None for that of the layers.

    Raises:
        ConfigError: the width is no multiple of the heads, or there is no such scheme or activation.
    """

    def __init__(
        self,
        extra: Extra,
        input_width: int,
        spec: Callable[[EncoderSize], LayerSpec],
        *,
        returned: int | None = None,
        gradient_checkpointing: bool = False,
    ) -> None:
        super().__init__()
        width, scheme = extra.width or input_width, find_scheme(extra.scheme)
        if width % extra.heads:
            problem = f"a width of {width} cannot be divided into {extra.heads} heads"
            raise ConfigError(problem, where="model.extra.heads", remedy="Choose a divisor of the width")
        self.extra, self.size = extra, EncoderSize(width, extra.layers, extra.heads, extra.inner)
        norm = extra.norm or scheme.norm
        if scheme.omega and norm != "post":
            raise ConfigError(f"{extra.scheme} keeps the norms", where="model.extra.norm", remedy="Leave it out")
        options = LayerOptions(
            extra.activation,
            extra.dropout,
            extra.attention_dropout,
            norm=norm,
            omega=scheme.omega,
            projection_bias=extra.projection_bias,
        )
        self.dropout = FastDropout(extra.input_dropout)
        self.into: nn.Module = _map(input_width, width)
        built = (spec(self.size).build(self.size, options) for _ in range(extra.layers))
        self.encoder = Encoder(built, gradient_checkpointing=gradient_checkpointing)
        self.LayerNorm: nn.Module = nn.LayerNorm(width) if extra.layers and norm != "none" else nn.Identity()
        self.back: nn.Module = _map(width, returned or width)
        draw(self)

    def scheme_inputs(self, states: Tensor) -> Tensor:
        """Return what the scheme measures of the states [P, given] that come in."""
        return states if self.extra.mu_source == "pre_map" else self.into(states)

    def prepare(
        self,
        network: DeepenedNetwork,
        batches: Iterable[TableBatch],
        agree: Callable[[Callable[[], list[float]]], list[float]],
    ) -> Mapping[str, str]:
        """Let the scheme change the layers in place by what the training split says; return what was done, in words."""
        scheme, layers = find_scheme(self.extra.scheme), self.encoder.layers
        if not layers:
            return {}
        measured = agree(lambda: scheme.measure(network, layers, batches))
        done = scheme.apply(layers, measured)
        return {self.extra.scheme: done} if done else {}

    def forward(self, states: Tensor, plans: Plans, key_bias: Tensor | None = None) -> Tensor:
        """Map states [P, given] to states [P, returned]."""
        states = self.encoder(self.into(self.dropout(states)), plans, key_bias)
        returned: Tensor = self.back(self.LayerNorm(states))
        return returned


def _map(input_width: int, output_width: int) -> nn.Module:
    """Map one width to another, without a bias; do nothing where they are the same."""
    return nn.Identity() if input_width == output_width else nn.Linear(input_width, output_width, bias=False)
