"""Relation-aware layers over words, tables and columns, on the states of a pre-trained encoder.

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

from mate_cli.attention.base import AttentionBackend, Planner, Plans
from mate_cli.attention.patterns import Full
from mate_cli.errors import ConfigError
from mate_cli.files.atomic import replace_file
from mate_cli.models.base.sizes import EncoderSize, encoder_size
from mate_cli.models.base.table_encoder import EncoderOutput, Reader, TableEncoder
from mate_cli.models.layers.added import AddedLayers
from mate_cli.models.layers.embeddings import FastDropout
from mate_cli.models.layers.encoder import EncoderLayer, LayerSpec
from mate_cli.papers.dt_fixup.models.extra import Extra
from mate_cli.papers.dt_fixup.models.relation_attention import RelationAttention
from mate_cli.papers.dt_fixup.models.schemes import draw
from mate_cli.papers.dt_fixup.schema.relations import ACTIONS, NODE_KINDS, NODE_RELATIONS, NODE_TABLES, RELATIONS, WORD
from mate_cli.tokenization.layout import TableBatch


@dataclass(frozen=True)
class NodePieces:
    """The word pieces of the nodes of a batch; those of a node lie side by side.

    Args:
        tokens: places of the M pieces that are of a node among all tokens, B * T, Int64 [M].
        nodes: their nodes' places among all, B * K, Int64 [M].
        counts: pieces of every node, Int64 [B * K].
    """

    tokens: Tensor
    nodes: Tensor
    counts: Tensor

    @classmethod
    def of(cls, batch: TableBatch, most: int) -> NodePieces:
        """Return those of a batch, whose row ids number the nodes of an example from 1 to at most `most`."""
        examples = len(batch.row_ids)
        tokens = ((batch.row_ids > 0) & (batch.attention_mask == 1)).flatten().nonzero().squeeze(1)
        example = tokens // batch.row_ids.shape[1]
        nodes = example * most + batch.row_ids.flatten()[tokens] - 1
        return cls(tokens, nodes, torch.bincount(nodes, minlength=examples * most))

    @property
    def starts(self) -> Tensor:
        """The place of every node's first piece among the M, Int64 [B * K]; the last one where there is no node."""
        pieces = torch.arange(len(self.nodes), device=self.nodes.device)
        last = torch.full_like(self.counts, max(0, len(self.nodes) - 1))
        return last.scatter_reduce(0, self.nodes, pieces, "amin")

    def first_tokens(self) -> Tensor:
        """Return the token of every node's first piece, Int64 [B * K]; any token where there is no node."""
        return self.tokens[self.starts]

    def means(self, states: Tensor) -> Tensor:
        """Return the mean of the states [B * T, D] of every node's pieces, [B * K, D]; zero where there is no node."""
        sums = states.new_zeros(len(self.counts), states.shape[-1])
        sums = sums.index_add(0, self.nodes, states.index_select(0, self.tokens))
        return sums / self.counts.clamp(min=1)[:, None]

    def sequences(self, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """Return the pieces of some nodes.

        Args:
            chosen: places of the nodes among all, Int64 [I].

        Returns:
            The places of their pieces among all tokens, Int64 [I, L], the last one again and again where there are no
            more, and how many there are, Int64 [I].
        """
        counts = self.counts[chosen]
        first = self.starts[chosen]
        steps = torch.arange(int(counts.max()), device=counts.device)
        return self.tokens[first[:, None] + torch.minimum(steps, counts[:, None] - 1)], counts


class NameEncoder(nn.Module):
    """The last output of a bidirectional LSTM plus the mean of all of them, half of the width from each direction."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, width // 2, batch_first=True, bidirectional=True)

    def forward(self, states: Tensor, counts: Tensor) -> Tensor:
        """Map states of the pieces of names [I, L, D], the first `counts` [I] of them real, to names [I, width]."""
        packed = pack_padded_sequence(states, counts.cpu(), batch_first=True, enforce_sorted=False)
        outputs, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        last = (counts - 1)[:, None, None].expand(-1, 1, outputs.shape[-1])
        total: Tensor = outputs.gather(1, last).squeeze(1) + outputs.sum(1) / counts[:, None]
        return total


def node_kinds(batch: TableBatch) -> Tensor:
    """Return what the nodes of a batch are, Int64 [B, K], 0 where there is none.

    Raises:
        ConfigError: it has no nodes.
    """
    if NODE_KINDS not in batch.more:
        raise ConfigError("these encodings have no nodes", where="encoding", remedy="Use encoding=schema")
    return batch.more[NODE_KINDS]


def node_batch(batch: TableBatch) -> TableBatch:
    """Return a batch whose tokens are the nodes of another one, each with what its first word piece has.

    Raises:
        ConfigError: the other one has no nodes.
    """
    kinds = node_kinds(batch)
    pieces = NodePieces.of(batch, kinds.shape[1])
    length = batch.input_ids.shape[1]
    nodes = batch.keep((pieces.first_tokens() % length).view_as(kinds))
    return replace(nodes, attention_mask=(kinds > 0).long(), places=None)


class RelationAware(TableEncoder):
    """A BERT-like encoder of word pieces, and new layers over nodes: the words of a question, tables and columns.

    The output is of nodes: `EncoderOutput.batch` has a token for each. States of columns have those of tables added.
    An encoder of word pieces of which all is frozen has no dropout, and its states are computed once for every input.

    Args:
        extra: the layers over nodes, and what they begin with.

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
        self.extra = replace(extra, input_dropout=0.0).build(width, _relational)
        for new in (self.names, self.word_map, self.name_map):
            draw(new)
        self.kept: FrozenFeatures | None = None

    @property
    def frozen(self) -> bool:
        """True where nothing in the encoder of word pieces is trained."""
        weights = (*self.embeddings.parameters(), *self.encoder.parameters())
        return not any(weight.requires_grad for weight in weights)

    def use_cache(self, folder: Path) -> None:
        """Keep the states of inputs whose queries are known, where nothing is learnt below them."""
        self.kept = FrozenFeatures(folder / "frozen_states") if self.frozen else None

    @property
    def states_size(self) -> int:
        """The width of the states of nodes."""
        return self.extra.size.hidden_size

    @property
    def planner(self) -> Planner:
        """The planner of batches for the encoder of word pieces; nothing where its states are kept."""
        if self.kept is not None:
            return Planner(())
        return Planner(tuple(dict.fromkeys(spec.prepared for spec in self.encoder.specs)))

    def layer_inputs(self, batch: TableBatch) -> Sequence[tuple[Reader, TableBatch]]:
        """Return all word pieces for the pre-trained layers, nodes for the others."""
        return [(_Layers(self.encoder.layers), batch), (_Layers(self.extra.encoder.layers), node_batch(batch))]

    def train(self, mode: bool = True) -> RelationAware:
        """Train, or ask; what is frozen is always asked."""
        super().train(mode)
        if self.frozen:
            self.embeddings.eval()
            self.encoder.eval()
        return self

    def forward(self, batch: TableBatch) -> EncoderOutput:
        """Encode the nodes of a batch."""
        vectors = self._vectors(batch)
        words, names = (self.node_dropout(tensor) for tensor in vectors)
        nodes = node_batch(batch)
        plans = _Layers(self.extra.encoder.layers).plans(nodes)
        is_word = (node_kinds(batch) == WORD)[..., None]
        inputs = torch.where(is_word, self.word_map(words), self.name_map(names))
        states = plans.packing.unpack(self.extra(plans.packing.pack(inputs), plans))
        states = _with_tables(states, nodes)
        return EncoderOutput(states, self.pooler(states), nodes)

    def extra_inputs(self, batch: TableBatch) -> Iterable[Tensor]:
        """Return the vectors of words and those of names, real ones only, each [nodes, width]."""
        words, names = self._vectors(batch)
        kinds = node_kinds(batch)
        if not self.before_map:
            words, names = self.word_map(words), self.name_map(names)
        return [words[kinds == WORD], names[kinds > WORD]]

    def token_states(self, batch: TableBatch) -> Tensor:
        """Return what the encoder of word pieces says of a batch, [B, T, D]."""
        if not self.frozen:
            return self._encode(batch)
        with torch.no_grad():
            if self.kept is None or ACTIONS not in batch.more:  # what people ask is nothing to keep
                return self._encode(batch)
            return self.kept.states(batch, nn.ModuleList([self.embeddings, self.encoder]), self._encode)

    def _encode(self, batch: TableBatch) -> Tensor:
        plans = _Layers(self.encoder.layers).plans(batch)
        return plans.packing.unpack(self.encoder(self.embeddings(batch, plans.packing), plans))

    def _vectors(self, batch: TableBatch) -> tuple[Tensor, Tensor]:
        """Return the words [B, K, D] and names [B, K, width], zero for nodes of the other kind."""
        kinds = node_kinds(batch)
        pieces = NodePieces.of(batch, kinds.shape[1])
        states = self.token_states(batch).flatten(0, 1)
        words = pieces.means(states).view(*kinds.shape, -1)
        chosen = (kinds > WORD).flatten().nonzero().squeeze(1)
        tokens, counts = pieces.sequences(chosen)
        names = self.names(states[tokens], counts)
        spread = names.new_zeros(kinds.numel(), names.shape[-1]).index_copy(0, chosen, names)
        return words, spread.view(*kinds.shape, -1)


@dataclass(frozen=True)
class _Layers:
    """Layers that read the same batch."""

    layers: Sequence[EncoderLayer]

    def plans(self, batch: TableBatch) -> Plans:
        """Return what they see of it."""
        return Plans((layer.spec.pattern for layer in self.layers), batch)


def _relational(size: EncoderSize) -> LayerSpec:
    return LayerSpec(Full(size.num_heads), RelationAttention(size, RELATIONS))


def _with_tables(states: Tensor, nodes: TableBatch) -> Tensor:
    """Map states [B, K, D] of nodes, to those of columns the state of their table added."""
    tables = nodes.more[NODE_TABLES]
    table_states = states.gather(1, tables.clamp(min=0)[..., None].expand_as(states))
    return states + table_states * (tables >= 0)[..., None]


READ = ("input_ids", "segment_ids", "position_ids")
"""Arrays that the states of a BERT-like encoder depend on, beside its weights."""


class FrozenFeatures:
    """States of word pieces in 16 bits, a file for each input, in a folder for each set of weights."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._weights: tuple[tuple[int, ...], str] = ((), "")

    def states(self, batch: TableBatch, weights: nn.Module, compute: Callable[[TableBatch], Tensor]) -> Tensor:
        """Return the states [B, T, D] of a batch, zero on padding; those that nobody kept yet are computed and kept."""
        folder = self.folder / self._fingerprint(weights)
        paths = [folder / name[:2] / f"{name}.npy" for name in _names(batch)]
        if not all(path.exists() for path in paths):
            folder.mkdir(parents=True, exist_ok=True)
            for path, states, real in zip(
                paths, compute(batch).cpu(), batch.attention_mask.sum(1).tolist(), strict=True
            ):
                _keep(path, states[:real])
        tensors = [torch.from_numpy(np.load(path)) for path in paths]
        padded = nn.utils.rnn.pad_sequence(tensors, batch_first=True)
        return padded.to(batch.input_ids.device, torch.float32)

    def _fingerprint(self, weights: nn.Module) -> str:
        """Return a name for the weights, found anew whenever one was written to."""
        versions = tuple(tensor._version for tensor in weights.state_dict(keep_vars=True).values())
        if versions != self._weights[0] or not self._weights[1]:
            digest = hashlib.sha256()
            for name, tensor in weights.state_dict().items():
                digest.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
            self._weights = versions, digest.hexdigest()[:16]
        return self._weights[1]


def _names(batch: TableBatch) -> list[str]:
    """Return a name for what is read of each example, padding left out."""
    arrays = torch.stack([getattr(batch, name) for name in READ], -1).cpu().numpy()
    lengths = batch.attention_mask.sum(1).tolist()
    return [
        hashlib.blake2b(array[:length].tobytes(), digest_size=16).hexdigest()
        for array, length in zip(arrays, lengths, strict=True)
    ]


def _keep(path: Path, states: Tensor) -> None:
    with replace_file(path) as draft, draft.open("wb") as file:
        np.save(file, states.half().numpy())
