"""Standalone checkpoints: exports, and TAPAS of transformers or google-research/tapas.

The folder of a checkpoint contains the weights, the configuration of the network and the vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mate_cli.data.datasets.catalogue import TableDataset
from mate_cli.data.loading.table_data_module import EmptyDataset
from mate_cli.errors import CheckpointError
from mate_cli.files.hub import hub_file, missing_model
from mate_cli.files.io_errors import wrap_file_errors
from mate_cli.files.renamed import rename_targets
from mate_cli.files.safe_load import read_yaml, to_json
from mate_cli.files.targets import check_targets
from mate_cli.metrics.calibration import CALIBRATION
from mate_cli.models.checkpoints.files import HUB_FILES, check_archive, read_config
from mate_cli.models.checkpoints.tensor_bundle import find_bundle
from mate_cli.pipelines.assembly import Parts, assemble
from mate_cli.pipelines.export.tapas_format import tapas_parts
from mate_cli.pipelines.machine import RuntimeOverrides
from mate_cli.quoting import format_setting
from mate_cli.runs.checkpoints import load_module
from mate_cli.runs.configuration import ModelConfig
from mate_cli.tokenization.serializers.serializer import Serializer
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import ByteVocabulary, Vocabulary

SETTINGS = "mate.yaml"
"""File of an exported run's configuration, without the settings of the machine."""
WEIGHTS = HUB_FILES[0]
INITIAL_WEIGHTS = "mate_cli.models.initialization.initial_weights.InitialWeights"
VOCABULARIES = ("vocab.txt", "tokenizer.json")
DESCRIPTION = (SETTINGS, CALIBRATION, "config.json", *VOCABULARIES, "tokenizer_config.json", "special_tokens_map.json")
ADAPTER = "adapter_config.json"
"""Configuration file of a PEFT adapter. mate does not merge adapters into their base model."""
BUILT = ("encoding", "init", "model", "attention", "task")
"""Sections of the settings that are instantiated. The other sections describe the training."""
AGAIN = "Download or export it again"


def open_checkpoint(
    name: str, runtime: RuntimeOverrides, dataset: TableDataset | None = None
) -> tuple[Parts, ModelConfig]:
    """Build the network, task and tokenizer of a checkpoint, and load its weights.

    `parts.data.build_eval_loader(examples, name)` encodes examples, as for a run, and
    `evaluation.predict(parts.task, loader, config)` predicts them.

    Args:
        name: name of the checkpoint. One of:

            - a folder written by `mate export` or `save_pretrained`,
            - a folder with a `TapasForQuestionAnswering` or `TapasForSequenceClassification` of transformers,
            - the name of either on the Hugging Face Hub,
            - an unpacked TensorFlow release of google-research/tapas, or the prefix of its checkpoint,
              `.../model.ckpt`.
        runtime: hardware and folders of the current machine.
        dataset: dataset of the parts. None: an empty dataset.

    Returns:
        The parts with loaded weights, and the configuration that they were built from.

    Raises:
        CheckpointError: the checkpoint is missing, damaged or not supported.
        TrustError: the checkpoint names a class that is neither mate's nor trusted.
    """
    folder = find_checkpoint(name)
    bundle = None if _is_described(folder) else find_bundle(Path(name).expanduser())
    kind = "tapas" if bundle else read_config(folder).get("model_type")
    if (folder / SETTINGS).is_file():
        settings = read_yaml(folder / SETTINGS, CheckpointError, AGAIN, links=True)
    else:  # A `MateModel` of transformers saves the same settings in config.json.
        settings = read_config(folder) if kind == "mate_cli" else tapas_parts(folder, bundle)
    settings = rename_targets(settings)
    check_built(settings, str(folder), runtime.trust)
    settings["init"] = {"_target_": INITIAL_WEIGHTS, "tokenizer": str(folder)}
    if kind == "tapas":
        settings["init"] |= {"kind": "tapas", "checkpoint": str(bundle or folder), "heads": True}
    # The seed does not affect predictions.
    values = {**settings, "hardware": runtime.hardware, "paths": runtime.paths, "seed": 0}
    config = ModelConfig.from_sections(values, folder, CheckpointError, AGAIN)
    with wrap_file_errors(folder, CheckpointError, "its settings do not fit this version of mate", AGAIN):
        parts = assemble(config, dataset or EmptyDataset(), load=kind == "tapas", moved=True)
    if kind != "tapas":
        load_module(parts.task, folder / WEIGHTS, AGAIN)
    elif parts.report.new:
        raise CheckpointError(f"it lacks {parts.report.new[0]}", where=str(folder), remedy=AGAIN)
    return parts, config


def _is_described(folder: Path) -> bool:
    return any((folder / file).is_file() for file in (SETTINGS, "config.json"))


def check_built(settings: Mapping[str, Any], where: str, trust: Sequence[str] = ()) -> None:
    """Check that mate or a trusted module defines every `_target_` class of a checkpoint.

    Args:
        settings: settings of a checkpoint.
        where: location of the settings, for the error message.
        trust: trusted modules.

    Raises:
        TrustError: a `_target_` is neither mate's nor trusted. The message contains the `_target_`.
    """
    check_targets({key: settings[key] for key in BUILT if key in settings}, where, trust)


def find_checkpoint(name: str) -> Path:
    """Return the local folder of a checkpoint, given its path or its Hugging Face Hub name.

    A checkpoint of the Hub is downloaded first, or read from the cache when offline.

    Raises:
        CheckpointError: the checkpoint is missing and cannot be downloaded, or the folder contains no checkpoint.
    """
    folder = Path(name).expanduser()
    if folder.is_file():
        check_archive(folder)
        hint = f"Try {format_setting('checkpoint', folder.parent)}"
        raise CheckpointError("a checkpoint is a folder", where=name, remedy=hint)
    if not folder.is_dir():
        folder = folder.parent if find_bundle(folder) else _fetch_model(name)
    if (folder / "record.json").is_file():
        run = format_setting("run", name)
        hint = f"Use {run}, or make a checkpoint of it: mate export {run} to=FOLDER"
        raise CheckpointError("this is a run folder, not a checkpoint", where=name, remedy=hint)
    if (folder / ADAPTER).is_file():
        hint = "Load it with transformers' AutoModelFor..., merge it, and save it with the vocabulary"
        raise CheckpointError("it is a PEFT adapter", where=name, remedy=hint)
    bundle = None if _is_described(folder) else find_bundle(Path(name).expanduser())
    if not _is_described(folder) and not bundle:
        problem = f"neither {SETTINGS} nor config.json in it, nor a TensorFlow checkpoint"
        hint = "Name a folder that mate export wrote, or one of a TAPAS saved by transformers or by its authors"
        raise CheckpointError(problem, where=name, remedy=hint)
    for files in (VOCABULARIES,) if bundle else (VOCABULARIES, HUB_FILES):
        if not any((folder / file).is_file() for file in files):
            raise CheckpointError(f"no {files[0]} in it", where=name, remedy=AGAIN)
    return folder


def _fetch_model(name: str) -> Path:
    paths = [path for file in DESCRIPTION if (path := hub_file(name, file))]
    if not paths or not any(hub_file(name, file) for file in HUB_FILES):
        problem, hint = missing_model(name)
        raise CheckpointError(problem, where="checkpoint", remedy=hint)
    return paths[0].parent


FOUND_BESIDE = {"_target_": INITIAL_WEIGHTS, "tokenizer": "."}
"""Section `init` of an export, whose tokenizer is in the export folder itself."""
TOKENIZER_FILES = ("tokenizer_config.json", "special_tokens_map.json", "vocab.txt", "vocab.json", "merges.txt")


def tokenizer_class(serializer: Serializer, *, table_answers: bool) -> str:
    """Return the transformers tokenizer class that produces the same tokens as a serializer.

    Args:
        serializer: serializer of the exported model.
        table_answers: whether the model answers about tables. Then the tokenizer is `TapasTokenizer` if it also encodes
            tables as the serializer does.
    """
    if isinstance(serializer.tokenizer, ByteVocabulary):
        return "RobertaTokenizerFast"
    reads_tables = table_answers and type(serializer) is TapasSerializer
    return "TapasTokenizer" if reads_tables else "BertTokenizerFast"


def write_tokenizer(folder: Path, vocabulary: Vocabulary, max_tokens: int, name: str) -> None:
    """Write the files of a transformers tokenizer.

    The token `[EMPTY]` of TAPAS for empty cells is added.

    Args:
        folder: folder of the files.
        vocabulary: vocabulary of the model.
        max_tokens: maximum input length in tokens.
        name: class name of the tokenizer.
    """
    ids = (vocabulary.unknown_id, vocabulary.sep_id, vocabulary.pad_id, vocabulary.cls_id, vocabulary.mask_id)
    names = ("unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
    special = {key: vocabulary.tokens[index] for key, index in zip(names, ids, strict=True)}
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
