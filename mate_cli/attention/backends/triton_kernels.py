"""The kernels of the triton backend: one program per tile of queries (or of keys) and head, no atomics.

A table row r = token * V + block stands for a token in one of the V blocks of heads, so that r * HEADS + head is its
place in [P, N]. A tile is six integers: the first and the end of its rows, then the start and number of the global
partners, then of the other ones. Which queries see a key is symmetric, so the same tiles serve both roles.
A kernel loads the rows that it stores to itself: torch.compile takes what a helper is given for written to.
What a kernel leaves of each query for the next, log-sum-exp and delta, is [HEADS, V * P] in the order of the tasks:
read without waiting for the rows.
Source: Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning", algorithms 1 and 2;
Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3" (Philox); Wellons, "Prospecting for Hash Functions"
(the constants of the mixing function).
"""

# ruff: noqa: N803 - capitals mark what Triton compiles in.
from __future__ import annotations

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
"""Scores are kept in base 2, which GPUs exponentiate faster."""

QUERY, KEY, VALUE = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
"""Indices of the projections in the second axis of [P, 3, N, H]."""


@triton.jit
def _partners(tile: tl.tensor) -> tl.tensor:
    """Return where the globals begin, how many they are, what a later slot adds to find its place, and all partners."""
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
    """Return the partners from this slot on, globals first: positions in `rows`, the table rows there, which exist."""
    slot = start + tl.arange(0, STEP)
    real = slot < num_partners
    position = slot + tl.where(slot < num_globals, global_start, local_start)
    return position, tl.load(rows + position, mask=real, other=0), real


@triton.jit
def _places(
    row: tl.tensor,
    real: tl.tensor,
    head: tl.tensor,
    HEADS: tl.constexpr,
    SIZE: tl.constexpr,
    WIDTH: tl.constexpr,
) -> tl.tensor:
    """Return where rows of one head lie in [P, N, H], and which numbers exist: of real rows, in the unpadded width."""
    column = tl.arange(0, WIDTH)
    place = (row.to(tl.int64) * HEADS + head)[:, None] * SIZE + column[None, :]
    return place, real[:, None] & (column < SIZE)[None, :]


@triton.jit
def _shift(
    row: tl.tensor, PART: tl.constexpr, BLOCKS: tl.constexpr, HEADS: tl.constexpr, SIZE: tl.constexpr
) -> tl.tensor:
    """Return what to add to places in [P, N, H] to find the query, key or value in [P, 3, N, H]."""
    return ((row // BLOCKS).to(tl.int64) * 2 + PART)[:, None] * (BLOCKS * HEADS * SIZE)


@triton.jit
def _dot(a: tl.tensor, b: tl.tensor, PRECISION: tl.constexpr, WIDEN: tl.constexpr) -> tl.tensor:
    """Return a matrix product summed in float32; WIDEN for the interpreter, which cannot multiply bfloat16."""
    if WIDEN:
        a, b = a.to(tl.float32), b.to(tl.float32)
    return tl.dot(a, b, input_precision=PRECISION)


@triton.jit
def _bias(key_bias: tl.tensor, row: tl.tensor, real: tl.tensor, BLOCKS: tl.constexpr) -> tl.tensor:
    """Return the bias of the keys, in base 2."""
    return tl.load(key_bias + row // BLOCKS, mask=real, other=0.0) * LOG2E


@triton.jit
def _words(seed: tl.tensor, row: tl.tensor, head: tl.tensor, ROLE: tl.constexpr) -> tl.tensor:
    """Return a random word for every row as a query or as a key, by Philox."""
    zero = row * 0
    bits, _, _, _ = tl.philox(seed, row, zero + head, zero + ROLE, zero)
    return bits


@triton.jit
def _survival(query_words: tl.tensor, key_words: tl.tensor, dropout: tl.tensor) -> tl.tensor:
    """Return 0 for dropped weights, else 1 / (1 - dropout), by seed, query, key and head: alike in all kernels.

    Philox for every pair would take longer than the attention; mixing the words of query and key is enough.
    """
    bits = query_words + key_words
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
    """Attend: values [P, N, H] and log-sum-exp of a tile of queries, by an online softmax over its keys."""
    tile, head = tiles + tl.program_id(0) // HEADS * 6, tl.program_id(0) % HEADS
    position = tl.load(tile) + tl.arange(0, TILE)
    real_query = position < tl.load(tile + 1)
    query_row = tl.load(rows + position, mask=real_query, other=0)
    place, exists = _places(query_row, real_query, head, HEADS, SIZE, WIDTH)
    query = tl.load(qkv + place + _shift(query_row, QUERY, BLOCKS, HEADS, SIZE), mask=exists, other=0.0)
    # Finite, so that a first step whose keys all have a bias of -inf gives no NaN.
    top = tl.full([TILE], -1e30, tl.float32)
    total = tl.zeros([TILE], tl.float32)
    attended = tl.zeros([TILE, WIDTH], tl.float32)
    drawn = tl.load(seed) if DROPPED else 0
    words = _words(drawn, query_row, head, QUERY) if DROPPED else query_row
    global_start, num_globals, local_start, num_partners = _partners(tile)
    for start in range(0, num_partners, STEP):
        _, key_row, real_key = _partner_rows(rows, start, STEP, global_start, num_globals, local_start, num_partners)
        key_place, key_exists = _places(key_row, real_key, head, HEADS, SIZE, WIDTH)
        key = tl.load(qkv + key_place + _shift(key_row, KEY, BLOCKS, HEADS, SIZE), mask=key_exists, other=0.0)
        value = tl.load(qkv + key_place + _shift(key_row, VALUE, BLOCKS, HEADS, SIZE), mask=key_exists, other=0.0)
        scores = _dot(query, tl.trans(key), PRECISION, WIDEN) * (scale * LOG2E)
        scores += _bias(key_bias, key_row, real_key, BLOCKS)[None, :] if BIASED else 0.0
        scores = tl.where(real_key[None, :], scores, float("-inf"))
        higher = tl.maximum(top, tl.max(scores, 1))
        weights = tl.exp2(scores - higher[:, None])
        shrink = tl.exp2(top - higher)
        total = total * shrink + tl.sum(weights, 1)
        if DROPPED:
            weights *= _survival(words[:, None], _words(drawn, key_row, head, KEY)[None, :], dropout)
        attended = attended * shrink[:, None] + _dot(weights.to(value.dtype), value, PRECISION, WIDEN)
        top = higher
    tl.store(output + place, (attended / total[:, None]).to(output.dtype.element_ty), mask=exists)
    tl.store(lse + head * num_rows + position, top + tl.log2(total), mask=real_query)


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
    """Return the gradient of a tile of queries; leaves delta = sum(gradient * output) for the other kernel."""
    tile, head = tiles + tl.program_id(0) // HEADS * 6, tl.program_id(0) % HEADS
    position = tl.load(tile) + tl.arange(0, TILE)
    real_query = position < tl.load(tile + 1)
    query_row = tl.load(rows + position, mask=real_query, other=0)
    place, exists = _places(query_row, real_query, head, HEADS, SIZE, WIDTH)
    query_shift = _shift(query_row, QUERY, BLOCKS, HEADS, SIZE)
    query = tl.load(qkv + place + query_shift, mask=exists, other=0.0)
    output_gradient = tl.load(gradient + place, mask=exists, other=0.0)
    result = tl.load(output + place, mask=exists, other=0.0)
    own_delta = tl.sum(output_gradient.to(tl.float32) * result.to(tl.float32), 1)
    tl.store(delta + head * num_rows + position, own_delta, mask=real_query)
    own_lse = tl.load(lse + head * num_rows + position, mask=real_query, other=0.0)
    summed = tl.zeros([TILE, WIDTH], tl.float32)
    drawn = tl.load(seed) if DROPPED else 0
    words = _words(drawn, query_row, head, QUERY) if DROPPED else query_row
    global_start, num_globals, local_start, num_partners = _partners(tile)
    for start in range(0, num_partners, STEP):
        _, key_row, real_key = _partner_rows(rows, start, STEP, global_start, num_globals, local_start, num_partners)
        key_place, key_exists = _places(key_row, real_key, head, HEADS, SIZE, WIDTH)
        key = tl.load(qkv + key_place + _shift(key_row, KEY, BLOCKS, HEADS, SIZE), mask=key_exists, other=0.0)
        value = tl.load(qkv + key_place + _shift(key_row, VALUE, BLOCKS, HEADS, SIZE), mask=key_exists, other=0.0)
        scores = _dot(query, tl.trans(key), PRECISION, WIDEN) * (scale * LOG2E)
        scores += _bias(key_bias, key_row, real_key, BLOCKS)[None, :] if BIASED else 0.0
        weights = tl.exp2(tl.where(real_key[None, :], scores, float("-inf")) - own_lse[:, None])
        pull = _dot(output_gradient, tl.trans(value), PRECISION, WIDEN)
        if DROPPED:
            pull *= _survival(words[:, None], _words(drawn, key_row, head, KEY)[None, :], dropout)
        pull = weights * (pull - own_delta[:, None])
        summed += _dot(pull.to(key.dtype), key, PRECISION, WIDEN)
    summed = (summed * scale).to(qkv_gradient.dtype.element_ty)
    tl.store(qkv_gradient + place + query_shift, summed, mask=exists)


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
    """Return the gradients of a tile of keys and values, over all queries that see them; scores are [keys, queries]."""
    tile, head = tiles + tl.program_id(0) // HEADS * 6, tl.program_id(0) % HEADS
    place_in_rows = tl.load(tile) + tl.arange(0, TILE)
    real_key = place_in_rows < tl.load(tile + 1)
    key_row = tl.load(rows + place_in_rows, mask=real_key, other=0)
    place, exists = _places(key_row, real_key, head, HEADS, SIZE, WIDTH)
    key_shift = _shift(key_row, KEY, BLOCKS, HEADS, SIZE)
    value_shift = key_shift + BLOCKS * HEADS * SIZE
    key = tl.load(qkv + place + key_shift, mask=exists, other=0.0)
    value = tl.load(qkv + place + value_shift, mask=exists, other=0.0)
    key_sum, value_sum = tl.zeros([TILE, WIDTH], tl.float32), tl.zeros([TILE, WIDTH], tl.float32)
    bias_sum = tl.zeros([TILE], tl.float32)
    drawn = tl.load(seed) if DROPPED else 0
    words = _words(drawn, key_row, head, KEY) if DROPPED else key_row
    global_start, num_globals, local_start, num_partners = _partners(tile)
    for start in range(0, num_partners, STEP):
        position, query_row, real_query = _partner_rows(
            rows, start, STEP, global_start, num_globals, local_start, num_partners
        )
        query_place, query_exists = _places(query_row, real_query, head, HEADS, SIZE, WIDTH)
        query = tl.load(qkv + query_place + _shift(query_row, QUERY, BLOCKS, HEADS, SIZE), mask=query_exists, other=0.0)
        output_gradient = tl.load(gradient + query_place, mask=query_exists, other=0.0)
        # With an infinite log-sum-exp the queries that do not exist weigh nothing.
        their_lse = tl.load(lse + head * num_rows + position, mask=real_query, other=float("inf"))
        their_delta = tl.load(delta + head * num_rows + position, mask=real_query, other=0.0)
        scores = _dot(key, tl.trans(query), PRECISION, WIDEN) * (scale * LOG2E)
        scores += _bias(key_bias, key_row, real_key, BLOCKS)[:, None] if BIASED else 0.0
        weights = tl.exp2(scores - their_lse[None, :])
        left = _survival(_words(drawn, query_row, head, QUERY)[None, :], words[:, None], dropout) if DROPPED else 1.0
        value_sum += _dot((weights * left).to(output_gradient.dtype), output_gradient, PRECISION, WIDEN)
        pull = weights * (_dot(value, tl.trans(output_gradient), PRECISION, WIDEN) * left - their_delta[None, :])
        key_sum += _dot(pull.to(query.dtype), query, PRECISION, WIDEN)
        if BIASED:
            bias_sum += tl.sum(pull, 1)
    tl.store(qkv_gradient + place + key_shift, (key_sum * scale).to(qkv_gradient.dtype.element_ty), mask=exists)
    tl.store(qkv_gradient + place + value_shift, value_sum.to(qkv_gradient.dtype.element_ty), mask=exists)
    tl.store(bias_gradient + key_row * HEADS + head, bias_sum, mask=real_key)
