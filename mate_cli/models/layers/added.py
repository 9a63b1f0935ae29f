"""Interface of layers added after the layers of a network.

A class configured by `model.extra` builds them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from torch import Tensor, nn

from mate_cli.attention.base import Plans
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.layers.encoder import Encoder, LayerSpec
from mate_cli.tokenization.layout import TableBatch


class DeepenedNetwork(Protocol):
    """The interface of a network that the preparation of its added layers uses."""

    def extra_inputs(self, batch: TableBatch) -> Iterable[Tensor]:
        """Return the vectors whose norms determine the scale, each [vectors, width].

        Only vectors of real tokens are returned.
        """

    def __call__(self, batch: TableBatch) -> object:
        """Run the network, including the added layers."""


class AddedLayers(nn.Module, ABC):
    """Base class of new layers on top of the hidden states of other layers.

    Attributes:
        encoder: encoder that contains the layers.
        size: size of the layers.
    """

    encoder: Encoder
    size: EncoderSize

    @abstractmethod
    def scheme_inputs(self, states: Tensor) -> Tensor:
        """Return the vectors that the scheme measures, computed from states [P, given]."""

    @abstractmethod
    def prepare(
        self,
        network: DeepenedNetwork,
        batches: Iterable[TableBatch],
        agree: Callable[[Callable[[], list[float]]], list[float]],
    ) -> Mapping[str, str]:
        """Initialize the layers in place, depending on the training split.

        Args:
            network: network that contains the layers.
            batches: batches of the training split.
            agree: runs a measurement on rank 0 and returns its result on all ranks.

        Returns:
            Human-readable notes for the record of the run, by topic.
        """

    @abstractmethod
    def forward(self, states: Tensor, plans: Plans, key_bias: Tensor | None = None) -> Tensor:
        """Map hidden states [P, given] to hidden states [P, returned].

        Args:
            states: hidden states of the preceding layers.
            plans: attention plans of the batch.
            key_bias: bias added to the attention logits of every key, [P]. None: no bias.
        """


class ExtraOptions(ABC):
    """Base class of options of added layers, which build the layers."""

    @abstractmethod
    def build(
        self,
        given: int,
        spec: Callable[[EncoderSize], LayerSpec],
        *,
        returned: int | None = None,
        gradient_checkpointing: bool = False,
    ) -> AddedLayers:
        """Build the layers. `AddedLayers.prepare` initializes their weights.

        Args:
            given: width of the input states.
            spec: function that returns the specification of a layer for a size.
            returned: width of the output states. None: the width of the layers.
            gradient_checkpointing: recompute layers in the backward pass.
        """
