"""`mate inspect`: show how one example is read, tokenised, cut and attended to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from mate_cli.errors import ConfigError, DataError

if TYPE_CHECKING:
    import numpy as np

    from mate_cli.cli.schema import Inspect
    from mate_cli.tables.example import TableExample
    from mate_cli.tokenization.layout import TableEncoding
    from mate_cli.tokenization.masking import MaskingSerializer
    from mate_cli.tokenization.text_serializer import TextSerializer

    WordSerializer = TextSerializer | MaskingSerializer

CONFIG = "inspect"


def run(cfg: Inspect) -> float | None:
    """Print one example and draw its attention masks into outputs/inspect/."""
    from hydra.utils import instantiate

    from mate_cli.tokenization.masking import MaskingSerializer
    from mate_cli.tokenization.serializer import EncodingFailure
    from mate_cli.tokenization.text_serializer import TextSerializer
    from mate_cli.tokenization.vocabulary import load_tokenizer

    if cfg.stages:
        experiments = " or ".join(f"experiment={stage['experiment']}" for stage in cfg.stages.values() if stage)
        raise ConfigError(
            "there are several, each with an encoding of its own", where="stages", remedy=f"Use {experiments}"
        )
    example = find_example(instantiate(cfg.data).examples(cfg.split), cfg.example, cfg.split)
    serializer = instantiate(cfg.encoding, tokenizer=load_tokenizer(cfg.tokenizer))
    if not isinstance(serializer, (TextSerializer, MaskingSerializer)):
        raise ConfigError("this encoding has no words to show", where="encoding", remedy="Use encoding=table")
    (encoding,) = serializer.encode([example])
    if isinstance(encoding, EncodingFailure):
        raise DataError(f"cannot be encoded: {encoding.reason}", where=example.example_id, remedy="Change encoding.*")
    show(example, encoding, serializer, cfg.tokens)
    print(f"attention masks: {draw_masks(cfg, example, encoding)}")
    return None


def find_example(examples: list[TableExample], wanted: str | int | None, split: str) -> TableExample:
    """The example of this id, else the one at this place; the first one for None.

    Raises:
        DataError: there is none.
    """
    by_id = {example.example_id: example for example in examples}
    if str(wanted) in by_id:
        return by_id[str(wanted)]
    place = str(0 if wanted is None else wanted)
    if not place.isdigit() or int(place) >= len(examples):
        raise DataError(
            f"there is no example {wanted} in the split {split}",
            where="example",
            remedy=f"Give an id, or a place from 0 to {len(examples) - 1}",
        )
    return examples[int(place)]


def show(example: TableExample, encoding: TableEncoding, serializer: WordSerializer, tokens: int) -> None:
    """Print the example with its table, the linked text that cells get, and the first tokens; of masked ones both."""
    from mate_cli.reports.example import print_cut, print_example, print_sentences, print_tokens
    from mate_cli.reports.terminal import report_console
    from mate_cli.tokenization.cuts import describe_cut
    from mate_cli.tokenization.masking import MaskingSerializer
    from mate_cli.tokenization.text_serializer import TextSerializer

    console = report_console()
    additions = linked_texts(example, serializer) if isinstance(serializer, TextSerializer) else {}
    lengths = cell_lengths(example, encoding, serializer, additions)
    print_example(example, {cell for cell, (kept, _) in lengths.items() if kept}, console)
    if encoding.cut is not None:
        print_cut(f"{describe_cut(encoding.cut)}; at most {serializer.max_tokens:,} tokens", console)
    print_sentences(example, additions, lengths, console)
    words = serializer.tokenizer.tokens
    pieces = [words[piece] for piece in encoding.input_ids]
    if isinstance(serializer, MaskingSerializer):
        labels = encoding.label_ids.tolist()
        pieces = [
            f"{piece} for {words[label]}" if label else piece for piece, label in zip(pieces, labels, strict=True)
        ]
    print_tokens(arrays(encoding), encoding.kinds, pieces, tokens, console)


def arrays(encoding: TableEncoding) -> dict[str, np.ndarray]:
    """The arrays of an encoding by name."""
    return {name: getattr(encoding, name) for name in encoding.__dataclass_fields__ if name != "example_id"}


def linked_texts(example: TableExample, serializer: TextSerializer) -> dict[str, str]:
    """What the serializer appends to a cell for each of its links."""
    parts = serializer.additions(example.table)(example.question)
    return {link: " ".join(texts) for link, texts in parts.items()}


def cell_lengths(
    example: TableExample, encoding: TableEncoding, serializer: WordSerializer, additions: dict[str, str]
) -> dict[tuple[int, int], tuple[int, int]]:
    """(tokens kept, tokens before cutting) of each body cell."""
    from collections import Counter

    kept = Counter(zip(encoding.row_ids.tolist(), encoding.column_ids.tolist(), strict=True))
    cells = list(example.table.cells())
    texts = [" ".join([cell.text, *(additions[x] for x in cell.links if x in additions)]) for _, _, cell in cells]
    pieces = serializer.tokenizer.pieces(texts)
    return {(r, c): (kept[r + 1, c + 1], max(1, len(p))) for (r, c, _), p in zip(cells, pieces, strict=True)}


def draw_masks(cfg: Inspect, example: TableExample, encoding: TableEncoding) -> Path:
    """Draw what each group of heads of the configured model sees; returns the PNG file."""
    from mate_cli.reports.plots.attention_masks import attention_masks_figure

    kinds, rows = encoding.kinds, encoding.row_ids.tolist()
    title = f"{example.example_id}: who may see whom, {len(kinds)} tokens"
    figure = attention_masks_figure(head_masks(cfg, encoding), kinds, rows, title)
    folder = Path(cfg.paths.outputs).expanduser() / "inspect"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{re.sub(r'[^0-9A-Za-z._-]+', '_', example.example_id)}_masks.png"
    figure.savefig(path, dpi=160, facecolor="white")
    return path


def head_masks(cfg: Inspect, encoding: TableEncoding) -> dict[str, np.ndarray]:
    """The mask of each group of heads and layers of the configured model, Bool [T, T] by the group's name."""
    import torch
    from hydra.utils import instantiate

    from mate_cli.data.collate import collate

    with torch.device("meta"):  # only the pattern is wanted, not the weights
        model = instantiate(cfg.model, attention=instantiate(cfg.attention), vocab_size=1)
    batch = collate([encoding], reset_positions=False, max_positions=len(encoding))
    masks: dict[str, np.ndarray] = {}
    for layers, pattern in model.patterns.items():
        names = [f"{layers}, {name}" if len(model.patterns) > 1 else name for name in pattern.group_labels()]
        masks |= zip(names, pattern.group_masks(batch)[0].numpy(), strict=True)
    return masks
