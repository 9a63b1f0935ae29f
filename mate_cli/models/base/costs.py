"""Work and memory of a network, counted and not measured.

Work is (query, key) pairs, and the floating-point operations that they stand for: a pair costs 4 * H operations per
head in the forward pass (a multiply and an add for its score and for its share of the value), and 2.5 times that in the
backward pass, in which fused kernels compute the score again. Softmax, gathers and padding inside kernels are not
counted: they are what keeps a variant from the peak.

Memory is what a training step holds at most: each tensor that the backward pass needs counts once, with the weights,
their gradients and the two moments of Adam. Attention counts as `triton` and PyTorch's fused kernels do it, without its
scores. What libraries and the allocator take besides is left to `USABLE`.
"""

from collections import Counter
from dataclasses import dataclass, replace

from mate_cli.attention.base import Work
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.base.table_encoder import Reader, TableEncoder
from mate_cli.tokenization.layout import TableBatch

BACKWARD = 2.5
"""Operations of attention's backward pass, in forward passes."""
DENSE_BACKWARD = 2.0
"""The same of a dense layer."""


def encoder_flops(encoder: TableEncoder, batch: TableBatch, *, backward: bool) -> float:
    """Count operations of a network on a batch: dense layers on real tokens, attention as each layer computes it."""
    return sum(_one_flops(*reader, backward=backward) for reader in encoder.layer_inputs(batch))


def _one_flops(encoder: Reader, batch: TableBatch, *, backward: bool) -> float:
    plans, tokens, total = encoder.plans(batch), int(batch.attention_mask.sum()), 0.0
    for (size, spec), layers in Counter((layer.size, layer.spec) for layer in encoder.layers).items():
        work = spec.backend.work(plans[spec.pattern])
        dense = _layer_flops(size, tokens + work.memory, backward=backward)
        total += layers * (dense + work_flops(work, size.head_size, backward=backward))
    return total


def work_flops(work: Work, head_size: int, *, backward: bool) -> float:
    """Count operations of the attention of a layer; Linformer's dense mixing of keys and values is part of it."""
    mixing = 4.0 * head_size * work.mixed * (1 + DENSE_BACKWARD * backward)
    return attention_flops(work.pairs, head_size, backward=backward) + mixing


def attention_flops(pairs: int, head_size: int, *, backward: bool) -> float:
    """Return the operations of so many pairs, as counted here."""
    return 4.0 * head_size * pairs * (1 + BACKWARD * backward)


def dense_flops(size: EncoderSize, tokens: int, *, backward: bool) -> float:
    """Return the operations of the dense layers of an encoder (projections and feed-forward) on so many tokens."""
    return size.num_layers * _layer_flops(size, tokens, backward=backward)


def _layer_flops(size: EncoderSize, tokens: int, *, backward: bool) -> float:
    weights = 4 * size.hidden_size**2 + 2 * size.hidden_size * size.intermediate_size
    return 2.0 * weights * tokens * (1 + DENSE_BACKWARD * backward)


USABLE = 0.85
"""The share of a device's memory to be filled by count; the rest is for libraries and gaps. A guess, not measured."""
FULL, HALF = 4, 2
"""Bytes of a number in 32 bits, and in 16."""
OPTIMIZER = 3 * FULL
"""Bytes of a weight's gradient and of Adam's two moments."""
COPIED = ("Segments", "Sdpa", "Bucketed", "Eager")
"""Attention that keeps sorted or padded copies of queries, keys, values and outputs, besides these themselves."""


@dataclass(frozen=True)
class TrainingMemory:
    """Sizes that decide the memory of a training step, but for the number of examples.

    Args:
        layers: the shape of each layer.
        parameters: of the whole network.
        tokens: of the longest example.
        half: activations are in 16 bits (bf16-mixed, 16-mixed), the stream between layers and the weights in 32.
        copies: attention keeps copies of what it is given, see `COPIED`.
        checkpointing: only the states between layers are kept, and one layer at a time is computed again.
    """

    layers: tuple[EncoderSize, ...]
    parameters: int
    tokens: int
    half: bool = True
    copies: bool = False
    checkpointing: bool = False

    @property
    def weights(self) -> int:
        """Bytes of weights, gradients and moments; with autocast's copies in 16 bits, or the joint ones in 32.

        The joint projection keeps the concatenated weights of queries, keys and values for the backward pass.
        """
        joint = 0 if self.half or self.checkpointing else sum(3 * FULL * size.hidden_size**2 for size in self.layers)
        return self.parameters * (FULL + OPTIMIZER + HALF * self.half) + joint

    def layer(self, size: EncoderSize) -> int:
        """Return the bytes per token that the backward pass of one layer needs: 38 x D in 16 bits where I is 4 x D.

        Inputs of the joint projection and the first dense layer, queries, keys, values, what is attended, and both
        sides of the activation; in 32 bits the inputs of both norms; a byte for each number that may be dropped.
        """
        width, number = size.hidden_size, HALF if self.half else FULL
        activations = number * (6 * width + 2 * size.intermediate_size) + 2 * FULL * width + 2 * width
        return activations + FULL * size.num_heads + self.copies * 4 * number * width

    @property
    def per_token(self) -> int:
        """Bytes per token of all layers, of the embeddings and the last states, and of one layer's gradients."""
        width = max(size.hidden_size for size in self.layers)
        number = HALF if self.half else FULL
        ends = 3 * FULL * width + width
        gradients = max(2 * number * size.intermediate_size + 3 * FULL * size.hidden_size for size in self.layers)
        if self.checkpointing:
            activations = sum(FULL * size.hidden_size for size in self.layers) + max(map(self.layer, self.layers))
        else:
            activations = sum(map(self.layer, self.layers))
        return activations + ends + gradients

    def total(self, examples: int) -> int:
        """Return the bytes of a step with micro-batches of so many of the longest examples."""
        return self.weights + examples * self.tokens * self.per_token

    def most_examples(self, memory: float) -> int:
        """Count the longest examples that fit so many bytes; 0 where none does."""
        return max(0, int((USABLE * memory - self.weights) // (self.tokens * self.per_token)))

    def with_checkpointing(self) -> "TrainingMemory":
        """Return the same, with layers computed again."""
        return replace(self, checkpointing=True)


def training_memory(encoder: TableEncoder, parameters: int, tokens: int, *, half: bool) -> TrainingMemory:
    """Collect the sizes that decide the memory of training a network on examples of so many tokens.

    Args:
        encoder: the network, without its head.
        parameters: of all that is trained.
        tokens: of the longest example.
        half: activations are in 16 bits.
    """
    encoders = list(encoder.encoders.values())
    # Unknown layers cost as much as one.
    layers = tuple(layer.size for network in encoders for layer in network.layers) or (encoder.size,)
    copies = any(type(backend).__name__ in COPIED for backend in encoder.backends)
    checkpointing = all(network.encoder.gradient_checkpointing for network in encoders)
    return TrainingMemory(layers, parameters, tokens, half=half, copies=copies, checkpointing=checkpointing)
