"""Interface of layers that are added on top of a pre-trained network (`model.extra`)."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from torch import Tensor, nn

from mate_cli.attention.base import Plans
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.layers.encoder import Encoder, LayerSpec
from mate_cli.tokenization.layout import TableBatch


class DeepenedNetwork(Protocol):
    """Protocol of a network with added layers, as needed to initialize these layers."""

    def extra_inputs(self, batch: TableBatch) -> Iterable[Tensor]:
        """Return the input vectors of the added layers, each [vectors, width].

        Their norms determine the initial scale of the layers. Vectors of padding are excluded.
        """

    def __call__(self, batch: TableBatch) -> object:
        """Run the network, including the added layers."""


class AddedLayers(nn.Module, ABC):
    """Base class of new transformer layers on top of a pre-trained network (`model.extra`).

    Attributes:
        encoder: encoder that contains the layers.
        size: size of the layers.
    """

    encoder: Encoder
    size: EncoderSize

    @abstractmethod
    def scheme_inputs(self, states: Tensor) -> Tensor:
        """Map hidden states [P, given] to the vectors whose norms the initialization measures."""

    @abstractmethod
    def prepare(
        self,
        network: DeepenedNetwork,
        batches: Iterable[TableBatch],
        agree: Callable[[Callable[[], list[float]]], list[float]],
    ) -> Mapping[str, str]:
        """Initialize the added layers in place, depending on the training split.

        Args:
            network: network that contains the layers.
            batches: batches of the training split.
            agree: function that runs a measurement on rank 0 and returns its result on all ranks.

        Returns:
            Human-readable notes for the record of the run, by topic.
        """

    @abstractmethod
    def forward(self, states: Tensor, plans: Plans, key_bias: Tensor | None = None) -> Tensor:
        """Apply the added layers to P hidden states: [P, given] to [P, returned].

        Args:
            states: hidden states of the preceding layers.
            plans: attention plans of the batch.
            key_bias: bias added to the attention logits of every key, [P]. None: no bias.
        """


class ExtraOptions(ABC):
    """Base class of the configuration of added layers (`model.extra`), which builds the layers."""

    @abstractmethod
    def build(
        self,
        given: int,
        spec: Callable[[EncoderSize], LayerSpec],
        *,
        returned: int | None = None,
        gradient_checkpointing: bool = False,
    ) -> AddedLayers:
        """Build the added layers. `AddedLayers.prepare` initializes their weights.

        Args:
            given: width of the input states.
            spec: function that returns the specification of a layer for a size.
            returned: width of the output states. None: the width of the layers.
            gradient_checkpointing: recompute layers in the backward pass.
        """
