"""Files beside the weights: what builds the network, and the vocabulary that transformers' tokenizers read."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mate_cli.files.safe_load import to_json, to_yaml
from mate_cli.pipelines.inference.checkpoint import INITIAL_WEIGHTS, SETTINGS
from mate_cli.tokenization.serializers.serializer import Serializer
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import ByteVocabulary, Vocabulary

FOUND_BESIDE = {"_target_": INITIAL_WEIGHTS, "tokenizer": "."}
"""The first weights of what is exported, and where its tokenizer is."""
TOKENIZER_FILES = ("tokenizer_config.json", "special_tokens_map.json", "vocab.txt", "vocab.json", "merges.txt")


def write_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write what builds the model."""
    text = f"# What builds this model; mate predict checkpoint=<this folder> reads it.\n{to_yaml(settings)}"
    (folder / SETTINGS).write_text(text, encoding="utf-8")


def tokenizer_class(serializer: Serializer, *, table_answers: bool) -> str:
    """Name the tokenizer of transformers that reads the same pieces, and tables where it does so as ours."""
    if isinstance(serializer.tokenizer, ByteVocabulary):
        return "RobertaTokenizerFast"
    reads_tables = table_answers and type(serializer) is TapasSerializer
    return "TapasTokenizer" if reads_tables else "BertTokenizerFast"


def write_tokenizer(folder: Path, vocabulary: Vocabulary, max_tokens: int, name: str) -> None:
    """Write what transformers' tokenizers read; the piece of an empty cell has the name that TAPAS gives it.

    Args:
        folder: where to.
        vocabulary: the word pieces.
        max_tokens: the longest input.
        name: of the tokenizer's class.
    """
    special = {
        f"{kind}_token": vocabulary.tokens[index]
        for kind, index in (
            ("unk", vocabulary.unknown_id),
            ("sep", vocabulary.sep_id),
            ("pad", vocabulary.pad_id),
            ("cls", vocabulary.cls_id),
            ("mask", vocabulary.mask_id),
        )
    }
    config = {"tokenizer_class": name, "do_lower_case": vocabulary.lower_case, "model_max_length": max_tokens}
    if isinstance(vocabulary, ByteVocabulary):
        config["add_prefix_space"] = True
    for file, values in (("tokenizer_config.json", config | special), ("special_tokens_map.json", special)):
        (folder / file).write_text(to_json(values, indent=2), encoding="utf-8")
    if isinstance(vocabulary, ByteVocabulary):
        vocabulary.write(folder)
        return
    tokens = list(vocabulary.tokens)
    if vocabulary.empty_id != vocabulary.unknown_id:
        tokens[vocabulary.empty_id] = "[EMPTY]"
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
