"""Work counted, not timed: (query, key) pairs, and the floating-point operations that they stand for.

The convention: a pair costs 4 * H operations per head in the forward pass (a multiply and an add for its score and
for its share of the value), and 2.5 times that in the backward pass, in which fused kernels compute the score again.
Softmax, gathers and padding inside kernels are not counted: they are what keeps a variant from the peak.
"""

from collections import Counter

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
    """Return the operations of so many pairs; see the convention above."""
    return 4.0 * head_size * pairs * (1 + BACKWARD * backward)


def dense_flops(size: EncoderSize, tokens: int, *, backward: bool) -> float:
    """Return the operations of the dense layers of an encoder (projections and feed-forward) on so many tokens."""
    return size.num_layers * _layer_flops(size, tokens, backward=backward)


def _layer_flops(size: EncoderSize, tokens: int, *, backward: bool) -> float:
    weights = 4 * size.hidden_size**2 + 2 * size.hidden_size * size.intermediate_size
    return 2.0 * weights * tokens * (1 + DENSE_BACKWARD * backward)
