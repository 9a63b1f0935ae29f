"""Relation-aware layers over words, tables and columns, on top of a pre-trained encoder.

Source: Xu et al., "Optimizing Deeper Transformers on Small Datasets", ACL 2021, appendix C (SQL-SP); Wang et al.,
"RAT-SQL", ACL 2020.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from mate_cli.attention.base import AttentionBackend, Planner, plan_layers
from mate_cli.attention.patterns import Full
from mate_cli.errors import ConfigError
from mate_cli.files.atomic import replace_file
from mate_cli.models.base.sizes import EncoderSize, encoder_size
from mate_cli.models.base.table_encoder import EncoderOutput, TableEncoder
from mate_cli.models.layers.added import AddedLayers
from mate_cli.models.layers.encoder import EncoderLayer, FastDropout, LayerSpec
from mate_cli.papers.dt_fixup.models.extra import Extra
from mate_cli.papers.dt_fixup.models.relation_attention import RelationAttention
from mate_cli.papers.dt_fixup.models.schemes import draw
from mate_cli.papers.dt_fixup.schema.relations import ACTIONS, NODE_KINDS, NODE_RELATIONS, NODE_TABLES, RELATIONS, WORD
from mate_cli.tokenization.layout import TableBatch


@dataclass(frozen=True)
class NodePieces:
    """Token indices of the graph nodes (question words, tables, columns) of a batch.

    The tokens of a node are adjacent.

    Args:
        tokens: indices of the M tokens of nodes among all B * T tokens, Int64 [M].
        nodes: indices of the nodes of these tokens among all B * K nodes, Int64 [M].
        counts: number of tokens of every node, Int64 [B * K].
    """

    tokens: Tensor
    nodes: Tensor
    counts: Tensor

    @classmethod
    def build(cls, batch: TableBatch, limit: int) -> NodePieces:
        """Find the tokens of each node of a batch, in which row ids of tokens are node numbers from 1.

        Args:
            batch: the batch.
            limit: maximum number of nodes per example K.
        """
        examples = len(batch.row_ids)
        tokens = ((batch.row_ids > 0) & (batch.attention_mask == 1)).flatten().nonzero().squeeze(1)
        example = tokens // batch.row_ids.shape[1]
        nodes = example * limit + batch.row_ids.flatten()[tokens] - 1
        return cls(tokens, nodes, torch.bincount(nodes, minlength=examples * limit))

    @property
    def starts(self) -> Tensor:
        """Index of every node's first token in the list of all M node tokens, Int64 [B * K].

        The index of a padding node is the last token.
        """
        indices = torch.arange(len(self.nodes), device=self.nodes.device)
        last_index = torch.full_like(self.counts, max(0, len(self.nodes) - 1))
        return last_index.scatter_reduce(0, self.nodes, indices, "amin")

    def first_tokens(self) -> Tensor:
        """Return the index of each graph node's first token, Int64 [B * K].

        The index counts all B * T tokens of the batch. The index of a padding node is arbitrary.
        """
        return self.tokens[self.starts]

    def means(self, states: Tensor) -> Tensor:
        """Average the hidden states of each graph node's tokens, [B * T, D] to [B * K, D].

        Padding nodes are zero.
        """
        sums = states.new_zeros(len(self.counts), states.shape[-1])
        sums = sums.index_add(0, self.nodes, states.index_select(0, self.tokens))
        return sums / self.counts.clamp(min=1)[:, None]

    def sequences(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Return the token indices of the selected graph nodes, one padded row per node.

        Args:
            indices: indices of the nodes among all B * K nodes, Int64 [I].

        Returns:
            The indices of their tokens among all tokens, Int64 [I, L], padded with the last token, and their token
            counts, Int64 [I].
        """
        counts = self.counts[indices]
        first = self.starts[indices]
        steps = torch.arange(int(counts.max()), device=counts.device)
        return self.tokens[first[:, None] + torch.minimum(steps, counts[:, None] - 1)], counts


class NameEncoder(nn.Module):
    """LSTM encoder of table and column names: last output plus the mean of all outputs.

    The LSTM is bidirectional. Each direction has half of the width.
    """

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, width // 2, batch_first=True, bidirectional=True)

    def forward(self, states: Tensor, counts: Tensor) -> Tensor:
        """Encode I names as one vector each: token states [I, L, D] to vectors [I, width].

        Args:
            states: token states, of which the first `counts` are valid.
            counts: number of tokens of each name [I].
        """
        packed_states = pack_padded_sequence(states, counts.cpu(), batch_first=True, enforce_sorted=False)
        outputs, _ = pad_packed_sequence(self.lstm(packed_states)[0], batch_first=True)
        last_index = (counts - 1)[:, None, None].expand(-1, 1, outputs.shape[-1])
        total: Tensor = outputs.gather(1, last_index).squeeze(1) + outputs.sum(1) / counts[:, None]
        return total


def node_kinds(batch: TableBatch) -> Tensor:
    """Return the types of the nodes of a batch, Int64 [B, K]; 0 for padding nodes.

    Raises:
        ConfigError: the batch has no nodes.
    """
    if NODE_KINDS not in batch.more:
        raise ConfigError("these encodings have no nodes", where="encoding", remedy="Use encoding=schema")
    return batch.more[NODE_KINDS]


def node_batch(batch: TableBatch) -> TableBatch:
    """Convert a token batch to a batch of graph nodes, the input of the added layers.

    Each node has the arrays (ids, positions) of its first token.

    Raises:
        ConfigError: the other batch has no nodes.
    """
    kinds = node_kinds(batch)
    node_pieces = NodePieces.build(batch, kinds.shape[1])
    length = batch.input_ids.shape[1]
    nodes = batch.keep((node_pieces.first_tokens() % length).view_as(kinds))
    return replace(nodes, attention_mask=(kinds > 0).long(), places=None)


class RelationAware(TableEncoder):
    """A BERT-like token encoder, and new layers over question words, tables and columns.

    The output has one token per node in `EncoderOutput.batch`. The state of its table is added to the state of each
    column. A completely frozen token encoder has no dropout, and its states are computed once per input.

    Args:
        size: size of the token encoder.
        attention: attention implementation of the token encoder.
        extra: options of the layers over nodes.

    Raises:
        ConfigError: the layers over nodes have no width.
    """

    arrays = (NODE_RELATIONS, NODE_KINDS, NODE_TABLES)
    extra: AddedLayers

    def __init__(
        self,
        size: str | EncoderSize,
        *,
        attention: AttentionBackend,
        extra: Extra,
        **options: Any,
    ) -> None:
        shape = encoder_size(size)
        spec = LayerSpec(Full(shape.num_heads), attention)
        options["pooler"] = False
        super().__init__(size, [spec] * shape.num_layers, token_types=("segment_ids",), **options)
        if extra.width is None:
            problem = "the node layers have no width"
            raise ConfigError(problem, where="model.extra.width", remedy="Set it (256 in the paper)")
        width = extra.width
        self.names = NameEncoder(shape.hidden_size, width)
        self.word_map = nn.Linear(shape.hidden_size, width, bias=False)
        self.name_map = nn.Linear(width, width, bias=False)
        self.node_dropout = FastDropout(extra.input_dropout)
        self.before_map = extra.mu_source == "pre_map"
        self.extra = replace(extra, input_dropout=0.0).build(
            width, lambda size: LayerSpec(Full(size.num_heads), RelationAttention(size, RELATIONS))
        )
        for module in (self.names, self.word_map, self.name_map):
            draw(module)
        self.cache: FrozenFeatures | None = None

    @property
    def frozen(self) -> bool:
        """True if all parameters of the token encoder are frozen."""
        weights = (*self.embeddings.parameters(), *self.encoder.parameters())
        return not any(weight.requires_grad for weight in weights)

    def set_cache_folder(self, folder: Path) -> None:
        """Cache states of inputs with gold queries in a folder if the token encoder is frozen."""
        self.cache = FrozenFeatures(folder / "frozen_states") if self.frozen else None

    @property
    def states_size(self) -> int:
        """Width of the returned hidden states, which belong to graph nodes instead of tokens."""
        return self.extra.size.hidden_size

    @property
    def planner(self) -> Planner:
        """Planner of the attention of the token encoder. It plans nothing if token states are cached."""
        if self.cache is not None:
            return Planner(())
        return Planner(tuple(dict.fromkeys(spec.prepared for spec in self.encoder.specs)))

    def layer_inputs(self, batch: TableBatch) -> Sequence[tuple[Sequence[EncoderLayer], TableBatch]]:
        """Return (encoder layers, token batch) and (added layers, node batch), to count operations."""
        return [(self.encoder.layers, batch), (self.extra.encoder.layers, node_batch(batch))]

    def train(self, mode: bool = True) -> RelationAware:
        """Set training or eval mode. Frozen modules stay in eval mode, so that they have no dropout."""
        super().train(mode)
        if self.frozen:
            self.embeddings.eval()
            self.encoder.eval()
        return self

    def forward(self, batch: TableBatch) -> EncoderOutput:
        """Encode the question words, tables and columns of each example as one hidden state per node."""
        vectors = self._vectors(batch)
        words, names = (self.node_dropout(tensor) for tensor in vectors)
        nodes = self.packed(node_batch(batch))
        plans = plan_layers([spec.pattern for spec in self.extra.encoder.specs], nodes)
        is_word = (node_kinds(batch) == WORD)[..., None]
        inputs = torch.where(is_word, self.word_map(words), self.name_map(names))
        states = nodes.packing.unpack(self.extra(nodes.packing.pack(inputs), plans))
        states = _with_tables(states, nodes)
        return EncoderOutput(states, self.pooler(states), nodes)

    def extra_inputs(self, batch: TableBatch) -> Iterable[Tensor]:
        """Return the inputs of the added layers: vectors of words and of names, each [nodes, width], unpadded."""
        words, names = self._vectors(batch)
        kinds = node_kinds(batch)
        if not self.before_map:
            words, names = self.word_map(words), self.name_map(names)
        return [words[kinds == WORD], names[kinds > WORD]]

    def token_states(self, batch: TableBatch) -> Tensor:
        """Return the hidden states of the token encoder, cached or computed, [B, T, D]."""
        if not self.frozen:
            return self._encode(batch)
        with torch.no_grad():
            # Do not cache states of user questions, which have no gold query.
            if self.cache is None or ACTIONS not in batch.more:
                return self._encode(batch)
            return self.cache.states(batch, nn.ModuleList([self.embeddings, self.encoder]), self._encode)

    def _encode(self, batch: TableBatch) -> Tensor:
        batch = self.packed(batch)
        plans = plan_layers([spec.pattern for spec in self.encoder.specs], batch)
        return batch.packing.unpack(self.encoder(self.embeddings(batch), plans))

    def _vectors(self, batch: TableBatch) -> tuple[Tensor, Tensor]:
        """Compute vectors of question words [B, K, D] and of names [B, K, width]. Other nodes are zero."""
        kinds = node_kinds(batch)
        node_pieces = NodePieces.build(batch, kinds.shape[1])
        states = self.token_states(batch).flatten(0, 1)
        words = node_pieces.means(states).view(*kinds.shape, -1)
        name_nodes = (kinds > WORD).flatten().nonzero().squeeze(1)
        tokens, counts = node_pieces.sequences(name_nodes)
        names = self.names(states[tokens], counts)
        spread = names.new_zeros(kinds.numel(), names.shape[-1]).index_copy(0, name_nodes, names)
        return words, spread.view(*kinds.shape, -1)


def _with_tables(states: Tensor, nodes: TableBatch) -> Tensor:
    """Add the hidden state of each table to the states of its columns, [B, K, D]."""
    tables = nodes.more[NODE_TABLES]
    table_states = states.gather(1, tables.clamp(min=0)[..., None].expand_as(states))
    return states + table_states * (tables >= 0)[..., None]


ENCODER_INPUTS = ("input_ids", "segment_ids", "position_ids")
"""Arrays that determine the states of a BERT-like encoder, in addition to its weights."""


class FrozenFeatures:
    """Disk cache of the hidden states of a frozen token encoder, in half precision.

    Each input has a file, in a folder for the weights of the encoder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._weights: tuple[tuple[int, ...], str] = ((), "")

    def states(self, batch: TableBatch, weights: nn.Module, compute: Callable[[TableBatch], Tensor]) -> Tensor:
        """Return the cached or newly computed hidden states [B, T, D] of a batch, zero on padding.

        Missing states are computed and cached.

        Args:
            batch: the batch.
            weights: modules whose weights determine the states.
            compute: returns the states of a batch.
        """
        folder = self.folder / self._fingerprint(weights)
        paths = [folder / name[:2] / f"{name}.npy" for name in _names(batch)]
        if not all(path.exists() for path in paths):
            folder.mkdir(parents=True, exist_ok=True)
            lengths = batch.attention_mask.sum(1).tolist()
            for path, states, length in zip(paths, compute(batch).cpu(), lengths, strict=True):
                with replace_file(path) as draft, draft.open("wb") as file:
                    np.save(file, states[:length].half().numpy())
        tensors = [torch.from_numpy(np.load(path)) for path in paths]
        padded = nn.utils.rnn.pad_sequence(tensors, batch_first=True)
        return padded.to(batch.input_ids.device, torch.float32)

    def _fingerprint(self, weights: nn.Module) -> str:
        """Hash the weights of the encoder. The hash is cached until a weight changes in place."""
        versions = tuple(tensor._version for tensor in weights.state_dict(keep_vars=True).values())
        if versions != self._weights[0] or not self._weights[1]:
            digest = hashlib.sha256()
            for name, tensor in weights.state_dict().items():
                digest.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
            self._weights = versions, digest.hexdigest()[:16]
        return self._weights[1]


def _names(batch: TableBatch) -> list[str]:
    """Return the cache file name of each example: a hash of its unpadded input arrays."""
    arrays = torch.stack([getattr(batch, name) for name in ENCODER_INPUTS], -1).cpu().numpy()
    lengths = batch.attention_mask.sum(1).tolist()
    return [
        hashlib.blake2b(array[:length].tobytes(), digest_size=16).hexdigest()
        for array, length in zip(arrays, lengths, strict=True)
    ]
