"""Stage 2 of PointR: read the answer in the selected cell and its passages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import pad

from mate_cli.data.cell_examples import negatives, reading_example
from mate_cli.errors import ConfigError
from mate_cli.lit_modules.base import TableTask, TaskSpec
from mate_cli.lit_modules.losses import span_loss
from mate_cli.metrics.exact_match import exact_match, score_answers
from mate_cli.metrics.specs import Metric
from mate_cli.models.base.table_encoder import EncoderOutput, TableEncoder, TaskContext
from mate_cli.models.heads.scores import NO_LOGIT
from mate_cli.models.layers.encoder import Dropout, FastDropout
from mate_cli.tables.example import TableExample
from mate_cli.tokenization.layout import TableBatch


class SpanHead(nn.Module):
    """Computes the logit of every span of at most L tokens within a body cell.

    Source: MATE paper, section 4.2 (an MLP on the first and last state); google-research/tapas,
        `span_prediction_utils` (a linear layer, spans of up to ten tokens within one cell).

    Args:
        hidden_size: width D of the hidden states.
        max_length: maximum number L of tokens of a span.
        layers: 2 for an MLP with one hidden layer of width D (paper), 1 for a linear layer (google-research/tapas).
        no_answer: whether to also compute the logit of the first token, [CLS], which is the span of unanswerable
            questions (Devlin et al. 2019, section 4.3).
    """

    def __init__(self, hidden_size: int, max_length: int = 10, layers: int = 2, no_answer: bool = False) -> None:
        super().__init__()
        self.max_length, self.no_answer = max_length, no_answer
        width = hidden_size if layers == 2 else 1
        self.start = nn.Linear(hidden_size, width)
        self.end = nn.Linear(hidden_size, width, bias=False)
        self.score = nn.Sequential(nn.GELU(), nn.Linear(width, 1)) if layers == 2 else nn.Identity()

    def forward(self, output: EncoderOutput) -> Tensor:
        """Compute the logits [B, T, L] of spans from hidden states [B, T, D].

        Entry (t, l) is the logit of the span of l + 1 tokens that starts at token t. Spans that do not lie in one cell
        get `NO_LOGIT`. The layer on the first and last token of a span is computed as the sum of a layer on first
        tokens and a layer on last tokens.
        """
        end_states = _following_values(self.end(output.states), self.max_length)
        logits = self.score(self.start(output.states).unsqueeze(2) + end_states).squeeze(-1).float()
        is_allowed = allowed_spans(output.batch, self.max_length)
        if self.no_answer:
            is_allowed[:, 0, 0] = True
        return logits.masked_fill(~is_allowed, NO_LOGIT)


def allowed_spans(batch: TableBatch, max_length: int) -> Tensor:
    """Return the mask of spans that start and end in the same body cell, Bool [B, T, L]."""
    is_real = batch.attention_mask
    rows, columns = batch.row_ids * is_real, batch.column_ids * is_real
    end_ids = [_following_values(ids.unsqueeze(-1), max_length).squeeze(-1) for ids in (rows, columns)]
    return batch.in_body.unsqueeze(-1) & (end_ids[0] == rows.unsqueeze(-1)) & (end_ids[1] == columns.unsqueeze(-1))


def _following_values(values: Tensor, count: int) -> Tensor:
    """Stack each token's value with the values after it: [B, T, D] to [B, T, count, D].

    Values beyond the last token are zero.
    """
    return pad(values, (0, 0, 0, count - 1)).unfold(1, count, 1).transpose(2, 3)


@dataclass(frozen=True)
class SpanPrediction:
    """The most probable span of one example.

    Args:
        example_id: id of the example.
        start: index of the first token of the span in the encoding of the example, from 0.
        end: index of the last token of the span.
        probability: probability of the span, from the softmax over all spans.
        no_answer: probability that the question is unanswerable (the span [CLS]). 0 for a reader without `no_answer`.
    """

    example_id: str
    start: int
    end: int
    probability: float
    no_answer: float = 0.0


class SpanReading(TableTask[TableExample, SpanPrediction]):
    """Reading the answer as a span of text in a cell and its linked passages.

    An MLP on the hidden states of the first and last token scores each span. The softmax is over all spans of the cell.

    Args:
        max_span_length: maximum number of tokens of an answer.
        cells_per_question: maximum number of candidate cells of a question in training. None: no limit.
        dropout: dropout probability of the hidden states before the head.
        no_answer: whether to learn that a cell does not contain the answer.
        negatives: number of training cells without the answer per question. Requires `no_answer`.

    Raises:
        ConfigError: `negatives` is set without `no_answer`.

    Source: MATE paper, section 4.2; google-research/tapas, `utils/span_prediction_utils.py`.
    """

    spec = TaskSpec("dev/gold_f1", label="span", encoding="cell", auto_class="QuestionAnswering")

    def __init__(
        self,
        context: TaskContext,
        max_span_length: Annotated[int, Field(gt=0)] = 10,
        cells_per_question: Annotated[int, Field(gt=0)] | None = 4,
        dropout: Dropout = 0.1,
        no_answer: bool = False,
        negatives: Annotated[int, Field(ge=0)] = 0,
        *,
        metrics: Sequence[Metric] = (),
    ) -> None:
        super().__init__(context, metrics=metrics)
        if negatives and not no_answer:
            problem = "training on cells without the answer needs a reader that can predict no answer"
            raise ConfigError(problem, where="task.negatives", remedy="Set task.no_answer=true")
        self.add_heads(lambda model: SpanHead(model.size.hidden_size, max_length=max_span_length, no_answer=no_answer))
        self.dropout = FastDropout(dropout)
        self.cells_per_question, self.no_answer, self.negatives = cells_per_question, no_answer, negatives
        self.serializer = context.serializer

    def training_examples(self, examples: Sequence[TableExample]) -> list[TableExample]:
        """Return the training examples: pairs of a question and a cell that may contain its answer.

        `negatives` cells without the answer are added per question.

        A question has at most `cells_per_question` candidate cells.
        """
        usable = super().training_examples(examples)
        negative_cells = negatives(usable, self.negatives)
        return [
            cell
            for example in usable
            for cell in (*self._with_answer(example), *negative_cells.get(example.example_id, ()))
        ]

    def _with_answer(self, example: TableExample) -> list[TableExample]:
        cells = example.answer.coordinates if example.answer else ()
        return [
            reading_example(example, row, column, f"{example.example_id}/{index}")
            for index, (row, column) in enumerate(cells[: self.cells_per_question])
        ]

    def evaluation_examples(self, examples: Sequence[TableExample]) -> list[TableExample]:
        """Return one example per question, with its first candidate cell as the text to read.

        Questions without a candidate cell are omitted.
        """
        usable = super().training_examples(examples)
        return [reading_example(example, *example.answer.coordinates[0]) for example in usable if example.answer]

    def output_loss(self, output: EncoderOutput, head: SpanHead, encoder: TableEncoder) -> torch.Tensor:
        """Compute the loss of the answer spans, averaged over examples, a scalar.

        Args:
            output: output of the encoder.
            head: head of the task, or the second head for the auxiliary encoder of the network.
            encoder: encoder that computed `output`.
        """
        assert output.batch.label_ids is not None
        logits = head(output.with_states(self.dropout(output.states)))
        return self.average_terms(span_loss(logits.float(), output.batch.label_ids).sum(), output.batch)

    def predictions(self, output: EncoderOutput, batch: TableBatch) -> list[SpanPrediction]:
        """Return the most probable span of each example and, with `no_answer`, the null probability."""
        logits = self.head(output).float()
        shares = logits.flatten(1).softmax(-1)
        null_probabilities = shares[:, 0].tolist() if self.no_answer else [0.0] * len(shares)
        if self.no_answer:
            # Exclude the span [CLS], which has no text.
            shares[:, 0] = 0
        probabilities, index = shares.max(-1)
        start, length = index // logits.shape[2], index % logits.shape[2]
        ends = (output.batch.find_places(token).tolist() for token in (start, start + length))
        spans = zip(output.batch.example_ids, *ends, probabilities.tolist(), null_probabilities, strict=True)
        return [SpanPrediction(*span) for span in spans]

    def auto_scores(self, output: EncoderOutput, length: int) -> dict[str, torch.Tensor]:
        """Compute logits of spans, and logits of each token as first and as last token of the answer.

        The logit of a first or last token is the log-sum-exp over the spans that start or end at the token.

        Args:
            output: output of the network.
            length: number of tokens of the input.

        Returns:
            `start_logits` and `end_logits`, [B, length], and `span_logits`, [B, T, L].
        """
        logits = self.head(output).float()
        tokens, max_length = logits.shape[1:]
        shifted = [
            pad(logits[:, : max(tokens - offset, 0), offset], (min(offset, tokens), 0), value=NO_LOGIT)
            for offset in range(max_length)
        ]
        end_logits = torch.stack(shifted, -1).logsumexp(-1)
        return {
            "start_logits": output.spread_out(logits.logsumexp(-1), length, NO_LOGIT),
            "end_logits": output.spread_out(end_logits, length, NO_LOGIT),
            "span_logits": logits,
        }

    def answers(self, predictions: Sequence[SpanPrediction], examples: Mapping[str, TableExample]) -> dict[str, str]:
        """Return the text of each predicted span in the cell or passage, by example id."""
        return {p.example_id: self.serializer.span_text(examples[p.example_id], p.start, p.end) for p in predictions}

    def is_correct(self, prediction: SpanPrediction, example: TableExample) -> bool:
        """Return whether the span equals the answer by the official exact match."""
        answer = self.answers([prediction], {example.example_id: example})[example.example_id]
        return bool(example.answer and exact_match(answer, " ".join(example.answer.texts)))

    def score(self, predictions: Sequence[SpanPrediction], examples: Mapping[str, TableExample]) -> dict[str, float]:
        """Compute exact match and F1 of spans that are read in the gold cell.

        Both metrics are also computed for answers in the table and answers in passages separately.
        """
        scores = score_answers(self.answers(predictions, examples), examples)
        return {f"gold_{name}": value for name, value in scores.items()}
