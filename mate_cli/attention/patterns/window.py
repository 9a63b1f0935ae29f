"""Every token sees its neighbours, as far as the tokens of ETC see one another.

Source: Ainslie et al., "ETC: Encoding Long and Structured Inputs in Transformers", EMNLP 2020, section 3.
"""

import torch
from torch import Tensor

from mate_cli.attention.pattern import AttentionPattern
from mate_cli.tokenization.layout import TableBatch


class Window(AttentionPattern):
    """A token sees those at most so many places away that are not padding.

    Args:
        radius: places to either side.
    """

    def __init__(self, num_heads: int, radius: int) -> None:
        super().__init__(num_heads)
        self.radius = radius

    def group_masks(self, batch: TableBatch) -> Tensor:
        """Bool [B, 1, T, T]; padding may be left without a key."""
        real = batch.attention_mask == 1
        place = torch.arange(real.shape[1], device=real.device)
        return ((place - place[:, None]).abs() <= self.radius) & real[:, None, None, :]
