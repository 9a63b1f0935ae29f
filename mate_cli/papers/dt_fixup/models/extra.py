"""New layers on the output states of other layers, such as pre-trained layers.

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
from mate_cli.models.layers.encoder import Dropout, Encoder, FastDropout, LayerOptions, LayerSpec, Norm
from mate_cli.papers.dt_fixup.models.schemes import draw, find_scheme
from mate_cli.tokenization.layout import TableBatch


@dataclass(frozen=True)
class Extra(ExtraOptions):
    """Options of the transformer layers added to an encoder: number, size and initialization.

    Args:
        layers: number of layers N. 0: only dropout and the map to `width`.
        width: size of the hidden states. None: the size of the input states.
        heads: number of attention heads per layer.
        inner: size of the feed-forward layers.
        scheme: name of the initialization in `SCHEMES`.
        norm: position of the LayerNorms. None: the position required by the scheme.
        input_dropout: dropout probability of the input states.
        dropout: dropout probability after every linear layer.
        attention_dropout: dropout probability of attention weights.
        activation: activation of the feed-forward layers, by its name in transformers.
        projection_bias: if true, queries, keys and values have biases.
        mu_source: vectors whose largest norm is measured. "pre_map", as released: the input states; "input", as in the
            paper: the inputs of the first layer, after the map to `width`.

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
        """Create the added transformer layers with these options.

        Args:
            given: size of the input states.
            spec: returns the attention of a layer for a layer size.
            **options: further arguments of `ExtraLayers`.
        """
        return ExtraLayers(self, given, spec, **options)


class ExtraLayers(AddedLayers):
    """Transformer layers added to an encoder, with linear maps to and from the width of these layers.

    The order is dropout, a map to the width of the layers, N layers, a final LayerNorm, and a map back. Maps
    between equal widths are identities. All matrices have Xavier initialization. `prepare` rescales them by a
    scheme such as DT-Fixup, which measures data.

    Args:
        extra: options of the layers.
        input_width: size of the input states.
        spec: returns the attention of a layer for a layer size. Called once per layer, so that each layer can have its
            own attention parameters.
        returned: size of the output states. None: the width of the layers.
        gradient_checkpointing: if true, recompute layers in the backward pass.

    Raises:
        ConfigError: the width is not a multiple of the number of heads, or the scheme or activation is unknown.
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
        layer_modules = (spec(self.size).build(self.size, options) for _ in range(extra.layers))
        self.encoder = Encoder(layer_modules, gradient_checkpointing=gradient_checkpointing)
        self.LayerNorm: nn.Module = nn.LayerNorm(width) if extra.layers and norm != "none" else nn.Identity()
        self.back: nn.Module = _map(width, returned or width)
        draw(self)

    def scheme_inputs(self, states: Tensor) -> Tensor:
        """Map hidden states [P, given] to the vectors whose norms DT-Fixup measures, the layer inputs."""
        return states if self.extra.mu_source == "pre_map" else self.into(states)

    def prepare(
        self,
        network: DeepenedNetwork,
        batches: Iterable[TableBatch],
        agree: Callable[[Callable[[], list[float]]], list[float]],
    ) -> Mapping[str, str]:
        """Rescale the layers in place by measurements on the training split.

        Args:
            network: network that contains the layers.
            batches: batches of the training split.
            agree: runs the measurement and returns equal values on all ranks.

        Returns:
            A summary of the changes by scheme name; empty if nothing changed.
        """
        scheme, layers = find_scheme(self.extra.scheme), self.encoder.layers
        if not layers:
            return {}
        measurements = agree(lambda: scheme.measure(network, layers, batches))
        summary = scheme.apply(layers, measurements)
        return {self.extra.scheme: summary} if summary else {}

    def forward(self, states: Tensor, plans: Plans, key_bias: Tensor | None = None) -> Tensor:
        """Apply the added layers to P hidden states: [P, given] to [P, returned].

        Args:
            states: input states [P, given].
            plans: attention plans of the batch.
            key_bias: bias of attention scores, see `Attention`.
        """
        states = self.encoder(self.into(self.dropout(states)), plans, key_bias)
        returned: Tensor = self.back(self.LayerNorm(states))
        return returned


def _map(input_width: int, output_width: int) -> nn.Module:
    """Create a linear layer without bias from one width to another.

    Equal widths get the identity instead.
    """
    return nn.Identity() if input_width == output_width else nn.Linear(input_width, output_width, bias=False)
