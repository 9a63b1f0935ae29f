"""States of a frozen encoder, computed once and kept on disk: they never change."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from mate_cli.files.atomic import replace_file
from mate_cli.tokenization.layout import TableBatch

READ = ("input_ids", "segment_ids", "position_ids")
"""Arrays that the states of a BERT-like encoder depend on, beside its weights."""


class FrozenFeatures:
    """States of word pieces in 16 bits, a file for each input, in a folder for each set of weights."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._weights: tuple[tuple[int, ...], str] = ((), "")

    def states(self, batch: TableBatch, weights: nn.Module, compute: Callable[[TableBatch], Tensor]) -> Tensor:
        """Return the states [B, T, D] of a batch, zero on padding; those that nobody kept yet are computed and kept."""
        folder = self.folder / self._fingerprint(weights)
        paths = [folder / name[:2] / f"{name}.npy" for name in _names(batch)]
        if not all(path.exists() for path in paths):
            folder.mkdir(parents=True, exist_ok=True)
            for path, states, real in zip(
                paths, compute(batch).cpu(), batch.attention_mask.sum(1).tolist(), strict=True
            ):
                _keep(path, states[:real])
        found = [torch.from_numpy(np.load(path)) for path in paths]
        padded = nn.utils.rnn.pad_sequence(found, batch_first=True)
        return padded.to(batch.input_ids.device, torch.float32)

    def _fingerprint(self, weights: nn.Module) -> str:
        """Return a name for the weights, found anew whenever one was written to."""
        versions = tuple(tensor._version for tensor in weights.state_dict(keep_vars=True).values())
        if versions != self._weights[0] or not self._weights[1]:
            found = hashlib.sha256()
            for name, tensor in weights.state_dict().items():
                found.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
            self._weights = versions, found.hexdigest()[:16]
        return self._weights[1]


def _names(batch: TableBatch) -> list[str]:
    """Return a name for what is read of each example, padding left out."""
    arrays = torch.stack([getattr(batch, name) for name in READ], -1).cpu().numpy()
    lengths = batch.attention_mask.sum(1).tolist()
    return [
        hashlib.blake2b(array[:length].tobytes(), digest_size=16).hexdigest()
        for array, length in zip(arrays, lengths, strict=True)
    ]


def _keep(path: Path, states: Tensor) -> None:
    with replace_file(path) as draft, draft.open("wb") as file:
        np.save(file, states.half().numpy())
