"""Operations and memory of a network, counted analytically instead of measured.

Operations are floating-point operations. A query-key pair costs 4 * H operations per head in the forward pass (a
multiply and an add for its logit and for its share of the value). The backward pass costs 2.5 times as much, because
fused kernels recompute the logits. Softmax, gathers and padding inside kernels are not counted: they are the overhead
that keeps a kernel below peak throughput.

Memory is the peak of a training step. Each tensor that the backward pass needs is counted once, in addition to the
weights, their gradients and the two moments of Adam. Attention logits are not counted, because `triton` and the fused
kernels of PyTorch do not store them. `USABLE_MEMORY_FRACTION` leaves a reserve for libraries and the allocator.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mate_cli.attention.base import Work, plan_layers
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.base.table_encoder import TableEncoder
from mate_cli.models.layers.encoder import EncoderLayer
from mate_cli.tokenization.layout import TableBatch

BACKWARD = 2.5
"""Operations of the backward pass of attention, as a multiple of its forward pass."""
DENSE_BACKWARD = 2.0
"""Operations of the backward pass of a dense layer, as a multiple of its forward pass."""


def encoder_flops(encoder: TableEncoder, batch: TableBatch, *, backward: bool) -> float:
    """Count the floating-point operations of a network, without its head, on a batch.

    Dense layers are counted on real tokens, attention as the backend of each layer computes it.

    Args:
        encoder: network without its head.
        batch: batch to encode.
        backward: also count the backward pass.
    """
    return sum(_layers_flops(*group, backward=backward) for group in encoder.layer_inputs(batch))


def _layers_flops(layers: Sequence[EncoderLayer], batch: TableBatch, *, backward: bool) -> float:
    plans = plan_layers([layer.spec.pattern for layer in layers], batch)
    tokens, total = int(batch.attention_mask.sum()), 0.0
    for (size, spec), count in Counter((layer.size, layer.spec) for layer in layers).items():
        layer_work = spec.backend.count_operations(plans[spec.pattern])
        dense = _layer_flops(size, tokens + layer_work.memory, backward=backward)
        total += count * (dense + work_flops(layer_work, size.head_size, backward=backward))
    return total


def work_flops(work: Work, head_size: int, *, backward: bool) -> float:
    """Count the floating-point operations of a layer's attention, given its pair counts (`Work`).

    Linformer's projection of keys and values to slots is included.

    Args:
        work: operation counts of the layer on a batch, from `Attention.count_operations`.
        head_size: size H of an attention head.
        backward: also count the backward pass.
    """
    mixing = 4.0 * head_size * work.mixed * (1 + DENSE_BACKWARD * backward)
    return attention_flops(work.pairs, head_size, backward=backward) + mixing


def attention_flops(pairs: int, head_size: int, *, backward: bool) -> float:
    """Count the floating-point operations of attention, given the number of query-key pairs.

    Args:
        pairs: number of pairs, over all heads.
        head_size: size H of an attention head.
        backward: also count the backward pass.
    """
    return 4.0 * head_size * pairs * (1 + BACKWARD * backward)


def dense_flops(size: EncoderSize, tokens: int, *, backward: bool) -> float:
    """Count the floating-point operations of all linear layers of an encoder, without attention.

    Args:
        size: size of the encoder.
        tokens: number of tokens.
        backward: also count the backward pass.
    """
    return size.num_layers * _layer_flops(size, tokens, backward=backward)


def _layer_flops(size: EncoderSize, tokens: int, *, backward: bool) -> float:
    weights = 4 * size.hidden_size**2 + 2 * size.hidden_size * size.intermediate_size
    return 2.0 * weights * tokens * (1 + DENSE_BACKWARD * backward)


USABLE_MEMORY_FRACTION = 0.85
"""Fraction of device memory to plan for. The rest is for libraries and fragmentation. An estimate, not measured."""
FP32_BYTES, HALF_BYTES = 4, 2
"""Bytes of a number in 32 bits and in 16 bits."""
OPTIMIZER = 3 * FP32_BYTES
"""Bytes per weight of its gradient and of the two moments of Adam."""
COPYING_BACKENDS = ("Segments", "Sdpa", "Bucketed", "Eager")
"""Backends that store sorted or padded copies of queries, keys, values and outputs for the backward pass."""


@dataclass(frozen=True)
class TrainingMemory:
    """Estimate of the memory of a training step, for any number of examples in a micro-batch.

    Args:
        layers: size of each layer.
        parameters: number of parameters of the whole network.
        tokens: number of tokens of the longest example.
        half: whether activations have 16 bits (bf16-mixed, 16-mixed). Hidden states between layers and weights have 32.
        copies: whether attention stores copies of its inputs and outputs, see `COPYING_BACKENDS`.
        checkpointing: whether only the hidden states between layers are stored, and one layer at a time is recomputed.
    """

    layers: tuple[EncoderSize, ...]
    parameters: int
    tokens: int
    half: bool = True
    copies: bool = False
    checkpointing: bool = False

    @property
    def weights(self) -> int:
        """Total bytes of weights, gradients, moments of Adam, and copies of weights.

        In 16 bits autocast copies all weights. In 32 bits without checkpointing, the joint projection stores the
        concatenated weights of queries, keys and values for the backward pass.
        """
        joint_weights = 0 if self.half or self.checkpointing else sum(3 * size.hidden_size**2 for size in self.layers)
        return self.parameters * (FP32_BYTES + OPTIMIZER + HALF_BYTES * self.half) + FP32_BYTES * joint_weights

    def layer(self, size: EncoderSize) -> int:
        """Compute the bytes per token that one layer stores for its backward pass.

        These are the inputs of the joint projection and of the first dense layer, queries, keys, values, attended
        values, and the inputs and outputs of the activation, as well as the inputs of both norms in 32 bits, and one
        byte for each number that dropout may drop. In 16 bits the result is 38 x D if I is 4 x D.
        """
        width, number = size.hidden_size, HALF_BYTES if self.half else FP32_BYTES
        activations = number * (6 * width + 2 * size.intermediate_size) + 2 * FP32_BYTES * width + 2 * width
        return activations + FP32_BYTES * size.num_heads + self.copies * 4 * number * width

    @property
    def per_token(self) -> int:
        """Bytes per token of activations of all layers, embeddings, output, and gradients of one layer."""
        width = max(size.hidden_size for size in self.layers)
        number = HALF_BYTES if self.half else FP32_BYTES
        embeddings_and_output = 3 * FP32_BYTES * width + width
        gradients = max(2 * number * size.intermediate_size + 3 * FP32_BYTES * size.hidden_size for size in self.layers)
        if self.checkpointing:
            activations = sum(FP32_BYTES * size.hidden_size for size in self.layers) + max(map(self.layer, self.layers))
        else:
            activations = sum(map(self.layer, self.layers))
        return activations + embeddings_and_output + gradients

    def total(self, examples: int) -> int:
        """Compute the bytes of a training step with `examples` examples of maximum length."""
        return self.weights + examples * self.tokens * self.per_token

    def most_examples(self, memory: float) -> int:
        """Compute how many examples of maximum length fit into `memory` bytes, possibly 0."""
        return max(0, int((USABLE_MEMORY_FRACTION * memory - self.weights) // (self.tokens * self.per_token)))

    def with_checkpointing(self) -> "TrainingMemory":
        """Return the estimate for the same training step with gradient checkpointing."""
        return replace(self, checkpointing=True)


def training_memory(encoder: TableEncoder, parameters: int, tokens: int, *, half: bool) -> TrainingMemory:
    """Return the estimate of the memory of a training step of a network.

    Args:
        encoder: network without its head.
        parameters: number of trained parameters, including the head.
        tokens: number of tokens of the longest example.
        half: whether activations have 16 bits.
    """
    encoders = list(encoder.encoders.values())
    # A network without known layers is counted as a single layer.
    layers = tuple(layer.size for network in encoders for layer in network.layers) or (encoder.size,)
    copies = any(type(backend).__name__ in COPYING_BACKENDS for backend in encoder.backends)
    checkpointing = all(network.encoder.gradient_checkpointing for network in encoders)
    return TrainingMemory(layers, parameters, tokens, half=half, copies=copies, checkpointing=checkpointing)
