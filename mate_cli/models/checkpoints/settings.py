"""The settings in a checkpoint's own configuration that change numbers, beside those of the network that takes it.

Size, vocabulary, activation and the epsilon of norms are compared where weights are copied (`InitialWeights`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mate_cli.errors import CheckpointError

POSITIONS = "reset_position_index_per_cell"
OPTIONS = {
    "temperature": "temperature",
    "select_one_column": "select_one_column",
    "allow_empty_column_selection": "allow_empty_column_selection",
    "average_logits_per_cell": "average_logits_per_cell",
    "zero_cell_head": "init_cell_selection_weights_to_zero",
    "cell_selection_preference": "cell_selection_preference",
    "huber_delta": "huber_loss_delta",
    "answer_loss_cutoff": "answer_loss_cutoff",
    "normalise_answer_loss": "use_normalized_answer_loss",
    "average_approximation": "average_approximation_function",
    "aggregation_temperature": "aggregation_temperature",
    "aggregation_importance": "aggregation_loss_weight",
    "answer_importance": "answer_loss_importance",
    "positive_weight": "positive_label_weight",
    "max_rows": "max_num_rows",
    "max_columns": "max_num_columns",
}
"""Options of `TableQA`, with their keys in config.json; a threshold has none there."""
UNSUPPORTED = ("use_gumbel_for_cells", "use_gumbel_for_aggregation", "disable_per_token_loss")
"""Keys of config.json that change a loss and have no option here; all are false in what is released."""


RUN = "mate_run"
"""The model type of a run of ours, which may be trained on with positions that are counted in another way."""
PER_CELL = ("TapasSerializer", "SatSerializer", "MaskingSerializer")
"""Encodings in which positions may restart in each cell or not."""


class Origin(NamedTuple):
    """Origin of weights.

    Args:
        source: for people.
        config: of config.json, in the words of transformers; empty where there is none.
    """

    source: str
    config: Mapping[str, Any]


def restarts_positions(config: Mapping[str, Any]) -> bool | None:
    """Say whether positions restart in each cell; None where a configuration does not say.

    Source: transformers, `TapasConfig`, by whose default they do.
    """
    value = config.get(POSITIONS, True if config.get("model_type") == "tapas" else None)
    return None if value is None else bool(value)


def run_config(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of a run in the words of transformers, as far as it has any."""
    encoding, model, task = (parts.get(name) or {} for name in ("encoding", "model", "task"))
    of_cells = str(encoding.get("_target_", "")).endswith(PER_CELL)
    known = {
        "model_type": RUN,
        POSITIONS: encoding.get("reset_positions") if of_cells else None,
        "hidden_act": model.get("activation"),
        "layer_norm_eps": model.get("layer_norm_epsilon"),
        **{theirs: task.get(ours) for ours, theirs in OPTIONS.items()},
    }
    return {name: value for name, value in known.items() if value is not None}


def different_positions(origin: Origin, restarts: bool) -> list[str]:
    """Say how positions of an earlier run and of an encoding differ, which `restarts` them in each cell or not.

    Raises:
        CheckpointError: they differ, and the checkpoint is of others.
    """
    theirs = restarts_positions(origin.config)
    if theirs is None and "type_vocab_sizes" in origin.config:
        return ["unspecified positions"]
    if theirs in (None, restarts):
        return []
    theirs_words, words = (("run on through the table", "restart in each cell")[value] for value in (theirs, restarts))
    if origin.config.get("model_type") == RUN:
        return [f"positions that {theirs_words} (here they {words})"]
    raise CheckpointError(
        f"its positions {theirs_words}, those of this encoding {words}",
        where=origin.source,
        remedy=f"Set encoding.reset_positions={str(theirs).lower()}",
    )


def aggregation_names(config: Mapping[str, Any], known: Sequence[str]) -> list[str]:
    """Return the aggregations of a configuration, in the order of their ids.

    `known` ones where it leaves them nameless.
    """
    names = config.get("aggregation_labels")
    if names:
        return [str(names[key]).lower() for key in sorted(names, key=int)]
    return list(known[: config.get("num_aggregation_labels") or len(known)])


def different_options(config: Mapping[str, Any], options: Mapping[str, Any]) -> list[str]:
    """Return the options of heads that are otherwise than where their weights were trained, each in words.

    Args:
        config: of the checkpoint.
        options: of the task that takes the heads, by our names.
    """
    differences = [
        f"{ours} {config[theirs]} (here {options[ours]})"
        for ours, theirs in OPTIONS.items()
        if ours in options and config.get(theirs) not in (None, options[ours])
    ]
    return differences + [f"{name} (not here)" for name in UNSUPPORTED if config.get(name)]


def different_tables(config: Mapping[str, Any], types: Sequence[int], positions: int) -> list[str]:
    """Return the tables of embeddings that are longer or shorter than a network's, of which the common rows are taken.

    Args:
        config: of the checkpoint.
        types: ids of each token type of the network.
        positions: of the network.
    """
    theirs = None if config.get("model_type") == "roberta" else config.get("max_position_embeddings")  # two are padding
    compared = (("token types", config.get("type_vocab_sizes"), list(types)), ("positions", theirs, positions))
    return [f"{what} {theirs} (here {ours})" for what, theirs, ours in compared if theirs not in (None, ours)]
