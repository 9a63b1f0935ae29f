"""TableETC: tokens see their neighbours and a memory of one slot for each row and each column.

Source: MATE paper, section 5.1 (the slots and their relations; the code was not released); Ainslie et al., "ETC:
Encoding Long and Structured Inputs in Transformers", EMNLP 2020 (everything else).
"""

from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn

from mate_cli.attention.base import AttentionBackend, AttentionPlan
from mate_cli.attention.patterns import Window
from mate_cli.models.base.sizes import EncoderSize, encoder_size
from mate_cli.models.base.table_encoder import EncoderOutput, TableEncoder, initialise
from mate_cli.models.layers.embeddings import LAYER_NORM_EPSILON, FastDropout
from mate_cli.models.layers.encoder import EncoderLayer, LayerOptions, LayerSpec, ResidualOutput
from mate_cli.models.layers.global_local import SLOTS_OF_A_KIND, GlobalLocal, GlobalLocalOptions, find_links
from mate_cli.tokenization.layout import TableBatch


class TableEtcLayer(EncoderLayer):
    """A layer over tokens and slots; they differ in what follows attention, and share everything else."""

    def __init__(self, size: EncoderSize, spec: LayerSpec, options: LayerOptions) -> None:
        super().__init__(size, spec, options)
        self.attention["slot_output"] = ResidualOutput(size.hidden_size, size, options)

    def forward(self, states: Tensor, plan: AttentionPlan, key_bias: Tensor | None) -> Tensor:
        """Return the states of tokens and, behind them, of slots, [P + B * G, D]."""
        context = self.attention["self"](states, plan, key_bias)
        tokens = sum(plan.packing.lengths)
        parts = (("output", slice(tokens)), ("slot_output", slice(tokens, None)))
        states = torch.cat([self.attention[name](context[part], states[part]) for name, part in parts])
        return self.output(self.activation(self.intermediate["dense"](states)), states)


class TableEtc(TableEncoder):
    """A table encoder with a memory of 256 slots; every token is told which slots are its own row and column.

    Args:
        attention: not used, as this network has one of its own; what asks for a certain one is refused before.
        radius: how many tokens to either side a token sees.
        max_distance: distances beyond this count as this one.
    """

    def __init__(
        self,
        size: str | EncoderSize,
        *,
        attention: AttentionBackend | None = None,
        radius: Annotated[int, Field(ge=0)] = 84,
        max_distance: Annotated[int, Field(gt=0)] = 12,
        **options: Any,
    ) -> None:
        shape, reach = encoder_size(size), GlobalLocalOptions(radius, max_distance)
        window, backends = Window(shape.num_heads, radius), [GlobalLocal(shape, reach) for _ in range(shape.num_layers)]
        super().__init__(size, [LayerSpec(window, backend, TableEtcLayer) for backend in backends], **options)
        self.window = window
        self.slot_embeddings = SlotEmbeddings(shape, self.embeddings.dropout.p).apply(initialise)

    def forward(self, batch: TableBatch) -> EncoderOutput:
        """Encode a batch; the slots are left behind."""
        plans = self.plans(batch)
        plan = plans[self.window]
        tokens = self.embeddings(batch, plan.packing)
        slots = plan.derive("links", find_links).slots
        rows, columns = (self.embeddings.get_submodule(f"token_type_embeddings_{i}").weight for i in (2, 1))
        memory = self.slot_embeddings(slots.repeat(len(batch.input_ids)), rows, columns)
        states = self.encoder(torch.cat([tokens, memory]), plans)[: len(tokens)]
        padded = plan.packing.unpack(states)
        return EncoderOutput(padded, self.pooler(padded), batch)


class SlotEmbeddings(nn.Module):
    """First states of slots: their kind, and the embedding that tokens of that row or column carry."""

    def __init__(self, size: EncoderSize, dropout: float) -> None:
        super().__init__()
        self.kind = nn.Embedding(2, size.hidden_size)
        self.LayerNorm = nn.LayerNorm(size.hidden_size, eps=LAYER_NORM_EPSILON)
        self.dropout = FastDropout(dropout)

    def forward(self, slots: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        """Place of slots [B * G] and the tables of row and column embeddings to states [B * G, D]."""
        is_column = slots >= SLOTS_OF_A_KIND
        places = torch.cat([rows[:SLOTS_OF_A_KIND], columns[1 : SLOTS_OF_A_KIND + 1]])
        return self.dropout(self.LayerNorm(self.kind(is_column.long()) + places[slots]))
