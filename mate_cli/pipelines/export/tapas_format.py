"""Conversion between mate's TAPAS and transformers' TAPAS.

Both have the same weights and options, under different names.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import shorten
from typing import Any

from torch import Tensor

from mate_cli.errors import CheckpointError
from mate_cli.lit_modules.base import TableTask
from mate_cli.models.checkpoints.files import bundle_config, read_config
from mate_cli.models.checkpoints.heads import head_names
from mate_cli.models.checkpoints.settings import OPTIONS, POSITIONS, aggregation_names
from mate_cli.models.checkpoints.tensorflow import CONFIG, dot_options, list_variables
from mate_cli.models.layers.encoder import LAYER_NORM_EPSILON
from mate_cli.models.tapas import Tapas
from mate_cli.quoting import format_setting
from mate_cli.tables.example import AGGREGATIONS, VERDICTS
from mate_cli.tokenization.layout import TOKEN_TYPES
from mate_cli.tokenization.serializers.serializer import Serializer

QUESTIONS, STATEMENTS = "TapasForQuestionAnswering", "TapasForSequenceClassification"
TASKS = {
    QUESTIONS: "mate_cli.lit_modules.table_qa.TableQA",
    STATEMENTS: "mate_cli.lit_modules.entailment.Entailment",
}
"""Task classes of mate, by the equivalent class of transformers."""
DOT = "mate_cli.models.dot.Dot"
MAX_TOKENS = 512
"""Maximum input length of a TAPAS if its tokenizer configuration contains no valid length."""
AGGREGATING = "aggregation_classifier.weight"
ENCODER, THEIRS = "encoder.", "tapas."


def tapas_class(task: TableTask[Any, Any]) -> str | None:
    """Return the name of the transformers TAPAS class that is equivalent to a task, or None."""
    encoder = task.encoder
    if type(encoder) is not Tapas or encoder.embeddings.lexical is not None or encoder.extra is not None:
        return None
    return task.spec.transformers_class


def tapas_weights(task: TableTask[Any, Any]) -> dict[str, Tensor]:
    """Return the weights of a TAPAS task under the parameter names of transformers.

    transformers always has weights for column scores, which are 0 if the task does not score columns.
    """
    heads, weights = head_names(task), {}
    for name, tensor in task.state_dict().items():
        if name in heads:
            target = heads[name]
            weights[target] = tensor if "classifier" in target else tensor.squeeze(0)
        else:
            weights[THEIRS + name.removeprefix(ENCODER)] = tensor
    for name, tensor in list(weights.items()):
        if name.startswith("output_"):
            weights.setdefault(f"column_{name}", tensor.new_zeros(tensor.shape))
    return weights


def shape_config(task: TableTask[Any, Any], serializer: Serializer) -> dict[str, Any]:
    """Return the layer sizes of a network under the keys of transformers' config.json."""
    size = task.encoder.size
    return {
        "vocab_size": serializer.vocab_size,
        **size.standard_numbers,
        "max_position_embeddings": size.max_positions,
        "hidden_act": task.encoder.activation,
        "reset_position_index_per_cell": serializer.reset_positions,
    }


def tapas_config(task: TableTask[Any, Any], serializer: Serializer, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of config.json that describes a task as transformers' `TapasConfig`.

    Args:
        task: task, with an equivalent class in `tapas_class`.
        serializer: serializer of the task.
        settings: settings of mate.yaml.
    """
    model = settings["model"]
    return {
        "model_type": "tapas",
        "architectures": [tapas_class(task)],
        **shape_config(task, serializer),
        "hidden_dropout_prob": model.get("hidden_dropout", 0.1),
        "attention_probs_dropout_prob": model.get("attention_dropout", 0.1),
        "type_vocab_sizes": list(TOKEN_TYPES.values()),
        "layer_norm_eps": LAYER_NORM_EPSILON,
        "pad_token_id": serializer.tokenizer.pad_id,
        **(_questions(task, settings["task"]) if task.spec.transformers_class == QUESTIONS else task.auto_config),
    }


def _questions(task: TableTask[Any, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `TapasConfig` values for the cell selection and aggregation heads of a task."""
    config = {name: options[key] for key, name in OPTIONS.items() if key in options}
    if options["aggregation"] == "none":
        return config
    return config | task.auto_config | {"use_answer_as_supervision": options["aggregation"] == "weak"}


def tapas_parts(folder: Path, bundle: Path | None = None) -> dict[str, Any]:
    """Return mate's configuration sections for the TAPAS checkpoint in a folder.

    Args:
        folder: folder with files of transformers, or of google-research/tapas.
        bundle: prefix of a TensorFlow checkpoint of google-research/tapas. None for files of transformers.

    Returns:
        The sections `model`, `attention`, `encoding` and `task`.

    Raises:
        CheckpointError: the network is no TAPAS, or has no head that mate supports.
    """
    dot = _dot_options(bundle) if bundle else {}
    config = _complete(folder, bundle)
    return {
        "model": {**_model(config), **({"_target_": DOT, **dot["model"]} if dot else {})},
        "attention": {"_target_": "mate_cli.attention.backends.auto.Auto"},
        "encoding": {**_encoding(config, folder), **dot.get("encoding", {})},
        "task": _task(config),
    }


def _dot_options(bundle: Path) -> dict[str, Any]:
    """Return the token selection options of a DoT checkpoint, parsed from its folder name.

    The result is empty if the checkpoint has a single encoder.

    Raises:
        CheckpointError: the folder name does not contain the options.
    """
    if not any(name.startswith("bert.pruner.") for name in list_variables(bundle)):
        return {}
    if options := dot_options(bundle.resolve().parent.name):
        return options
    problem = "the folder name of this DoT checkpoint does not name its token selection"
    hint = "Use the name of the release, such as tabfact_hem_1024_dot_small_256_large"
    raise CheckpointError(problem, where=str(bundle.parent), remedy=hint)


def _complete(folder: Path, bundle: Path | None) -> dict[str, Any]:
    """Read and check a TAPAS configuration, and fill in missing values by `TapasConfig`."""
    from transformers import TapasConfig  # Imported late: the import is slow, and only TAPAS needs it.

    config = read_config(folder) if bundle is None else _of_bundle(bundle)
    _check_kind(config, folder)
    try:
        values = {**TapasConfig(**config).to_dict(), "architectures": config["architectures"]}
    except Exception as error:
        problem = f"not a TAPAS configuration: {shorten(str(error), 160)}"
        raise CheckpointError(problem, where=str(folder), remedy="Download it again") from error
    _check_options(values, folder)
    return values


def _of_bundle(bundle: Path) -> dict[str, Any]:
    """Convert the configuration of a TensorFlow TAPAS checkpoint to `TapasConfig` values.

    Raises:
        CheckpointError: a required value is missing, or the network is not supported.
    """
    config, names = bundle_config(bundle), list_variables(bundle)
    path = str(bundle.with_name(CONFIG))
    if "hidden_size" not in config:
        raise CheckpointError("does not contain the size of the network", where=path, remedy="Download it again")
    if config.get("softmax_temperature", 1.0) != 1.0:
        raise CheckpointError("softmax_temperature is not 1", where=path, remedy="Only networks with 1 can be read")
    if POSITIONS not in config:
        hint = f'Add "{POSITIONS}": true or false as in training; names of releases with true end in _reset'
        raise CheckpointError("does not state whether positions restart in each cell", where=path, remedy=hint)
    heads = {STATEMENTS: "classifier.weight", QUESTIONS: "output_weights"}
    aggregations = {"num_aggregation_labels": len(AGGREGATIONS)} if AGGREGATING in names else {}
    architectures = [head for head, weight in heads.items() if weight in names][:1]
    return {**config, **aggregations, "model_type": "tapas", "architectures": architectures}


def _check_kind(config: Mapping[str, Any], folder: Path) -> None:
    kind, heads = config.get("model_type"), config.get("architectures") or []
    if kind != "tapas":
        problem = f"its config.json is of {kind!r}, not of a TAPAS or a mate export"
        hint = f"To train from these weights: mate train init=bert {format_setting('init.checkpoint', folder)}"
        raise CheckpointError(problem, where=str(folder), remedy=hint)
    if not set(heads) & TASKS.keys():
        problem = f"a {' or '.join(heads) or 'TAPAS without a head'} cannot answer"
        hint = f"Use one of {' or '.join(TASKS)}, or train from these weights: mate train init=tapas"
        raise CheckpointError(problem, where=str(folder), remedy=hint)


def _check_options(config: Mapping[str, Any], folder: Path) -> None:
    labels = config.get("id2label") or dict(enumerate(VERDICTS))
    for name, values, expected in (
        ("token types", config["type_vocab_sizes"], list(TOKEN_TYPES.values())),
        ("aggregations", aggregation_names(config, AGGREGATIONS), list(AGGREGATIONS)),
        ("labels", [int(label) for label in labels], list(range(len(VERDICTS)))),
        ("layer norm's epsilon", [config["layer_norm_eps"]], [LAYER_NORM_EPSILON]),
    ):
        if list(values) != expected:
            raise CheckpointError(f"its {name} are {values}", where=str(folder), remedy=f"Only {expected} can be read")


def _model(config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "_target_": "mate_cli.models.tapas.Tapas",
        "size": {
            "_target_": "mate_cli.models.base.sizes.EncoderSize",
            "hidden_size": config["hidden_size"],
            "num_layers": config["num_hidden_layers"],
            "num_heads": config["num_attention_heads"],
            "intermediate_size": config["intermediate_size"],
            "max_positions": config["max_position_embeddings"],
        },
        "activation": config["hidden_act"],
        "hidden_dropout": config["hidden_dropout_prob"],
        "attention_dropout": config["attention_probs_dropout_prob"],
    }


def _encoding(config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    length = read_config(folder, "tokenizer_config.json").get("model_max_length")
    reset = config["reset_position_index_per_cell"]
    tokens = length if isinstance(length, int) and length <= 4096 else MAX_TOKENS
    return {
        "_target_": "mate_cli.tokenization.serializers.tapas.TapasSerializer",
        "max_tokens": tokens if reset else min(tokens, config["max_position_embeddings"]),
        "reset_positions": reset,
        "sentences": 0,
    }


def _task(config: Mapping[str, Any]) -> dict[str, Any]:
    if STATEMENTS in config["architectures"]:
        return {"_target_": TASKS[STATEMENTS]}
    options = {key: config[name] for key, name in OPTIONS.items() if config.get(name) is not None}
    mode = "weak" if config.get("use_answer_as_supervision") else "supervised"
    aggregation = mode if config.get("num_aggregation_labels") else "none"
    return {"_target_": TASKS[QUESTIONS], **options, "aggregation": aggregation}
