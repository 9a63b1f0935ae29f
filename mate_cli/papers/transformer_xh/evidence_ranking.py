"""Choose the cell or document that answers the question, each read by itself and by those that it hops to.

Source: Zhao et al. 2020, "Transformer-XH", section 3; the choice among cells as in the MATE paper, section 4.1.
"""

from dataclasses import replace

from mate_cli.lit_modules.cell_selection import CellSelection
from mate_cli.models.base.table_encoder import EncoderOutput, TableEncoder
from mate_cli.models.heads.scores import CellLogits
from mate_cli.papers.transformer_xh.models.evidence_heads import NodeHead


class EvidenceRanking(CellSelection):
    """A score per node from its pooled first token; all else is as in cell selection.

    Args:
        **options: those of `CellSelection`; the loss that is released with Transformer-XH is `binary`.
    """

    spec = replace(CellSelection.spec, label="evidence", encoding="evidence", uses_pooler=True, auto_class=None)

    def build_head(self, encoder: TableEncoder) -> NodeHead:
        """Return what scores the nodes of an encoder's output."""
        return NodeHead(encoder.size.hidden_size, self.dropout.p)

    def cell_logits(self, output: EncoderOutput, head: NodeHead, encoder: TableEncoder) -> CellLogits:  # type: ignore[override]
        """Return the scores of the cells that nodes are of."""
        logits: CellLogits = head(output, encoder.pooler)
        return logits
