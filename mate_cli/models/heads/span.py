"""A score for every short span within a cell.

Source: MATE paper, section 4.2 (an MLP on the first and last state); google-research/tapas, `span_prediction_utils`
(a linear layer, spans of up to ten tokens within one cell).
"""

from torch import Tensor, nn
from torch.nn.functional import pad

from mate_cli.errors import ConfigError
from mate_cli.models.base.encoder_output import EncoderOutput
from mate_cli.models.heads.cell_selection import NO_LOGIT
from mate_cli.tokenization.layout import TableBatch


class SpanHead(nn.Module):
    """Scores the spans that lie within one body cell.

    Args:
        max_length: tokens of the longest span, L.
        layers: 2 for an MLP with one hidden layer of D (the paper), 1 for a linear layer (the reference's code).
        no_answer: also score the first token, [CLS], alone: the span of questions that nothing answers (Devlin et al.
            2019, section 4.3).

    Raises:
        ConfigError: `layers` is neither.
    """

    def __init__(self, hidden_size: int, max_length: int = 10, layers: int = 2, no_answer: bool = False) -> None:
        super().__init__()
        if layers not in (1, 2):
            raise ConfigError(f"the span head has {layers} layers", where="task.span_layers", remedy="Choose 1 or 2")
        self.max_length, self.no_answer = max_length, no_answer
        width = hidden_size if layers == 2 else 1
        self.start = nn.Linear(hidden_size, width)
        self.end = nn.Linear(hidden_size, width, bias=False)
        self.score = nn.Sequential(nn.GELU(), nn.Linear(width, 1)) if layers == 2 else nn.Identity()

    def forward(self, output: EncoderOutput) -> Tensor:
        """Map states [B, T, D] to [B, T, L]: the score of a span from token t of l + 1 tokens, or `NO_LOGIT`.

        The two halves of the first layer are applied to tokens, not to spans, and added.
        """
        ends = _ahead(self.end(output.states), self.max_length)
        logits = self.score(self.start(output.states).unsqueeze(2) + ends).squeeze(-1).float()
        allowed = allowed_spans(output.batch, self.max_length)
        if self.no_answer:
            allowed[:, 0, 0] = True
        return logits.masked_fill(~allowed, NO_LOGIT)


def allowed_spans(batch: TableBatch, max_length: int) -> Tensor:
    """Return spans whose first and last token are in the same body cell, Bool [B, T, L]."""
    real = batch.attention_mask
    rows, columns = batch.row_ids * real, batch.column_ids * real
    ends = [_ahead(ids.unsqueeze(-1), max_length).squeeze(-1) for ids in (rows, columns)]
    return batch.in_body.unsqueeze(-1) & (ends[0] == rows.unsqueeze(-1)) & (ends[1] == columns.unsqueeze(-1))


def _ahead(values: Tensor, count: int) -> Tensor:
    """Map [B, T, D] to [B, T, L, D]: the values at t, t + 1, ... (zero beyond the end)."""
    return pad(values, (0, 0, 0, count - 1)).unfold(1, count, 1).transpose(2, 3)
