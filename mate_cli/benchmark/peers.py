"""Encoders of the installed `transformers`, with random weights, as people use them."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from mate_cli.benchmark.cases import VOCABULARY
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.tokenization.layout import TOKEN_TYPES, TableBatch

Encode = Callable[[TableBatch], Tensor]


class TransformersBert(nn.Module):
    """`BertModel` with `attn_implementation="sdpa"`: dense attention, PyTorch's fused kernel."""

    def __init__(self, size: EncoderSize, positions: int) -> None:
        from transformers import BertConfig, BertModel

        super().__init__()
        config = BertConfig(**_shape(size), max_position_embeddings=positions, attn_implementation="sdpa")
        self.model = BertModel(config, add_pooling_layer=False)

    def forward(self, batch: TableBatch) -> Tensor:
        """States [B, T, D]."""
        return self.model(batch.input_ids, attention_mask=batch.attention_mask).last_hidden_state


class TransformersTapas(nn.Module):
    """`TapasModel` with its default attention; row and column ids beyond its tables become the last ones."""

    def __init__(self, size: EncoderSize, positions: int) -> None:
        from transformers import TapasConfig, TapasModel

        super().__init__()
        self.model = TapasModel(TapasConfig(**_shape(size)), add_pooling_layer=False)

    def forward(self, batch: TableBatch) -> Tensor:
        """States [B, T, D]."""
        types = [getattr(batch, name).clamp(max=rows - 1) for name, rows in TOKEN_TYPES.items()]
        output = self.model(batch.input_ids, attention_mask=batch.attention_mask, token_type_ids=torch.stack(types, -1))
        return output.last_hidden_state


PEERS: dict[str, Callable[[EncoderSize, int], nn.Module]] = {
    "transformers_tapas": TransformersTapas,
    "transformers_bert": TransformersBert,
}
"""Constructors by name."""


def _shape(size: EncoderSize) -> dict[str, int]:
    return {
        "vocab_size": VOCABULARY,
        "hidden_size": size.hidden_size,
        "num_hidden_layers": size.num_layers,
        "num_attention_heads": size.num_heads,
        "intermediate_size": size.intermediate_size,
    }
