"""Heads over the nodes of a graph: which one holds the answer, where in it, and what all of them say together.

Source: microsoft/Transformer-XH, `model_hotpotqa.py` and `model_fever.py`.
"""

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from mate_cli.lit_modules.candidate_choice import first_tokens
from mate_cli.models.base.table_encoder import EncoderOutput
from mate_cli.models.heads.scores import NO_LOGIT, CellLogits, Score
from mate_cli.models.layers.embeddings import FastDropout
from mate_cli.papers.transformer_xh.relations import NODE_CELLS, SENTENCE_IDS
from mate_cli.tokenization.layout import TableBatch


class PooledNodes(NamedTuple):
    """The nodes of a batch, K in the example with most.

    Args:
        states: pooled first tokens [B, K, D], 0 where there is no node.
        mask: Bool [B, K], True where there is a node.
        tokens: place of the first token of each node in its example, Int64 [B, K].
    """

    states: Tensor
    mask: Tensor
    tokens: Tensor


def pooled_nodes(output: EncoderOutput, pooler: nn.Module) -> PooledNodes:
    """Pool the first token of every node; K is at least 1."""
    batch = output.batch
    example, token = first_tokens(batch)
    node = batch.row_ids[example, token] - 1
    stated = batch.more[NODE_CELLS].shape[1] if NODE_CELLS in batch.more else 1
    count = max(int(node.max()) + 1 if len(node) else 1, stated)
    pooled = pooler(output.states[example, token][:, None])

    def spread(values: Tensor) -> Tensor:
        empty = values.new_zeros(len(batch.row_ids), count, *values.shape[1:])
        return empty.index_put((example, node), values)

    return PooledNodes(spread(pooled), spread(torch.ones_like(node, dtype=torch.bool)), spread(token))


class NodeHead(nn.Module):
    """One score for every node, as of the cell that it is of."""

    transformers_names: ClassVar[Mapping[str, str]] = {
        "score.weight": "final_layer.weight",
        "score.bias": "final_layer.bias",
    }
    """Our parameters, and what the authors of Transformer-XH call them."""

    def __init__(self, hidden_size: int, dropout: float) -> None:
        super().__init__()
        self.dropout = FastDropout(dropout)
        self.score = Score(hidden_size, 1)

    def forward(self, output: EncoderOutput, pooler: nn.Module) -> CellLogits:
        """Map states [B, T, D] to the scores of the K cells of nodes; a candidate's first token is labelled."""
        batch, nodes = output.batch, pooled_nodes(output, pooler)
        logits = self.score(self.dropout(nodes.states)).squeeze(-1).float()
        labels = torch.zeros_like(nodes.tokens) if batch.label_ids is None else batch.label_ids.gather(1, nodes.tokens)
        rows, columns = (batch.more[NODE_CELLS] + 1).clamp(min=0).unbind(-1)
        return CellLogits(
            logits.masked_fill(~nodes.mask, NO_LOGIT), nodes.mask, rows, columns, (labels > 0) & nodes.mask
        )


class MixtureOutput(NamedTuple):
    """The verdict of all nodes on a statement.

    Args:
        log_probabilities: of each class [B, C].
        node_logits: how much each node counts, before the softmax [B, K]; `NO_LOGIT` where there is none.
        mask: Bool [B, K], True where there is a node.
        tokens: place of the first token of each node in its example, Int64 [B, K].
    """

    log_probabilities: Tensor
    node_logits: Tensor
    mask: Tensor
    tokens: Tensor


class MixtureHead(nn.Module):
    """The classes of all nodes, each as far as the node counts; those released for FEVER are three."""

    transformers_names: ClassVar[Mapping[str, str]] = {
        "weight.weight": "final_layer.weight",
        "weight.bias": "final_layer.bias",
        "classes.weight": "pred_final_layer.weight",
        "classes.bias": "pred_final_layer.bias",
    }
    """Our parameters, and what the authors of Transformer-XH call them."""

    def __init__(self, hidden_size: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.dropout = FastDropout(dropout)
        self.weight = Score(hidden_size, 1)
        self.classes = Score(hidden_size, classes)

    def forward(self, output: EncoderOutput, pooler: nn.Module) -> MixtureOutput:
        """Map states [B, T, D] to a mixture of the classes of nodes."""
        nodes = pooled_nodes(output, pooler)
        states = self.dropout(nodes.states)
        logits = self.weight(states).squeeze(-1).float().masked_fill(~nodes.mask, NO_LOGIT)
        of_nodes = self.classes(states).float().log_softmax(-1)
        mixture = (logits.log_softmax(-1)[..., None] + of_nodes).logsumexp(1)
        return MixtureOutput(mixture, logits, nodes.mask, nodes.tokens)


class ReadingLogits(NamedTuple):
    """Scores for an answer in one of K nodes of L tokens and S sentences.

    Args:
        nodes: whether each holds the answer [B, K], `NO_LOGIT` where there is none.
        mask: Bool [B, K], True where there is a node.
        starts: whether each token of a node's text begins the answer [B, K, L], `NO_LOGIT` elsewhere.
        ends: whether it ends it [B, K, L].
        tokens: place of the first token of each node in its example, Int64 [B, K].
        kinds: of the answer: in a text, yes, no [B, 3].
        sentences: whether each supports the answer [B, K, S].
        is_sentence: Bool [B, K, S], True where there is one.
    """

    nodes: Tensor
    mask: Tensor
    starts: Tensor
    ends: Tensor
    tokens: Tensor
    kinds: Tensor
    sentences: Tensor
    is_sentence: Tensor


class ReadingHead(nn.Module):
    """Scores nodes, spans in them, kinds of answers and sentences that support them; the last two are not released."""

    transformers_names: ClassVar[Mapping[str, str]] = {
        "node.weight": "final_layer.weight",
        "node.bias": "final_layer.bias",
        "span.weight": "mrc_final_layer.weight",
        "span.bias": "mrc_final_layer.bias",
    }
    """Our parameters, and what the authors of Transformer-XH call them."""

    def __init__(self, hidden_size: int, kinds: int, dropout: float) -> None:
        super().__init__()
        self.dropout = FastDropout(dropout)
        self.node, self.span = Score(hidden_size, 1), Score(hidden_size, 2)
        self.kind, self.sentence = Score(hidden_size, kinds), Score(hidden_size, 1)

    def forward(self, output: EncoderOutput, pooler: nn.Module) -> ReadingLogits:
        """Map states [B, T, D] to scores of all parts of an answer; kinds read the nodes as far as they count."""
        batch, nodes = output.batch, pooled_nodes(output, pooler)
        states = self.dropout(nodes.states)
        logits = self.node(states).squeeze(-1).float().masked_fill(~nodes.mask, NO_LOGIT)
        shares = logits.softmax(-1)[..., None].to(states.dtype)
        starts, ends = self.span(output.states).float().unbind(-1)
        sentences, is_sentence = self._sentences(output, nodes.mask)
        return ReadingLogits(
            nodes=logits,
            mask=nodes.mask,
            starts=group_by_node(starts, batch, nodes.mask, NO_LOGIT),
            ends=group_by_node(ends, batch, nodes.mask, NO_LOGIT),
            tokens=nodes.tokens,
            kinds=self.kind((shares * states).sum(1)).float(),
            sentences=sentences,
            is_sentence=is_sentence,
        )

    def _sentences(self, output: EncoderOutput, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean score of the tokens of each sentence [B, K, S], and where there are any."""
        batch, scores = output.batch, self.sentence(output.states).squeeze(-1).float()
        numbers = _sentence_ids(batch)
        total, tokens = (sentence_sums(values, numbers, batch, mask) for values in (scores, torch.ones_like(scores)))
        return total / tokens.clamp(min=1), tokens > 0


def group_by_node(values: Tensor, batch: TableBatch, mask: Tensor, fill: float) -> Tensor:
    """Return what belongs to tokens of the texts of nodes, [B, T] to [B, K, L] with a mask [B, K]; `fill` elsewhere."""
    longest = int((batch.position_ids * batch.attention_mask).max()) + 1
    is_text = (batch.segment_ids == 1) & (batch.attention_mask == 1) & (batch.row_ids > 0)
    example, token = is_text.nonzero(as_tuple=True)
    place = example, batch.row_ids[is_text] - 1, batch.position_ids[is_text]
    empty = values.new_full((*mask.shape, longest), fill)
    return empty.index_put(place, values[example, token])


def sentence_sums(values: Tensor, numbers: Tensor, batch: TableBatch, mask: Tensor) -> Tensor:
    """Sum over the tokens of each sentence of each node, [B, T] to [B, K, S]; S is at least 1."""
    most = max(int(numbers.max()), 1)
    example, token = (numbers > 0).nonzero(as_tuple=True)
    place = example, batch.row_ids[example, token] - 1, numbers[example, token] - 1
    empty = values.new_zeros(*mask.shape, most)
    return empty.index_put(place, values[example, token], accumulate=True)


def _sentence_ids(batch: TableBatch) -> Tensor:
    """Return the number of each token's sentence, from 1; without any, a node's text is one sentence."""
    is_text = (batch.segment_ids == 1) & (batch.attention_mask == 1) & (batch.row_ids > 0)
    stated = batch.more.get(SENTENCE_IDS)
    return is_text.long() if stated is None else stated * batch.attention_mask
