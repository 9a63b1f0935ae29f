"""The interface of layers that are added behind those of a network; a class of `model.extra` makes them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from torch import Tensor, nn

from mate_cli.attention.base import Plans
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.layers.encoder import Encoder, LayerSpec
from mate_cli.tokenization.layout import TableBatch


class DeepenedNetwork(Protocol):
    """A network with added layers, as far as these are prepared."""

    def extra_inputs(self, batch: TableBatch) -> Iterable[Tensor]:
        """Return the vectors of a batch whose norms count for the scale, real ones only, each [vectors, width]."""

    def __call__(self, batch: TableBatch) -> object:
        """Run it, the added layers too."""


class AddedLayers(nn.Module, ABC):
    """New layers on the states of others.

    Attributes:
        encoder: the layers.
        size: of the layers.
    """

    encoder: Encoder
    size: EncoderSize

    @abstractmethod
    def scheme_inputs(self, states: Tensor) -> Tensor:
        """Return what is measured of the states [P, given] that come in."""

    @abstractmethod
    def prepare(
        self,
        network: DeepenedNetwork,
        batches: Iterable[TableBatch],
        agree: Callable[[Callable[[], list[float]]], list[float]],
    ) -> Mapping[str, str]:
        """Change the layers in place by what the training split says; return what was done, in words."""

    @abstractmethod
    def forward(self, states: Tensor, plans: Plans, key_bias: Tensor | None = None) -> Tensor:
        """Map states [P, given] to states [P, returned]."""


class ExtraOptions(ABC):
    """Options of added layers, which build them."""

    @abstractmethod
    def build(
        self,
        given: int,
        spec: Callable[[EncoderSize], LayerSpec],
        *,
        returned: int | None = None,
        gradient_checkpointing: bool = False,
    ) -> AddedLayers:
        """Build the layers, with weights that wait for `prepare`.

        Args:
            given: width of the states that come in.
            spec: what a layer sees and how, for layers of a size.
            returned: width of what they return; None for that of the layers.
            gradient_checkpointing: recompute layers in the backward pass.
        """
