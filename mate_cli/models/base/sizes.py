"""Standard sizes of encoders, by name."""

from dataclasses import dataclass, field, replace

from mate_cli.errors import ConfigError


@dataclass(frozen=True)
class EncoderSize:
    """Dimensions of a transformer encoder, such as hidden size and number of layers.

    Args:
        hidden_size: width D of the hidden states.
        num_layers: number of layers.
        num_heads: number N of attention heads of each layer.
        intermediate_size: width I of the feed-forward layer.
        max_positions: number of rows of the position embedding table.
        first_layers: whether the encoder is the first layers of a deeper network, whose weights it can load.
    """

    hidden_size: int
    num_layers: int
    num_heads: int
    intermediate_size: int
    max_positions: int = 512
    first_layers: bool = field(default=False, compare=False)

    @property
    def head_size(self) -> int:
        """Dimension H of one attention head: hidden size divided by the number of heads."""
        return self.hidden_size // self.num_heads

    @property
    def standard_numbers(self) -> dict[str, int]:
        """Dimensions by their names in configurations of transformers, such as `hidden_size`."""
        return {
            "hidden_size": self.hidden_size,
            "num_hidden_layers": self.num_layers,
            "num_attention_heads": self.num_heads,
            "intermediate_size": self.intermediate_size,
        }


SIZES: dict[str, EncoderSize] = {
    "tiny": EncoderSize(128, 2, 2, 512),
    "mini": EncoderSize(256, 4, 4, 1024),
    "minilm": EncoderSize(384, 6, 12, 1536),
    "small": EncoderSize(512, 4, 8, 2048),
    "medium": EncoderSize(512, 8, 8, 2048),
    "base": EncoderSize(768, 12, 12, 3072),
    "large": EncoderSize(1024, 24, 16, 4096),
}
"""Source: Turc et al., "Well-Read Students Learn Better". Of minilm: Wang et al., "MiniLM", 6 layers of 384."""


def encoder_size(size: str | EncoderSize) -> EncoderSize:
    """Return the encoder size with a name of `SIZES`, such as "base", or the size itself.

    The name "minilm:2" selects the first two layers of "minilm".

    Raises:
        ConfigError: the name or the number of layers is invalid.
    """
    if isinstance(size, EncoderSize):
        return size
    name, _, layers = size.partition(":")
    if name not in SIZES:
        raise ConfigError(f"unknown size {name!r}", where="model.size", remedy=f"Choose from {', '.join(SIZES)}")
    max_layers = SIZES[name].num_layers
    if not layers:
        return SIZES[name]
    if not layers.isdecimal() or not 1 <= int(layers) <= max_layers:
        hint = f"Use {name}:1 to {name}:{max_layers}"
        raise ConfigError(f"{size!r} is not a number of layers", where="model.size", remedy=hint)
    return replace(SIZES[name], num_layers=int(layers), first_layers=True)
