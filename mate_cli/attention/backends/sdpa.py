"""Dense masked attention with the fused kernels of PyTorch."""

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from mate_cli.attention.base import AttentionBackend, AttentionPlan, Work, attention_dtype
from mate_cli.attention.patterns import AttentionPattern, all_pairs


class Sdpa(AttentionBackend):
    """`scaled_dot_product_attention` with an additive mask, one call for each group of heads.

    Nothing is prepared in data workers: the mask is quadratic, and cheaper to compute than to transfer.
    """

    def count_operations(self, plan: AttentionPlan) -> Work:
        """Count T^2 query-key pairs per head and example, padding included."""
        return Work(all_pairs(plan.pattern, plan.batch))

    def forward(self, qkv: Tensor, plan: AttentionPlan, key_bias: Tensor | None = None, dropout: float = 0.0) -> Tensor:
        """Map queries, keys and values of P tokens, [P, 3, N, H], to attention outputs [P, N, H].

        See `Attention.forward`.
        """
        dtype = attention_dtype(qkv)
        masks = plan.derive(("sdpa", dtype), lambda plan: _additive(plan, dtype))
        bias = None if key_bias is None else plan.packing.unpack(key_bias)
        projections = (split_heads(x, plan.pattern) for x in plan.heads(qkv))
        outputs = [
            scaled_dot_product_attention(q, k, v, attn_mask=with_key_bias(mask, bias, dtype), dropout_p=dropout)
            for q, k, v, mask in zip(*projections, masks, strict=True)
        ]
        return plan.pack_heads(outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=1))


def split_heads(projection: Tensor, pattern: AttentionPattern) -> tuple[Tensor, ...]:
    """Split a projection [B, N, T, H] into one tensor [B, n, T, H] per group of heads."""
    return torch.split(projection, list(pattern.head_groups), dim=1)


def additive_mask(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert a boolean mask: True to 0, False to the lowest finite value of `dtype`.

    -inf would give NaN for a row without allowed keys.
    """
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, torch.finfo(dtype).min)


def with_key_bias(mask: Tensor | None, key_bias: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Add a bias per key to an additive attention mask.

    Args:
        mask: additive mask, [B, 1, 1 or T, T]. None: no token is masked.
        key_bias: bias of every key, [B, T]. None: the mask is returned unchanged.
        dtype: dtype of the result.
    """
    if key_bias is None:
        return mask
    bias = key_bias[:, None, None, :].to(dtype)
    return bias if mask is None else mask + bias


def _additive(plan: AttentionPlan, dtype: torch.dtype) -> list[Tensor | None]:
    """Return the additive mask of each group of heads, or None for a group that allows all pairs, which is faster."""
    masks = plan.pattern.checked_masks(plan.batch)
    if masks.stride(-2) == 0:
        masks = masks[..., :1, :]
    groups = torch.split(masks, 1, dim=1)
    tracing = torch.jit.is_tracing()  # type: ignore[attr-defined,no-untyped-call]
    # A traced graph cannot depend on the values of a mask.
    if tracing or torch.compiler.is_compiling():
        return [additive_mask(mask, dtype) for mask in groups]
    return [None if bool(mask.all()) else additive_mask(mask, dtype) for mask in groups]
