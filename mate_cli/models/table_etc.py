"""TableETC: attention to neighboring tokens and to a memory.

The memory has one slot for each row and each column.

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
from mate_cli.models.layers.encoder import (
    LAYER_NORM_EPSILON,
    EncoderLayer,
    FastDropout,
    LayerOptions,
    LayerSpec,
    ResidualOutput,
)
from mate_cli.models.layers.global_local import SLOTS_OF_A_KIND, GlobalLocal, GlobalLocalOptions, find_links
from mate_cli.tokenization.layout import TableBatch


class TableEtcLayer(EncoderLayer):
    """A transformer layer over tokens and memory slots, which share all weights except the attention output."""

    def __init__(self, size: EncoderSize, spec: LayerSpec, options: LayerOptions) -> None:
        super().__init__(size, spec, options)
        self.attention["slot_output"] = ResidualOutput(size.hidden_size, size, options)

    def forward(self, states: Tensor, plan: AttentionPlan, key_bias: Tensor | None) -> Tensor:
        """Compute the hidden states of P tokens and G memory slots per example, [P + B * G, D].

        Args:
            states: hidden states of tokens and slots, [P + B * G, D].
            plan: attention plan of the batch.
            key_bias: must be None, because this attention does not support a bias of keys.
        """
        context = self.attention["self"](states, plan, key_bias)
        tokens = sum(plan.packing.lengths)
        parts = (("output", slice(tokens)), ("slot_output", slice(tokens, None)))
        states = torch.cat([self.attention[name](context[part], states[part]) for name, part in parts])
        return self.output(self.activation(self.intermediate["dense"](states)), states)


class TableEtc(TableEncoder):
    """A table encoder in which tokens attend to near tokens and to a memory of 256 slots.

    There is a slot for each of 128 rows and 128 columns. Learned relative vectors distinguish the slots of the row and
    column of a token from other slots.

    Args:
        attention: ignored, because this network has a specialized attention. A specific backend is rejected earlier.
        radius: number of tokens on each side to which a token attends.
        max_distance: maximum distinguished distance. Larger distances are clamped.
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
        """Encode the tokens of a batch together with memory slots, whose hidden states are discarded."""
        batch = self.packed(batch)
        plans = self.plans(batch)
        plan = plans[self.window]
        tokens = self.embeddings(batch)
        slots = plan.derive("links", find_links).slots
        rows, columns = (self.embeddings.get_submodule(f"token_type_embeddings_{i}").weight for i in (2, 1))
        memory = self.slot_embeddings(slots.repeat(len(batch.input_ids)), rows, columns)
        states = self.encoder(torch.cat([tokens, memory]), plans)[: len(tokens)]
        padded = plan.packing.unpack(states)
        return EncoderOutput(padded, self.pooler(padded), batch)


class SlotEmbeddings(nn.Module):
    """Initial states of memory slots: embeddings of slot type (row or column) and of index."""

    def __init__(self, size: EncoderSize, dropout: float) -> None:
        super().__init__()
        self.kind = nn.Embedding(2, size.hidden_size)
        self.LayerNorm = nn.LayerNorm(size.hidden_size, eps=LAYER_NORM_EPSILON)
        self.dropout = FastDropout(dropout)

    def forward(self, slots: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        """Compute the initial states of the slots of a batch, [B * G, D].

        Args:
            slots: indices of slots, Int64 [B * G].
            rows: row embedding table of the network.
            columns: column embedding table of the network.
        """
        is_column = slots >= SLOTS_OF_A_KIND
        slot_table = torch.cat([rows[:SLOTS_OF_A_KIND], columns[1 : SLOTS_OF_A_KIND + 1]])
        return self.dropout(self.LayerNorm(self.kind(is_column.long()) + slot_table[slots]))
