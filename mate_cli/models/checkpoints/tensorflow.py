"""The TensorFlow checkpoints of BERT and TAPAS, with the names and shapes that PyTorch gives their weights.

Source: google-research/tapas and google-research/bert, `modeling.py`, `optimization.py`.
"""

import re
from pathlib import Path
from typing import Any

from torch import Tensor

from mate_cli.models.checkpoints.settings import POSITIONS
from mate_cli.models.checkpoints.tensor_bundle import list_bundle, read_bundle

CONFIG = "bert_config.json"
"""Beside the checkpoint; says what the tensors do not, such as the number of heads."""

HEADS = {
    "output_weights_agg": "aggregation_classifier.weight",
    "output_bias_agg": "aggregation_classifier.bias",
    "output_weights_cls": "classifier.weight",
    "output_bias_cls": "classifier.bias",
}
"""Names of transformers for the heads; it kept those of the others."""

PRUNING = {
    "pruning/output_weights": "bert/scores/tokens/kernel",
    "pruning/output_bias": "bert/scores/tokens/bias",
    "pruning/column_output_weights": "bert/scores/columns/kernel",
    "pruning/column_output_bias": "bert/scores/columns/bias",
}
"""Prefix of the scores of a DoT here."""
PRUNER = "pruning/bert/"
"""Prefix of its pruning transformer."""

RELEASED = re.compile(r"tapas_((?P<data>\w+)_)?(tiny|mini|small|medium|base|large)(?P<reset>_reset)?")
"""The names of released TAPAS checkpoints; the data set that was trained on last comes first."""
RELEASED_DOT = re.compile(
    r"(?P<data>wikisql|tabfact|wtq)_(?P<truncation>hem|cc)_(?P<max_tokens>\d+)_(?P<columns>column_)?dot_"
    r"(?P<pruner>[a-z]+)_(?P<keep>\d+)_[a-z]+"
)
"""The names of released DoT checkpoints, which alone say how their networks read tables (`DOT.md`)."""
TRAINED: dict[str, dict[str, Any]] = {
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
"""Options that checkpoints were trained with, by the keys of transformers (`utils/hparam_utils.py`)."""

LEAVES = {"kernel": "weight", "gamma": "weight", "beta": "bias"}
TABLES = ("word_embeddings", "position_embeddings", "token_type_embeddings")
OPTIMIZER = ("adam_m", "adam_v", "Adam", "Adam_1", "global_step", "beta1_power", "beta2_power")
"""Variables that only an optimizer needs, by the last part of their name."""


def read_variables(prefix: Path) -> dict[str, Tensor]:
    """Return the weights of a checkpoint, those of the optimizer left out.

    Raises:
        CheckpointError: a file is missing or damaged.
        MissingDependencyError: the package that computes checksums is not installed.
    """
    variables = read_bundle(prefix, lambda name: name.rpartition("/")[2] not in OPTIMIZER)
    return {torch_name(name): _turn(name, value) for name, value in variables.items()}


def torch_config(config: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the configuration as transformers would write it.

    The `gelu` of this code is the one that uses tanh. What a release does not write down but in its name is taken from
    there: whether positions restart in each cell, and the data set that it was trained on last, with its options.

    Args:
        config: of bert_config.json, where such options may stand, too.
        name: of the folder, such as `tapas_sqa_inter_masklm_base_reset`.
    """
    known = dict(config)
    if config.get("hidden_act") == "gelu":
        known["hidden_act"] = "gelu_new"
    if isinstance(config.get("type_vocab_size"), list):
        known["type_vocab_sizes"] = config["type_vocab_size"]
    if match := RELEASED_DOT.fullmatch(name):
        known = {POSITIONS: True, **TRAINED.get(match["data"], {}), **known}
    if match := RELEASED.fullmatch(name):
        of_data = TRAINED.get((match["data"] or "").partition("_")[0], {})
        known = {POSITIONS: match["reset"] is not None, **of_data, **known}
    return known


def dot_options(name: str) -> dict[str, Any]:
    """Return the options of a released DoT and of its encoding by the name of its folder.

    Empty where it is another name.
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
    """Return the names of the weights of a checkpoint as PyTorch calls them.

    Raises:
        CheckpointError: its index is missing or damaged.
    """
    return {torch_name(name) for name in list_bundle(prefix)}


def torch_name(name: str) -> str:
    """Return the parameter that a variable is: `bert/encoder/layer_0/output/dense/kernel` has its matrix turned."""
    inner = f"bert/pruner/{name.removeprefix(PRUNER)}" if name.startswith(PRUNER) else PRUNING.get(name, name)
    *parts, leaf = HEADS.get(inner, inner).replace("/layer_", "/layer.").split("/")
    if leaf.startswith(TABLES):
        parts, leaf = [*parts, leaf], "weight"
    return ".".join([*parts, LEAVES.get(leaf, leaf)])


def _turn(name: str, value: Tensor) -> Tensor:
    return value.T.contiguous() if name.endswith("/kernel") else value
