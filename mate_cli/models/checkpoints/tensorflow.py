"""The TensorFlow checkpoints of BERT and TAPAS, with the names and shapes that PyTorch gives their weights.

Source: google-research/tapas and google-research/bert, `modeling.py`, `optimization.py`.
"""

from pathlib import Path
from typing import Any

from torch import Tensor

from mate_cli.models.checkpoints.tensor_bundle import read_bundle

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
"""What the scores of a DoT are called here."""
PRUNER = "pruning/bert/"
"""What the names of its pruning transformer begin with."""

LEAVES = {"kernel": "weight", "gamma": "weight", "beta": "bias"}
TABLES = ("word_embeddings", "position_embeddings", "token_type_embeddings")
OPTIMIZER = ("adam_m", "adam_v", "Adam", "Adam_1", "global_step", "beta1_power", "beta2_power")
"""What only an optimizer needs, by the last part of its name."""


def read_variables(prefix: Path) -> dict[str, Tensor]:
    """The weights of a checkpoint, those of the optimizer left out.

    Raises:
        CheckpointError: a file is missing or damaged.
        MissingDependencyError: the package that computes checksums is not installed.
    """
    variables = read_bundle(prefix, lambda name: name.rpartition("/")[2] not in OPTIMIZER)
    return {torch_name(name): _turn(name, value) for name, value in variables.items()}


def torch_config(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration as transformers would write it: the `gelu` of this code is the one that uses tanh."""
    return {**config, "hidden_act": "gelu_new"} if config.get("hidden_act") == "gelu" else config


def torch_name(name: str) -> str:
    """The parameter that a variable is: `bert/encoder/layer_0/output/dense/kernel` has its matrix turned."""
    inner = f"bert/pruner/{name.removeprefix(PRUNER)}" if name.startswith(PRUNER) else PRUNING.get(name, name)
    *parts, leaf = HEADS.get(inner, inner).replace("/layer_", "/layer.").split("/")
    if leaf.startswith(TABLES):
        parts, leaf = [*parts, leaf], "weight"
    return ".".join([*parts, LEAVES.get(leaf, leaf)])


def _turn(name: str, value: Tensor) -> Tensor:
    return value.T.contiguous() if name.endswith("/kernel") else value
