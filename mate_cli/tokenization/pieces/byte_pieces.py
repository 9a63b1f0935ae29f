"""Pieces of bytes as RoBERTa has them: pairs that occur often are merged; how they are written to files.

Source: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.2; Liu et al. 2019,
"RoBERTa".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel

from mate_cli.errors import ConfigError
from mate_cli.files.io_errors import wrap_read_errors
from mate_cli.files.safe_load import read_bytes, read_object

FILES = ("vocab.json", "merges.txt")
AGAIN = "Fetch it again"


@dataclass(frozen=True)
class BytePieces:
    """Content of such a vocabulary: ids of pieces by name, and pairs that are merged, the first ones first."""

    ids: Mapping[str, int]
    merges: tuple[tuple[str, str], ...]

    def tokenizer(self) -> Tokenizer:
        """Build the tokenizer; each text begins a word, so that a word is the same wherever it stands."""
        tokenizer = Tokenizer(BPE(dict(self.ids), list(self.merges)))
        tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=True)
        return tokenizer

    def write(self, folder: Path) -> None:
        """Write vocab.json and merges.txt, which transformers reads too."""
        lines = ["#version: 0.2", *(" ".join(pair) for pair in self.merges)]
        for file, text in zip(FILES, (json.dumps(self.ids, ensure_ascii=False), "\n".join(lines) + "\n"), strict=True):
            (folder / file).write_text(text, encoding="utf-8")


def read_byte_pieces(folder: Path) -> BytePieces | None:
    """Read vocab.json and merges.txt of a folder, or a tokenizer.json that says the same; None where neither does.

    Raises:
        ConfigError: a file is damaged.
    """
    names, merges = (folder / file for file in FILES)
    if names.is_file() and merges.is_file():
        with wrap_read_errors(merges, ConfigError, "these merges cannot be read", AGAIN):
            lines = read_bytes(merges, links=True).decode("utf-8").split("\n")
            pairs = _pairs(line for line in lines if line and not line.startswith("#version"))
        return BytePieces(read_object(names, ConfigError, AGAIN, links=True), pairs)
    if not (folder / "tokenizer.json").is_file():
        return None
    model = read_object(folder / "tokenizer.json", ConfigError, AGAIN, links=True).get("model")
    if not isinstance(model, dict) or model.get("type") != "BPE":
        return None
    with wrap_read_errors(folder / "tokenizer.json", ConfigError, "this vocabulary cannot be read", AGAIN):
        return BytePieces(model["vocab"], _pairs(model["merges"]))


def _pairs(merges: Iterable[str | list[str]]) -> tuple[tuple[str, str], ...]:
    parts = (pair.split(" ") if isinstance(pair, str) else pair for pair in merges)
    return tuple((first, second) for first, second in parts)
