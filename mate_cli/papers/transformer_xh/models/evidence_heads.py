"""Output heads over the nodes of a graph: node scores, answer spans and class mixtures.

Source: microsoft/Transformer-XH, `model_hotpotqa.py` and `model_fever.py`.
"""

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from mate_cli.lit_modules.candidate_choice import first_tokens
from mate_cli.models.base.table_encoder import EncoderOutput
from mate_cli.models.heads.scores import NO_LOGIT, CellLogits, Score
from mate_cli.models.layers.encoder import FastDropout
from mate_cli.papers.transformer_xh.relations import NODE_CELLS, SENTENCE_IDS
from mate_cli.tokenization.layout import TableBatch


class PooledNodes(NamedTuple):
    """Pooled vectors of the nodes (texts) of a batch. K is the maximum of nodes per example.

    Args:
        states: pooled first tokens [B, K, D], 0 for padding nodes.
        mask: Bool [B, K], True for nodes, False for padding nodes.
        tokens: index of the first token of each node in its example, Int64 [B, K].
    """

    states: Tensor
    mask: Tensor
    tokens: Tensor


def pooled_nodes(output: EncoderOutput, pooler: nn.Module) -> PooledNodes:
    """Pool the first token of every node of a batch to one vector per node, padded to K nodes.

    K is at least 1.
    """
    batch = output.batch
    example, token = first_tokens(batch)
    node = batch.row_ids[example, token] - 1
    encoded_nodes = batch.more[NODE_CELLS].shape[1] if NODE_CELLS in batch.more else 1
    count = max(int(node.max()) + 1 if len(node) else 1, encoded_nodes)
    pooled = pooler(output.states[example, token][:, None])

    def spread(values: Tensor) -> Tensor:
        empty = values.new_zeros(len(batch.row_ids), count, *values.shape[1:])
        return empty.index_put((example, node), values)

    return PooledNodes(spread(pooled), spread(torch.ones_like(node, dtype=torch.bool)), spread(token))


class NodeHead(nn.Module):
    """Output head with one logit per node, for tasks that select the cell of a node."""

    transformers_names: ClassVar[Mapping[str, str]] = {
        "score.weight": "final_layer.weight",
        "score.bias": "final_layer.bias",
    }
    """Parameter names of this head and the corresponding names in microsoft/Transformer-XH."""

    def __init__(self, hidden_size: int, dropout: float) -> None:
        super().__init__()
        self.dropout = FastDropout(dropout)
        self.score = Score(hidden_size, 1)

    def forward(self, output: EncoderOutput, pooler: nn.Module) -> CellLogits:
        """Compute the logits and labels of the cells of K nodes from hidden states [B, T, D].

        The label of a node is the label of its first token.
        """
        batch, nodes = output.batch, pooled_nodes(output, pooler)
        logits = self.score(self.dropout(nodes.states)).squeeze(-1).float().masked_fill(~nodes.mask, NO_LOGIT)
        labels = torch.zeros_like(nodes.tokens) if batch.label_ids is None else batch.label_ids.gather(1, nodes.tokens)
        rows, columns = (batch.more[NODE_CELLS] + 1).clamp(min=0).unbind(-1)
        return CellLogits(logits, nodes.mask, rows, columns, (labels > 0) & nodes.mask)


class MixtureOutput(NamedTuple):
    """Class probabilities of a statement, as a weighted mixture of the probabilities of all nodes.

    Args:
        log_probabilities: log probability of each class [B, C].
        node_logits: logit of each node's mixture weight, before the softmax [B, K]; `NO_LOGIT` for padding nodes.
        mask: Bool [B, K], True for nodes, False for padding nodes.
        tokens: index of the first token of each node in its example, Int64 [B, K].
    """

    log_probabilities: Tensor
    node_logits: Tensor
    mask: Tensor
    tokens: Tensor


class MixtureHead(nn.Module):
    """Output head for statements: class probabilities per node, averaged with node weights.

    The weights are learned. The release for FEVER has 3 classes.
    """

    transformers_names: ClassVar[Mapping[str, str]] = {
        "weight.weight": "final_layer.weight",
        "weight.bias": "final_layer.bias",
        "classes.weight": "pred_final_layer.weight",
        "classes.bias": "pred_final_layer.bias",
    }
    """Parameter names of this head and the corresponding names in microsoft/Transformer-XH."""

    def __init__(self, hidden_size: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.dropout = FastDropout(dropout)
        self.weight = Score(hidden_size, 1)
        self.classes = Score(hidden_size, classes)

    def forward(self, output: EncoderOutput, pooler: nn.Module) -> MixtureOutput:
        """Map states [B, T, D] to the mixture of the nodes' class probabilities."""
        nodes = pooled_nodes(output, pooler)
        states = self.dropout(nodes.states)
        logits = self.weight(states).squeeze(-1).float().masked_fill(~nodes.mask, NO_LOGIT)
        node_log_probabilities = self.classes(states).float().log_softmax(-1)
        mixture = (logits.log_softmax(-1)[..., None] + node_log_probabilities).logsumexp(1)
        return MixtureOutput(mixture, logits, nodes.mask, nodes.tokens)


class ReadingLogits(NamedTuple):
    """Logits for reading an answer from K nodes: its node, span, type and evidence.

    Args:
        nodes: logit that each node contains the answer [B, K], `NO_LOGIT` for padding nodes.
        mask: Bool [B, K], True for nodes, False for padding nodes.
        starts: logit that each token of a node's text is the first token of the answer [B, K, L], `NO_LOGIT` elsewhere.
        ends: logit that each token of a node's text is the last token of the answer [B, K, L].
        tokens: index of the first token of each node in its example, Int64 [B, K].
        kinds: logits of the answer type: text span, yes, no [B, 3].
        sentences: logit that each sentence supports the answer [B, K, S].
        is_sentence: Bool [B, K, S], True for sentences, False for padding.
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
    """Output head that scores nodes, answer spans, answer types and supporting sentences.

    The released model has no scores of answer types and supporting sentences.
    """

    transformers_names: ClassVar[Mapping[str, str]] = {
        "node.weight": "final_layer.weight",
        "node.bias": "final_layer.bias",
        "span.weight": "mrc_final_layer.weight",
        "span.bias": "mrc_final_layer.bias",
    }
    """Parameter names of this head and the corresponding names in microsoft/Transformer-XH."""

    def __init__(self, hidden_size: int, kinds: int, dropout: float) -> None:
        super().__init__()
        self.dropout = FastDropout(dropout)
        self.node, self.span = Score(hidden_size, 1), Score(hidden_size, 2)
        self.kind, self.sentence = Score(hidden_size, kinds), Score(hidden_size, 1)

    def forward(self, output: EncoderOutput, pooler: nn.Module) -> ReadingLogits:
        """Compute the logits of nodes, spans, answer types and sentences from states [B, T, D].

        Answer types are predicted from the nodes, averaged with the softmax of the node logits.
        """
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
        """Return the mean token logit of each sentence and the mask of real sentences, [B, K, S]."""
        batch, scores = output.batch, self.sentence(output.states).squeeze(-1).float()
        numbers = _sentence_ids(batch)
        total, tokens = (sentence_sums(values, numbers, batch, mask) for values in (scores, torch.ones_like(scores)))
        return total / tokens.clamp(min=1), tokens > 0


def group_by_node(values: Tensor, batch: TableBatch, mask: Tensor, fill: float) -> Tensor:
    """Scatter token values to the tokens of each node's text, [B, T] to [B, K, L].

    Args:
        values: one value per token [B, T].
        batch: the batch with row, segment and position ids.
        mask: Bool [B, K], True for nodes.
        fill: value of entries without a token.
    """
    longest = int((batch.position_ids * batch.attention_mask).max()) + 1
    is_text = (batch.segment_ids == 1) & (batch.attention_mask == 1) & (batch.row_ids > 0)
    example, token = is_text.nonzero(as_tuple=True)
    index = example, batch.row_ids[is_text] - 1, batch.position_ids[is_text]
    empty = values.new_full((*mask.shape, longest), fill)
    return empty.index_put(index, values[example, token])


def sentence_sums(values: Tensor, numbers: Tensor, batch: TableBatch, mask: Tensor) -> Tensor:
    """Sum token values over each sentence of each node, [B, T] to [B, K, S]. S is at least 1.

    Args:
        values: one value per token [B, T].
        numbers: number of the sentence of each token, from 1; 0 for tokens outside sentences [B, T].
        batch: the batch with row ids.
        mask: Bool [B, K], True for nodes.
    """
    count = max(int(numbers.max()), 1)
    example, token = (numbers > 0).nonzero(as_tuple=True)
    index = example, batch.row_ids[example, token] - 1, numbers[example, token] - 1
    empty = values.new_zeros(*mask.shape, count)
    return empty.index_put(index, values[example, token], accumulate=True)


def _sentence_ids(batch: TableBatch) -> Tensor:
    """Return the sentence number of each token, from 1.

    Without sentence ids, a node's text is one sentence.
    """
    is_text = (batch.segment_ids == 1) & (batch.attention_mask == 1) & (batch.row_ids > 0)
    sentence_ids = batch.more.get(SENTENCE_IDS)
    return is_text.long() if sentence_ids is None else sentence_ids * batch.attention_mask
