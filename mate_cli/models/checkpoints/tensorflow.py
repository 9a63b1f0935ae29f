"""TensorFlow checkpoints of BERT and TAPAS, converted to the names and shapes of PyTorch.

Source: google-research/tapas and google-research/bert, `modeling.py`, `optimization.py`.
"""

import re
from pathlib import Path
from typing import Any

from torch import Tensor

from mate_cli.models.checkpoints.settings import POSITIONS
from mate_cli.models.checkpoints.tensor_bundle import list_bundle, read_bundle

CONFIG = "bert_config.json"
"""File next to the checkpoint with settings that the tensors do not show, such as the number of heads."""

HEADS = {
    "output_weights_agg": "aggregation_classifier.weight",
    "output_bias_agg": "aggregation_classifier.bias",
    "output_weights_cls": "classifier.weight",
    "output_bias_cls": "classifier.bias",
}
"""Names of head variables in transformers, by TensorFlow name. Other variables have the same names."""

PRUNING = {
    "pruning/output_weights": "bert/scores/tokens/kernel",
    "pruning/output_bias": "bert/scores/tokens/bias",
    "pruning/column_output_weights": "bert/scores/columns/kernel",
    "pruning/column_output_bias": "bert/scores/columns/bias",
}
"""Names of the token and column scorers of DoT in mate, by name in a released DoT."""
PRUNER = "pruning/bert/"
"""Prefix of the pruning transformer in a released DoT."""

RELEASED = re.compile(r"tapas_((?P<data>\w+)_)?(tiny|mini|small|medium|base|large)(?P<reset>_reset)?")
"""Pattern of the names of released TAPAS checkpoints. The first data set is the one trained on last."""
RELEASED_DOT = re.compile(
    r"(?P<data>wikisql|tabfact|wtq)_(?P<truncation>hem|cc)_(?P<max_tokens>\d+)_(?P<columns>column_)?dot_"
    r"(?P<pruner>[a-z]+)_(?P<keep>\d+)_[a-z]+"
)
"""Pattern of the names of released DoT checkpoints. Only the name states how the network reads tables (`DOT.md`)."""
RELEASED_OPTIONS: dict[str, dict[str, Any]] = {
    "sqa": {"select_one_column": True, "allow_empty_column_selection": False},
    "wtq": {
        "temperature": 0.0352513,
        "select_one_column": True,
        "allow_empty_column_selection": False,
        "init_cell_selection_weights_to_zero": True,
        "cell_selection_preference": 0.207951,
        "huber_loss_delta": 0.121194,
        "answer_loss_cutoff": 0.664694,
        "use_answer_as_supervision": True,
    },
    "wikisql": {
        "temperature": 0.107515,
        "select_one_column": False,
        "allow_empty_column_selection": False,
        "init_cell_selection_weights_to_zero": False,
        "cell_selection_preference": 0.611754,
        "huber_loss_delta": 1265.74,
        "answer_loss_cutoff": 0.185567,
        "use_answer_as_supervision": True,
    },
}
"""Options of released checkpoints by data set, with the keys of transformers (`utils/hparam_utils.py`)."""

LEAVES = {"kernel": "weight", "gamma": "weight", "beta": "bias"}
TABLES = ("word_embeddings", "position_embeddings", "token_type_embeddings")
OPTIMIZER = ("adam_m", "adam_v", "Adam", "Adam_1", "global_step", "beta1_power", "beta2_power")
"""Variables of the optimizer, by the last part of their name."""


def read_variables(prefix: Path) -> dict[str, Tensor]:
    """Read the weights of a TensorFlow checkpoint, by PyTorch name, without variables of the optimizer.

    Raises:
        CheckpointError: a file is missing or damaged.
        MissingDependencyError: the package that computes checksums is not installed.
    """
    variables = read_bundle(prefix, lambda name: name.rpartition("/")[2] not in OPTIMIZER)
    return {torch_name(name): _transpose_kernel(name, value) for name, value in variables.items()}


def torch_config(config: dict[str, Any], name: str) -> dict[str, Any]:
    """Convert the bert_config.json of a TensorFlow checkpoint to the keys of transformers' config.json.

    `gelu` in the TensorFlow code is the tanh approximation, `gelu_new` in transformers. The name of a released
    checkpoint provides two settings: whether positions restart in each cell, and the data set trained on last, which
    determines the options of the heads.

    Args:
        config: contents of bert_config.json, which may also contain such options.
        name: name of the folder, such as `tapas_sqa_inter_masklm_base_reset`.
    """
    settings = dict(config)
    if config.get("hidden_act") == "gelu":
        settings["hidden_act"] = "gelu_new"
    if isinstance(config.get("type_vocab_size"), list):
        settings["type_vocab_sizes"] = config["type_vocab_size"]
    if match := RELEASED_DOT.fullmatch(name):
        settings = {POSITIONS: True, **RELEASED_OPTIONS.get(match["data"], {}), **settings}
    if match := RELEASED.fullmatch(name):
        data_options = RELEASED_OPTIONS.get((match["data"] or "").partition("_")[0], {})
        settings = {POSITIONS: match["reset"] is not None, **data_options, **settings}
    return settings


def dot_options(name: str) -> dict[str, Any]:
    """Return the options of a released DoT and of its encoding, given the name of its folder.

    The result is empty if the name is not that of a released DoT.
    """
    if (match := RELEASED_DOT.fullmatch(name)) is None:
        return {}
    return {
        "model": {
            "keep": int(match["keep"]),
            "select": "columns" if match["columns"] else "tokens",
            "pruner": {"_target_": "mate_cli.models.tapas.Tapas", "_partial_": True, "size": match["pruner"]},
        },
        "encoding": {
            "max_tokens": int(match["max_tokens"]),
            "truncation": "hem" if match["truncation"] == "hem" else "cell_concatenation",
        },
    }


def list_variables(prefix: Path) -> set[str]:
    """Return the names of the weights of a TensorFlow checkpoint, converted to PyTorch names.

    Raises:
        CheckpointError: the index of the checkpoint is missing or damaged.
    """
    return {torch_name(name) for name in list_bundle(prefix)}


def torch_name(name: str) -> str:
    """Convert the name of a TensorFlow variable to the PyTorch name of the parameter.

    For example, `bert/encoder/layer_0/output/dense/kernel` becomes `bert.encoder.layer.0.output.dense.weight`.
    """
    renamed = f"bert/pruner/{name.removeprefix(PRUNER)}" if name.startswith(PRUNER) else PRUNING.get(name, name)
    *parts, leaf = HEADS.get(renamed, renamed).replace("/layer_", "/layer.").split("/")
    if leaf.startswith(TABLES):
        parts, leaf = [*parts, leaf], "weight"
    return ".".join([*parts, LEAVES.get(leaf, leaf)])


def _transpose_kernel(name: str, value: Tensor) -> Tensor:
    return value.T.contiguous() if name.endswith("/kernel") else value
