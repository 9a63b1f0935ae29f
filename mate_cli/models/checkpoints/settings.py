"""Comparison of the configuration of a checkpoint with the task and the encoding.

`InitialWeights` compares size, vocabulary, activation and the epsilon of norms when it copies weights.
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
"""Options of `TableQA`, by their keys in config.json, which has none for the threshold."""
UNSUPPORTED = ("use_gumbel_for_cells", "use_gumbel_for_aggregation", "disable_per_token_loss")
"""Keys of config.json that change a loss and have no option in mate. All are false in released checkpoints."""


RUN = "mate_run"
"""Model type of a run of mate. Only weights of runs may be used with other positions than in their training."""
PER_CELL = ("TapasSerializer", "SatSerializer", "MaskingSerializer")
"""Serializers with the option `reset_positions`, which restarts positions in each cell."""


class Origin(NamedTuple):
    """The checkpoint from which weights were loaded.

    Args:
        source: human-readable name of the checkpoint.
        config: contents of config.json, with the keys of transformers, empty if the file is missing.
    """

    source: str
    config: Mapping[str, Any]


def restarts_positions(config: Mapping[str, Any]) -> bool | None:
    """Return whether positions of a checkpoint restart in each cell, or None if unknown.

    Source: transformers, `TapasConfig`, in which positions restart by default.
    """
    value = config.get(POSITIONS, True if config.get("model_type") == "tapas" else None)
    return None if value is None else bool(value)


def run_config(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the configuration of a run to the keys of config.json of transformers.

    Settings without an equivalent key are omitted.

    Args:
        parts: configuration with the sections `encoding`, `model` and `task`.
    """
    encoding, model, task = (parts.get(name) or {} for name in ("encoding", "model", "task"))
    of_cells = str(encoding.get("_target_", "")).endswith(PER_CELL)
    settings = {
        "model_type": RUN,
        POSITIONS: encoding.get("reset_positions") if of_cells else None,
        "hidden_act": model.get("activation"),
        "layer_norm_eps": model.get("layer_norm_epsilon"),
        **{key: task.get(option) for option, key in OPTIONS.items()},
    }
    return {name: value for name, value in settings.items() if value is not None}


def different_positions(origin: Origin, restarts: bool) -> list[str]:
    """Describe how the positions of a checkpoint and an encoding differ. Return [] if they agree.

    Args:
        origin: origin of the loaded weights.
        restarts: whether the encoding restarts positions in each cell.

    Raises:
        CheckpointError: the positions differ, and the checkpoint is not a run of mate.
    """
    checkpoint_restarts = restarts_positions(origin.config)
    if checkpoint_restarts is None and "type_vocab_sizes" in origin.config:
        return ["unspecified positions"]
    if checkpoint_restarts in (None, restarts):
        return []
    checkpoint_text, encoding_text = (
        ("continue through the whole table", "restart in each cell")[value] for value in (checkpoint_restarts, restarts)
    )
    if origin.config.get("model_type") == RUN:
        return [f"positions that {checkpoint_text} (here they {encoding_text})"]
    problem = f"position ids of the checkpoint {checkpoint_text}, but those of this encoding {encoding_text}"
    hint = f"Set encoding.reset_positions={str(checkpoint_restarts).lower()}"
    raise CheckpointError(problem, where=origin.source, remedy=hint)


def aggregation_names(config: Mapping[str, Any], known: Sequence[str]) -> list[str]:
    """Return the names of the aggregations in a config.json, in the order of their ids.

    Args:
        config: contents of config.json.
        known: names of the aggregations to assume, in the order of their ids, if config.json contains no names.
    """
    names = config.get("aggregation_labels")
    if names:
        return [str(names[key]).lower() for key in sorted(names, key=int)]
    return list(known[: config.get("num_aggregation_labels") or len(known)])


def different_options(config: Mapping[str, Any], options: Mapping[str, Any]) -> list[str]:
    """Describe each head option that differs between a checkpoint and a task.

    Args:
        config: configuration of the checkpoint.
        options: options of the task that loads the heads, by their names in mate.
    """
    differences = [
        f"{option} {config[key]} (here {options[option]})"
        for option, key in OPTIONS.items()
        if option in options and config.get(key) not in (None, options[option])
    ]
    return differences + [f"{name} (not here)" for name in UNSUPPORTED if config.get(name)]


def different_tables(config: Mapping[str, Any], types: Sequence[int], positions: int) -> list[str]:
    """Describe the embedding tables that have another length in a checkpoint.

    Only the rows that both tables have are loaded.

    Args:
        config: configuration of the checkpoint.
        types: vocabulary size of each token type of the network.
        positions: number of positions of the network.
    """
    # The position table of RoBERTa has two additional rows for padding.
    stored = None if config.get("model_type") == "roberta" else config.get("max_position_embeddings")
    sizes = (("token types", config.get("type_vocab_sizes"), list(types)), ("positions", stored, positions))
    return [
        f"{table} {stored} (here {network_size})"
        for table, stored, network_size in sizes
        if stored not in (None, network_size)
    ]
