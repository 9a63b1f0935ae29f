"""Pre-training by masked language modeling of tables and their text."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear

from mate_cli.lit_modules.base import TableTask, TaskSpec
from mate_cli.metrics.accuracy import masked_scores
from mate_cli.metrics.specs import Metric
from mate_cli.models.base.table_encoder import EncoderOutput, TableEncoder, TaskContext, initialise
from mate_cli.models.layers.encoder import LAYER_NORM_EPSILON, find_activation
from mate_cli.tables.example import TableExample
from mate_cli.tokenization.layout import TableBatch


class MaskedLMHead(nn.Module):
    """Computes vocabulary logits of masked tokens. The output layer is tied to the word embeddings.

    Parameters are named as in BERT.

    Source: Devlin et al. 2019; google-research/tapas, `tapas_pretraining_model.get_masked_lm_output`.
    """

    transformers_names: ClassVar[Mapping[str, str]] = {
        "dense.weight": "cls.predictions.transform.dense.weight",
        "dense.bias": "cls.predictions.transform.dense.bias",
        "LayerNorm.weight": "cls.predictions.transform.LayerNorm.weight",
        "LayerNorm.bias": "cls.predictions.transform.LayerNorm.bias",
        "bias": "cls.predictions.bias",
    }
    """Names of the parameters in checkpoints of transformers."""

    def __init__(self, hidden_size: int, vocab_size: int, activation: str = "gelu") -> None:
        super().__init__()
        self.dense = nn.Linear(hidden_size, hidden_size)
        initialise(self.dense)
        self.activation = find_activation(activation)
        self.LayerNorm = nn.LayerNorm(hidden_size, eps=LAYER_NORM_EPSILON)
        self.bias = nn.Parameter(self.dense.weight.new_zeros(vocab_size))

    def forward(self, states: Tensor, words: Tensor) -> Tensor:
        """Compute logits over the vocabulary of V tokens for M masked tokens, [M, V].

        Args:
            states: hidden states of the masked tokens, [M, D].
            words: word embeddings of the vocabulary, [V, D].
        """
        return linear(self.LayerNorm(self.activation(self.dense(states))), words, self.bias)


@dataclass(frozen=True)
class MaskedPieces:
    """Numbers of masked and correctly predicted tokens in one example, and the masked tokens' total loss.

    Args:
        example_id: id of the example.
        masked: number of masked tokens.
        right: number of masked tokens whose most probable prediction is correct.
        nats: sum of the negative log probabilities of the correct tokens.
    """

    example_id: str
    masked: int
    right: int
    nats: float


class MaskedLM(TableTask[TableExample, MaskedPieces]):
    """Masked language modeling of tables: predict the original ids of masked tokens.

    The loss is the cross entropy. A token is masked if its label, the original id, is not 0. Logits are computed for
    masked tokens only.

    Source: google-research/tapas, `models/tapas_pretraining_model.py`, without its next sentence loss, because tables
    are not swapped.
    """

    spec = TaskSpec("dev/masked_accuracy", label="pieces", encoding="masked", auto_class="MaskedLM")

    def __init__(self, context: TaskContext, *, metrics: Sequence[Metric] = ()) -> None:
        super().__init__(context, metrics=metrics)
        words = self.encoder.embeddings.word_embeddings.num_embeddings
        self.add_heads(lambda model: MaskedLMHead(model.size.hidden_size, words, model.activation))

    def training_examples(self, examples: Sequence[TableExample]) -> list[TableExample]:
        """Return all examples, because masked language modeling needs no answers."""
        return list(examples)

    def output_loss(self, output: EncoderOutput, head: MaskedLMHead, encoder: TableEncoder) -> Tensor:
        """Compute the cross entropy of the masked tokens, averaged over these tokens, a scalar.

        Masked tokens that the network prunes have loss 0.

        Args:
            output: output of the encoder.
            head: head of the task, or the second head for the auxiliary encoder of the network.
            encoder: encoder that computed `output`.
        """
        logits, labels, _ = masked_logits(output, head, encoder)
        return self.average_terms(cross_entropy(logits, labels, reduction="sum"), output.batch, "pieces")

    def count_terms(self, batch: TableBatch) -> dict[str, Tensor | int]:
        """Count the examples of a batch, and its masked tokens."""
        assert batch.label_ids is not None
        return {**super().count_terms(batch), "pieces": (batch.label_ids > 0).sum()}

    def predictions(self, output: EncoderOutput, batch: TableBatch) -> list[MaskedPieces]:
        """Count the masked and the correct tokens of each example, and sum the masked tokens' losses.

        Masked tokens that the network prunes are scored by the uniform distribution over the vocabulary.
        """
        logits, labels, example_index = masked_logits(output, self.head, self.encoder)
        is_correct = (logits.argmax(-1) == labels).float()
        losses = cross_entropy(logits, labels, reduction="none")
        token_results = torch.stack([torch.ones_like(is_correct), is_correct, losses], dim=1)
        sums = token_results.new_zeros(len(batch.example_ids), 3).index_add_(0, example_index, token_results)
        num_read, num_correct, nats = sums.T
        assert batch.label_ids is not None
        masked = (batch.label_ids > 0).sum(1)
        nats = nats + (masked - num_read) * math.log(logits.shape[1])
        counts = zip(batch.example_ids, masked.tolist(), num_correct.tolist(), nats.tolist(), strict=True)
        return [MaskedPieces(name, masked, int(num_correct), nats) for name, masked, num_correct, nats in counts]

    def auto_scores(self, output: EncoderOutput, length: int) -> dict[str, Tensor]:
        """Compute vocabulary logits of each token, [B, length, V], 0 for pruned tokens."""
        logits = self.head(output.states, self.encoder.embeddings.word_embeddings.weight).float()
        return {"logits": output.spread_out(logits, length, 0.0)}

    def score(self, predictions: Sequence[MaskedPieces], examples: Mapping[str, TableExample]) -> dict[str, float]:
        """Compute the accuracy and the perplexity of the masked tokens."""
        return masked_scores(
            masked=sum(prediction.masked for prediction in predictions),
            right=sum(prediction.right for prediction in predictions),
            nats=sum(prediction.nats for prediction in predictions),
        )

    def answers(self, predictions: Sequence[MaskedPieces], examples: Mapping[str, TableExample]) -> dict[str, str]:
        """Return a text such as "3 of 7 masked pieces" with the number of correct tokens, by example id."""
        return {p.example_id: f"{p.right} of {p.masked} masked pieces" for p in predictions}

    def is_correct(self, prediction: MaskedPieces, example: TableExample) -> bool:
        """Return whether all masked tokens were predicted correctly."""
        return prediction.right == prediction.masked


def masked_logits(output: EncoderOutput, head: nn.Module, encoder: TableEncoder) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the vocabulary logits of all masked tokens of a batch.

    Args:
        output: output of the encoder.
        head: masked language modeling head.
        encoder: encoder, whose word embeddings the head uses.

    Returns:
        Logits [M, V], labels [M], and indices of the examples [M] of the M masked tokens.
    """
    label_ids = output.batch.label_ids
    assert label_ids is not None
    masked = label_ids > 0
    logits: Tensor = head(output.states[masked], encoder.embeddings.word_embeddings.weight)
    return logits.float(), label_ids[masked], masked.nonzero()[:, 0]
