"""The kernels of the triton backend.

There is one program per tile of queries (or of keys) and head, without atomics. A table row r = token * V + block
stands for a token in one of the V blocks of heads, so r * HEADS + head is its index in [P, N]. A tile is six integers:
the start and the end of its rows, then the start and the number of the global partners, then the start and the number
of the other partners. The pattern is symmetric, so the same tiles serve as queries and as keys. Each kernel, not a
helper, loads the rows to which it stores: torch.compile assumes that a tensor passed to a helper is written to. The
log-sum-exp and the delta of each query, which one kernel stores for the next, are [HEADS, V * P] in the order of the
tasks, so that they can be loaded before the rows are. Source: Dao, "FlashAttention-2: Faster Attention with Better
Parallelism and Work Partitioning", algorithms 1 and 2; Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3"
(Philox); Wellons, "Prospecting for Hash Functions" (the constants of the mixing function).
"""

# ruff: noqa: N803 - capitals mark compile-time constants (tl.constexpr).
from __future__ import annotations

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
"""log2(e). Logits are scaled to base 2, because GPUs compute 2^x faster than e^x."""

QUERY, KEY, VALUE = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
"""Indices of the projections in the second axis of [P, 3, N, H]."""


@triton.jit
def _partners(tile: tl.tensor) -> tl.tensor:
    """Load the range of keys that a tile attends to: global tokens, then local keys.

    Return start and count of the global tokens, the offset of local keys, and the number of keys.
    """
    num_globals = tl.load(tile + 3)
    return tl.load(tile + 2), num_globals, tl.load(tile + 4) - num_globals, num_globals + tl.load(tile + 5)


@triton.jit
def _partner_rows(
    rows: tl.tensor,
    start: tl.tensor,
    STEP: tl.constexpr,
    global_start: tl.tensor,
    num_globals: tl.tensor,
    local_start: tl.tensor,
    num_partners: tl.tensor,
) -> tl.tensor:
    """Load STEP keys of a tile, from index `start`: their positions, table rows and mask.

    Positions are indices into `rows`, globals first.
    """
    slot = start + tl.arange(0, STEP)
    is_real = slot < num_partners
    position = slot + tl.where(slot < num_globals, global_start, local_start)
    return position, tl.load(rows + position, mask=is_real, other=0), is_real


@triton.jit
def _offsets(
    row: tl.tensor, is_real: tl.tensor, head: tl.tensor, HEADS: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr
) -> tl.tensor:
    """Return the memory offsets of the rows of one head in a tensor [P, N, H], and a mask.

    The mask selects real rows and columns below SIZE.
    """
    column = tl.arange(0, WIDTH)
    offset = (row.to(tl.int64) * HEADS + head)[:, None] * SIZE + column[None, :]
    return offset, is_real[:, None] & (column < SIZE)[None, :]


@triton.jit
def _shift(
    row: tl.tensor, PART: tl.constexpr, BLOCKS: tl.constexpr, HEADS: tl.constexpr, SIZE: tl.constexpr
) -> tl.tensor:
    """Compute the offset to add for query, key or value when a tensor is [P, 3, N, H].

    The offsets of rows are computed for [P, N, H].
    """
    return ((row // BLOCKS).to(tl.int64) * 2 + PART)[:, None] * (BLOCKS * HEADS * SIZE)


@triton.jit
def _dot(a: tl.tensor, b: tl.tensor, PRECISION: tl.constexpr, WIDEN: tl.constexpr) -> tl.tensor:
    """Multiply matrices, accumulating in float32.

    The interpreter cannot multiply bfloat16 and needs WIDEN.
    """
    if WIDEN:
        a, b = a.to(tl.float32), b.to(tl.float32)
    return tl.dot(a, b, input_precision=PRECISION)


@triton.jit
def _bias(key_bias: tl.tensor, row: tl.tensor, is_real: tl.tensor, BLOCKS: tl.constexpr) -> tl.tensor:
    """Load the bias of each key in `row`, scaled for a softmax with base-2 exponentials."""
    return tl.load(key_bias + row // BLOCKS, mask=is_real, other=0.0) * LOG2E


@triton.jit
def _random_bits(seed: tl.tensor, row: tl.tensor, head: tl.tensor, ROLE: tl.constexpr) -> tl.tensor:
    """Generate 32 random bits per row, as a query or as a key, to sample dropout (Philox)."""
    zero = row * 0
    bits, _, _, _ = tl.philox(seed, row, zero + head, zero + ROLE, zero)
    return bits


@triton.jit
def _dropout_factor(query_bits: tl.tensor, key_bits: tl.tensor, dropout: tl.tensor) -> tl.tensor:
    """Compute the dropout factor of each query-key pair: 0 if dropped, else 1 / (1 - dropout).

    The factor depends only on seed, query, key and head, so all kernels compute the same. Philox for every pair would
    take longer than the attention, so the random bits of query and key are mixed instead.
    """
    bits = query_bits + key_bits
    bits = (bits ^ (bits >> 16)) * 0x7FEB352D
    bits = (bits ^ (bits >> 15)) * 0x846CA68B
    return tl.where(tl.uint_to_uniform_float(bits ^ (bits >> 16)) >= dropout, 1 / (1 - dropout), 0.0)


@triton.jit(do_not_specialize=["num_rows"])
def attend(
    qkv: tl.tensor,
    key_bias: tl.tensor,
    output: tl.tensor,
    lse: tl.tensor,
    rows: tl.tensor,
    tiles: tl.tensor,
    num_rows: tl.tensor,
    scale: tl.tensor,
    dropout: tl.tensor,
    seed: tl.tensor,
    BLOCKS: tl.constexpr,
    HEADS: tl.constexpr,
    SIZE: tl.constexpr,
    WIDTH: tl.constexpr,
    TILE: tl.constexpr,
    STEP: tl.constexpr,
    BIASED: tl.constexpr,
    DROPPED: tl.constexpr,
    PRECISION: tl.constexpr,
    WIDEN: tl.constexpr,
) -> None:
    """Compute the values and log-sum-exp of a tile of queries, by an online softmax.

    Args:
        qkv: query, key and value vectors, [P, 3, N, H].
        key_bias: bias of every key, [P]. Ignored unless BIASED.
        output: attended values, [P, N, H], written by this kernel.
        lse: log-sum-exp of the logits in base 2, [HEADS, V * P], written by this kernel.
        rows: table rows in the order of the tasks, [V * P].
        tiles: tiles of `Tiling`, [tiles, 6].
        num_rows: number of table rows, V * P.
        scale: factor of the logits, H^-0.5.
        dropout: dropout probability of attention weights.
        seed: seed of the dropout, [1]. Ignored unless DROPPED.
        BLOCKS: number V of blocks of heads.
        HEADS: number of heads in each block.
        SIZE: head size H.
        WIDTH: head size, rounded up to a power of two.
        TILE: number of queries in a tile.
        STEP: number of keys loaded at a time.
        BIASED: whether keys have a bias.
        DROPPED: whether attention weights are dropped.
        PRECISION: precision of float32 products, "tf32" or "ieee".
        WIDEN: whether to convert inputs of products to float32.
    """
    tile, head = tiles + tl.program_id(0) // HEADS * 6, tl.program_id(0) % HEADS
    position = tl.load(tile) + tl.arange(0, TILE)
    real_query = position < tl.load(tile + 1)
    query_row = tl.load(rows + position, mask=real_query, other=0)
    query_offset, query_mask = _offsets(query_row, real_query, head, HEADS, SIZE, WIDTH)
    query = tl.load(qkv + query_offset + _shift(query_row, QUERY, BLOCKS, HEADS, SIZE), mask=query_mask, other=0.0)
    # A finite start value avoids NaN if all keys of the first step have a bias of -inf.
    maximum = tl.full([TILE], -1e30, tl.float32)
    total = tl.zeros([TILE], tl.float32)
    attended = tl.zeros([TILE, WIDTH], tl.float32)
    seed_value = tl.load(seed) if DROPPED else 0
    query_bits = _random_bits(seed_value, query_row, head, QUERY) if DROPPED else query_row
    global_start, num_globals, local_start, num_partners = _partners(tile)
    for start in range(0, num_partners, STEP):
        _, key_row, real_key = _partner_rows(rows, start, STEP, global_start, num_globals, local_start, num_partners)
        key_offset, key_mask = _offsets(key_row, real_key, head, HEADS, SIZE, WIDTH)
        key = tl.load(qkv + key_offset + _shift(key_row, KEY, BLOCKS, HEADS, SIZE), mask=key_mask, other=0.0)
        value = tl.load(qkv + key_offset + _shift(key_row, VALUE, BLOCKS, HEADS, SIZE), mask=key_mask, other=0.0)
        scores = _dot(query, tl.trans(key), PRECISION, WIDEN) * (scale * LOG2E)
        scores += _bias(key_bias, key_row, real_key, BLOCKS)[None, :] if BIASED else 0.0
        scores = tl.where(real_key[None, :], scores, float("-inf"))
        new_maximum = tl.maximum(maximum, tl.max(scores, 1))
        weights = tl.exp2(scores - new_maximum[:, None])
        shrink = tl.exp2(maximum - new_maximum)
        total = total * shrink + tl.sum(weights, 1)
        if DROPPED:
            weights *= _dropout_factor(
                query_bits[:, None], _random_bits(seed_value, key_row, head, KEY)[None, :], dropout
            )
        attended = attended * shrink[:, None] + _dot(weights.to(value.dtype), value, PRECISION, WIDEN)
        maximum = new_maximum
    tl.store(output + query_offset, (attended / total[:, None]).to(output.dtype.element_ty), mask=query_mask)
    tl.store(lse + head * num_rows + position, maximum + tl.log2(total), mask=real_query)


@triton.jit(do_not_specialize=["num_rows"])
def query_gradient(
    qkv: tl.tensor,
    key_bias: tl.tensor,
    output: tl.tensor,
    lse: tl.tensor,
    gradient: tl.tensor,
    delta: tl.tensor,
    qkv_gradient: tl.tensor,
    rows: tl.tensor,
    tiles: tl.tensor,
    num_rows: tl.tensor,
    scale: tl.tensor,
    dropout: tl.tensor,
    seed: tl.tensor,
    BLOCKS: tl.constexpr,
    HEADS: tl.constexpr,
    SIZE: tl.constexpr,
    WIDTH: tl.constexpr,
    TILE: tl.constexpr,
    STEP: tl.constexpr,
    BIASED: tl.constexpr,
    DROPPED: tl.constexpr,
    PRECISION: tl.constexpr,
    WIDEN: tl.constexpr,
) -> None:
    """Compute the gradients of the queries in a tile, in one program of the Triton kernel.

    Stores delta = sum(gradient * output) for `key_value_gradient`.

    Arguments: see `attend`. In addition, `gradient` [P, N, H] is the gradient of `output`. This kernel writes `delta`
    [HEADS, V * P] and the query part of `qkv_gradient` [P, 3, N, H].
    """
    tile, head = tiles + tl.program_id(0) // HEADS * 6, tl.program_id(0) % HEADS
    position = tl.load(tile) + tl.arange(0, TILE)
    real_query = position < tl.load(tile + 1)
    query_row = tl.load(rows + position, mask=real_query, other=0)
    query_offset, query_mask = _offsets(query_row, real_query, head, HEADS, SIZE, WIDTH)
    query_shift = _shift(query_row, QUERY, BLOCKS, HEADS, SIZE)
    query = tl.load(qkv + query_offset + query_shift, mask=query_mask, other=0.0)
    output_gradient = tl.load(gradient + query_offset, mask=query_mask, other=0.0)
    result = tl.load(output + query_offset, mask=query_mask, other=0.0)
    query_delta = tl.sum(output_gradient.to(tl.float32) * result.to(tl.float32), 1)
    tl.store(delta + head * num_rows + position, query_delta, mask=real_query)
    query_lse = tl.load(lse + head * num_rows + position, mask=real_query, other=0.0)
    summed = tl.zeros([TILE, WIDTH], tl.float32)
    seed_value = tl.load(seed) if DROPPED else 0
    query_bits = _random_bits(seed_value, query_row, head, QUERY) if DROPPED else query_row
    global_start, num_globals, local_start, num_partners = _partners(tile)
    for start in range(0, num_partners, STEP):
        _, key_row, real_key = _partner_rows(rows, start, STEP, global_start, num_globals, local_start, num_partners)
        key_offset, key_mask = _offsets(key_row, real_key, head, HEADS, SIZE, WIDTH)
        key = tl.load(qkv + key_offset + _shift(key_row, KEY, BLOCKS, HEADS, SIZE), mask=key_mask, other=0.0)
        value = tl.load(qkv + key_offset + _shift(key_row, VALUE, BLOCKS, HEADS, SIZE), mask=key_mask, other=0.0)
        scores = _dot(query, tl.trans(key), PRECISION, WIDEN) * (scale * LOG2E)
        scores += _bias(key_bias, key_row, real_key, BLOCKS)[None, :] if BIASED else 0.0
        weights = tl.exp2(tl.where(real_key[None, :], scores, float("-inf")) - query_lse[:, None])
        pull = _dot(output_gradient, tl.trans(value), PRECISION, WIDEN)
        if DROPPED:
            pull *= _dropout_factor(query_bits[:, None], _random_bits(seed_value, key_row, head, KEY)[None, :], dropout)
        pull = weights * (pull - query_delta[:, None])
        summed += _dot(pull.to(key.dtype), key, PRECISION, WIDEN)
    summed = (summed * scale).to(qkv_gradient.dtype.element_ty)
    tl.store(qkv_gradient + query_offset + query_shift, summed, mask=query_mask)


@triton.jit(do_not_specialize=["num_rows"])
def key_value_gradient(
    qkv: tl.tensor,
    key_bias: tl.tensor,
    lse: tl.tensor,
    gradient: tl.tensor,
    delta: tl.tensor,
    qkv_gradient: tl.tensor,
    bias_gradient: tl.tensor,
    rows: tl.tensor,
    tiles: tl.tensor,
    num_rows: tl.tensor,
    scale: tl.tensor,
    dropout: tl.tensor,
    seed: tl.tensor,
    BLOCKS: tl.constexpr,
    HEADS: tl.constexpr,
    SIZE: tl.constexpr,
    WIDTH: tl.constexpr,
    TILE: tl.constexpr,
    STEP: tl.constexpr,
    BIASED: tl.constexpr,
    DROPPED: tl.constexpr,
    PRECISION: tl.constexpr,
    WIDEN: tl.constexpr,
) -> None:
    """Compute the gradients of the keys and values in a tile, from all queries that attend to them.

    Logits are [keys, queries].

    Arguments: see `attend`. In addition, `gradient` [P, N, H] is the gradient of the attended values, and `delta` comes
    from `query_gradient`. This kernel writes the key and value parts of `qkv_gradient` [P, 3, N, H], and
    `bias_gradient` [P, N], the gradient of `key_bias` per head.
    """
    tile, head = tiles + tl.program_id(0) // HEADS * 6, tl.program_id(0) % HEADS
    position_in_rows = tl.load(tile) + tl.arange(0, TILE)
    real_key = position_in_rows < tl.load(tile + 1)
    key_row = tl.load(rows + position_in_rows, mask=real_key, other=0)
    key_offset, key_mask = _offsets(key_row, real_key, head, HEADS, SIZE, WIDTH)
    key_shift = _shift(key_row, KEY, BLOCKS, HEADS, SIZE)
    value_shift = key_shift + BLOCKS * HEADS * SIZE
    key = tl.load(qkv + key_offset + key_shift, mask=key_mask, other=0.0)
    value = tl.load(qkv + key_offset + value_shift, mask=key_mask, other=0.0)
    key_sum, value_sum = tl.zeros([TILE, WIDTH], tl.float32), tl.zeros([TILE, WIDTH], tl.float32)
    bias_sum = tl.zeros([TILE], tl.float32)
    seed_value = tl.load(seed) if DROPPED else 0
    key_bits = _random_bits(seed_value, key_row, head, KEY) if DROPPED else key_row
    global_start, num_globals, local_start, num_partners = _partners(tile)
    for start in range(0, num_partners, STEP):
        position, query_row, real_query = _partner_rows(
            rows, start, STEP, global_start, num_globals, local_start, num_partners
        )
        query_offset, query_mask = _offsets(query_row, real_query, head, HEADS, SIZE, WIDTH)
        query = tl.load(qkv + query_offset + _shift(query_row, QUERY, BLOCKS, HEADS, SIZE), mask=query_mask, other=0.0)
        output_gradient = tl.load(gradient + query_offset, mask=query_mask, other=0.0)
        # An infinite log-sum-exp gives queries outside the mask a weight of 0.
        query_lse = tl.load(lse + head * num_rows + position, mask=real_query, other=float("inf"))
        query_delta = tl.load(delta + head * num_rows + position, mask=real_query, other=0.0)
        scores = _dot(key, tl.trans(query), PRECISION, WIDEN) * (scale * LOG2E)
        scores += _bias(key_bias, key_row, real_key, BLOCKS)[:, None] if BIASED else 0.0
        weights = tl.exp2(scores - query_lse[None, :])
        factor = (
            _dropout_factor(_random_bits(seed_value, query_row, head, QUERY)[None, :], key_bits[:, None], dropout)
            if DROPPED
            else 1.0
        )
        value_sum += _dot((weights * factor).to(output_gradient.dtype), output_gradient, PRECISION, WIDEN)
        pull = weights * (_dot(value, tl.trans(output_gradient), PRECISION, WIDEN) * factor - query_delta[None, :])
        key_sum += _dot(pull.to(query.dtype), query, PRECISION, WIDEN)
        if BIASED:
            bias_sum += tl.sum(pull, 1)
    tl.store(qkv_gradient + key_offset + key_shift, (key_sum * scale).to(qkv_gradient.dtype.element_ty), mask=key_mask)
    tl.store(qkv_gradient + key_offset + value_shift, value_sum.to(qkv_gradient.dtype.element_ty), mask=key_mask)
    tl.store(bias_gradient + key_row * HEADS + head, bias_sum, mask=real_key)
