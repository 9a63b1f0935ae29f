"""The standard sizes of encoders, by name."""

from dataclasses import dataclass, field, replace

from mate_cli.errors import ConfigError


@dataclass(frozen=True)
class EncoderSize:
    """The shape of an encoder.

    Args:
        hidden_size: width D of the states.
        num_layers: layers.
        num_heads: attention heads N in each.
        intermediate_size: width of the feed-forward layer.
        max_positions: rows of the position table.
        first_layers: these are but the first layers of a deeper network, whose weights fit.
    """

    hidden_size: int
    num_layers: int
    num_heads: int
    intermediate_size: int
    max_positions: int = 512
    first_layers: bool = field(default=False, compare=False)

    @property
    def head_size(self) -> int:
        """The size H of one head."""
        return self.hidden_size // self.num_heads

    @property
    def standard_numbers(self) -> dict[str, int]:
        """Its numbers under the names that all configurations of transformers share."""
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
"""Source: Turc et al., "Well-Read Students Learn Better"; minilm: Wang et al., "MiniLM", 6 layers of 384."""


def encoder_size(size: str | EncoderSize) -> EncoderSize:
    """Return the size of this name; `minilm:2` is its first two layers.

    Raises:
        ConfigError: there is no such size.
    """
    if isinstance(size, EncoderSize):
        return size
    name, _, layers = size.partition(":")
    if name not in SIZES:
        raise ConfigError(f"unknown size {name!r}", where="model.size", remedy=f"Choose from {', '.join(SIZES)}")
    most = SIZES[name].num_layers
    if not layers:
        return SIZES[name]
    if not layers.isdecimal() or not 1 <= int(layers) <= most:
        raise ConfigError(
            f"{size!r} is not a number of layers", where="model.size", remedy=f"Use {name}:1 to {name}:{most}"
        )
    return replace(SIZES[name], num_layers=int(layers), first_layers=True)
