"""One candidate is chosen of those that stand side by side."""

from dataclasses import dataclass

import torch

from mate_cli.lit_modules.base import ExampleT, TableTask
from mate_cli.lit_modules.losses.cell_selection import soft_cross_entropy
from mate_cli.models.base.encoder_output import EncoderOutput
from mate_cli.models.base.table_encoder import TableEncoder
from mate_cli.models.heads.candidates import CandidateScorer
from mate_cli.tokenization.layout import TableBatch


@dataclass(frozen=True)
class Choice:
    """The best candidate of one example.

    Args:
        place: its place among the candidates, from 0.
        probability: of the softmax over the candidates.
    """

    example_id: str
    place: int
    probability: float


class CandidateTask(TableTask[ExampleT, Choice]):
    """Softmax over the candidates of a question, cross entropy towards all right ones alike."""

    def output_loss(self, output: EncoderOutput, head: CandidateScorer, encoder: TableEncoder) -> torch.Tensor:
        """Return the mean loss of what one encoder makes of a batch, a scalar."""
        scores = head(output, encoder.pooler)
        return soft_cross_entropy(scores.logits, scores.mask, scores.right).mean()

    def predictions(self, output: EncoderOutput, batch: TableBatch) -> list[Choice]:
        """Choose a candidate of each example."""
        scores = self.head(output, self.encoder.pooler)
        best, places = scores.logits.masked_fill(~scores.mask, -torch.inf).softmax(-1).max(-1)
        return [Choice(*parts) for parts in zip(output.batch.example_ids, places.tolist(), best.tolist(), strict=True)]
