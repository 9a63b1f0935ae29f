"""The rows of relation-aware attention: by compiled kernels where there are any, else by PyTorch."""

import ctypes
from dataclasses import dataclass

import torch
from torch import Tensor

from mate_cli.attention.backends.native_build import native_kernels


@dataclass(frozen=True)
class NodeRelations:
    """The relations of the nodes of a batch, and the nodes that are real.

    Args:
        ids: of the relation of node i, which asks, to node j, uint8 [B, K, K].
        real: uint8 [B, K], 1 where there is a node.
    """

    ids: Tensor
    real: Tensor


class _Problem(ctypes.Structure):
    """Arguments of both kernels; the fields are those of `Relate` in native_cpp/relate.cpp."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("examples", "heads", "nodes", "relations", "threads")),
        *((name, ctypes.c_void_p) for name in ("ids", "real")),
    )


def weigh(scores: Tensor, of_relations: Tensor, related: NodeRelations) -> tuple[Tensor, Tensor]:
    """Return the softmax over nodes of scores with those of their relations, and its sums by relation.

    Args:
        scores: without what relations add, [B, N, K, K]; may be written to.
        of_relations: what each relation would add, [B, N, K, R].
        related: which relation it is.

    Returns:
        Weights [B, N, K, K], zero where a node is not real, and sums [B, N, K, R].
    """
    if _is_native(scores):
        sums = torch.empty_like(of_relations)
        _call("mate_relate", related, of_relations, scores, of_relations, sums)
        return scores, sums
    ids = related.ids.long()[:, None].expand_as(scores)
    real = related.real.bool()
    scores = scores + of_relations.gather(-1, ids)
    weights = scores.masked_fill(~real[:, None, None], torch.finfo(scores.dtype).min).softmax(-1)
    weights = weights * real[:, None, :, None]
    return weights, _sums(weights, ids, of_relations)


def weigh_backward(weights: Tensor, gradient: Tensor, of_sums: Tensor, related: NodeRelations) -> tuple[Tensor, Tensor]:
    """Return the gradients of both kinds of scores that `weigh` is given, from those of what it returns.

    Args:
        weights: that it returned.
        gradient: of the weights; may be written to.
        of_sums: gradient of the sums.
        related: as there.
    """
    if _is_native(weights):
        of_relations = torch.empty_like(of_sums)
        _call("mate_relate_backward", related, of_sums, weights, gradient, of_sums, of_relations)
        return gradient, of_relations
    ids = related.ids.long()[:, None].expand_as(weights)
    gradient = gradient + of_sums.gather(-1, ids)
    gradient = (gradient - (gradient * weights).sum(-1, keepdim=True)) * weights
    return gradient, _sums(gradient, ids, of_sums)


def _sums(values: Tensor, ids: Tensor, like: Tensor) -> Tensor:
    return torch.zeros_like(like).scatter_add(-1, ids, values)


def _is_native(scores: Tensor) -> bool:
    return scores.device.type == "cpu" and scores.dtype == torch.float32 and native_kernels() is not None


def _call(name: str, related: NodeRelations, of_relations: Tensor, *tensors: Tensor) -> None:
    """Run a kernel on contiguous tensors; it releases Python's lock."""
    examples, heads, nodes, relations = of_relations.shape
    places = [tensor.data_ptr() for tensor in (related.ids, related.real)]
    problem = _Problem(examples, heads, nodes, relations, torch.get_num_threads(), *places)
    getattr(native_kernels(), name)(ctypes.byref(problem), *(ctypes.c_void_p(one.data_ptr()) for one in tensors))
