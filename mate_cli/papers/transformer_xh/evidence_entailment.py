"""Tell whether evidence entails a statement: every text says a class, and how much it counts.

Source: Zhao et al. 2020, "Transformer-XH", section 4.2 (FEVER); microsoft/Transformer-XH, `model_fever.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import Field
from torch import Tensor
from torch.nn.functional import cross_entropy, nll_loss

from mate_cli.lit_modules.base import TableTask
from mate_cli.lit_modules.entailment import Entailment, Verdict
from mate_cli.lit_modules.losses import binary
from mate_cli.metrics.specs import Metric
from mate_cli.models.base.table_encoder import EncoderOutput, TableEncoder, TaskContext
from mate_cli.models.layers.encoder import Dropout
from mate_cli.papers.transformer_xh.arrays import NODE_CELLS
from mate_cli.papers.transformer_xh.models.evidence_heads import MixtureHead, MixtureOutput
from mate_cli.tables.example import VERDICTS
from mate_cli.tokenization.layout import TableBatch


@dataclass(frozen=True)
class EvidenceVerdict(Verdict):
    """The verdict on a statement, and the rows that it rests on.

    Args:
        rows: (row, share) of the texts that count most, rows from 0, the first one most.
    """

    rows: tuple[tuple[int, float], ...] = ()


class EvidenceEntailment(Entailment):
    """The mixture of the classes of nodes by the softmax of what they count; where evidence is known, its loss too."""

    spec = replace(Entailment.spec, label="rows", encoding="rows", transformers_class=None)

    def __init__(
        self,
        context: TaskContext,
        double_softmax: bool = False,
        dropout: Dropout = 0.1,
        keep: Annotated[int, Field(ge=1)] = 5,
        *,
        metrics: Sequence[Metric] = (),
    ) -> None:
        TableTask.__init__(self, context, metrics=metrics)
        self.add_heads(lambda encoder: MixtureHead(encoder.size.hidden_size, len(VERDICTS), dropout))
        self.double_softmax, self.keep = double_softmax, keep

    def output_loss(self, output: EncoderOutput, head: MixtureHead, encoder: TableEncoder) -> Tensor:  # type: ignore[override]
        """Return the mean loss of what one encoder makes of a batch, a scalar."""
        batch = output.batch
        assert batch.class_ids is not None
        assert batch.label_ids is not None
        mixture: MixtureOutput = head(output, encoder.pooler)
        if self.double_softmax:
            loss = cross_entropy(mixture.log_probabilities.exp(), batch.class_ids)
        else:
            loss = nll_loss(mixture.log_probabilities, batch.class_ids)
        right = (batch.label_ids.gather(1, mixture.tokens) > 0) & mixture.mask
        known = right.any(-1)
        return loss + (binary(mixture.node_logits, mixture.mask, right) * known).sum() / known.sum().clamp(min=1)

    def predictions(self, output: EncoderOutput, batch: TableBatch) -> list[Verdict]:
        """Return the likelier label of each example."""
        mixture: MixtureOutput = self.head(output, self.encoder.pooler)
        shares, labels = mixture.log_probabilities.exp().max(-1)
        weights, nodes = mixture.node_logits.softmax(-1).topk(min(self.keep, mixture.mask.shape[1]))
        verdicts: list[Verdict] = []
        for place, name in enumerate(output.batch.example_ids):
            rows = self._rows(output.batch, mixture.mask[place], nodes[place], place)
            best = tuple(zip(rows, weights[place].tolist(), strict=False))
            verdicts.append(EvidenceVerdict(name, int(labels[place]), float(shares[place]), best))
        return verdicts

    def _rows(self, batch: TableBatch, mask: Tensor, nodes: Tensor, place: int) -> Sequence[int]:
        real = nodes[mask[nodes]]
        cells = batch.more.get(NODE_CELLS)
        rows: list[int] = (real if cells is None else cells[place, real, 0]).tolist()
        return rows

    def details(self, prediction: Verdict) -> dict[str, Any]:
        """Return the rows that count most, with their shares."""
        rows = prediction.rows if isinstance(prediction, EvidenceVerdict) else ()
        return {**super().details(prediction), "rows": [list(row) for row in rows]}
