"""Error messages about keys and values: `trainer.log_every: must be an integer`."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mate_cli.cli.help import nearest
from mate_cli.errors import ConfigError
from mate_cli.quoting import format_setting

SECTIONS = {"model.optimizer.": "optimizer.", "model.scheduler.": "scheduler.", "datamodule.": "data."}
"""Sections of other programs, and mate's sections with keys of the same names."""
KEY_ALIASES = {
    **dict.fromkeys(("devices", "gpus", "num_gpus", "n_gpus", "num_processes"), "hardware.devices"),
    **dict.fromkeys(("accelerator", "device"), "hardware.accelerator"),
    **{"num_nodes": "hardware.nodes", "strategy": "hardware=ddp", "num_workers": "hardware.workers"},
    **dict.fromkeys(("precision", "fp16", "bf16", "amp"), "hardware.precision=..."),
    **dict.fromkeys(("accumulate_grad_batches", "gradient_accumulation_steps"), "hardware.micro_batch=..."),
    **dict.fromkeys(("ckpt_path", "ckpt", "resume_from_checkpoint", "checkpoint_path"), "resume"),
    **dict.fromkeys(("task_name", "run_name", "experiment_name"), "name"),
    **{"deterministic": "deterministic", "fast_dev_run": "debug=fast", "overfit_batches": "debug=overfit"},
    **dict.fromkeys(("epochs", "num_epochs", "n_epochs", "num_train_epochs", "min_epochs"), "trainer.max_epochs"),
    **dict.fromkeys(("steps", "num_steps", "total_steps", "min_steps"), "trainer.max_steps"),
    **dict.fromkeys(("batch_size", "train_batch_size", "per_device_train_batch_size"), "trainer.batch_size"),
    **dict.fromkeys(("check_val_every_n_epoch", "val_check_interval", "eval_steps"), "trainer.val_every=..."),
    **dict.fromkeys(("gradient_clip_val", "max_grad_norm"), "trainer.gradient_clip"),
    **dict.fromkeys(("log_every_n_steps", "logging_steps"), "trainer.log_every"),
    **dict.fromkeys(("model_checkpoint", "save_steps", "save_top_k"), "trainer.checkpoint_every=..."),
    **{f"limit_{name}_batches": f"trainer.limit_{split}=..." for name, split in (("train", "train"), ("val", "dev"))},
    **{"limit_test_batches": "trainer.limit_test=...", "compile": "trainer.compile", "learning_rate": "optimizer.lr"},
    **{name: f"+trainer.options.{name}" for name in ("profiler", "max_time", "detect_anomaly", "benchmark")},
    **dict.fromkeys(("warmup", "warmup_steps", "warmup_ratio", "num_warmup_steps"), "scheduler.warmup=..."),
    **dict.fromkeys(("max_length", "max_seq_length", "max_len", "seq_len"), "encoding.max_tokens"),
    **dict.fromkeys(("data_dir", "data_path", "dataset_path"), "data.root"),
    **dict.fromkeys(("output_dir", "log_dir", "work_dir", "save_dir"), "paths.outputs"),
    **{name: f"logger.wandb.{name}" for name in ("tags", "project", "entity")},
    **{"offline": "logger.wandb.mode=offline", "hparams_search": "sweep=learning_rate"},
    **{"patience": "callbacks=early_stopping callbacks.early_stopping.patience=..."},
    **{"pretrained": "init=bert", "model_name_or_path": "init=path init.checkpoint=..."},
    **dict.fromkeys(("train", "test", "eval", "do_train", "do_eval"), "mate evaluate run=..."),
}
"""mate's equivalents of keys of Lightning, transformers and project templates.

The mapping is by the last component of the other program's key. An equivalent is a key, or a complete override if the
value has another meaning.
"""
KINDS = {
    **dict.fromkeys(("int", "integer"), "an integer"),
    **dict.fromkeys(("float", "number"), "a number"),
    **dict.fromkeys(("bool", "boolean"), "true or false"),
    **dict.fromkeys(("list", "tuple", "array"), "a list"),
    **dict.fromkeys(("dict", "model", "dataclass", "object"), "a group of keys"),
    **{"string": "text", "none": "null", "null": "null", "too_short": "one or more"},
}
"""Descriptions of types for messages, by prefix of a pydantic error type and by type in a JSON schema."""
MAX_SHOWN = 200
"""Maximum characters of a value in a message."""


def validation_messages(error: ValidationError, values: object, path: str = "", schema: object = None) -> Iterator[str]:
    """Convert a pydantic error to one message per invalid key.

    Args:
        error: error that pydantic raised.
        values: values that were validated.
        path: dotted key of the values, "" for the whole configuration.
        schema: class against which the values were validated. It is used to suggest valid keys.
    """
    located = [(_keys(detail, values), detail) for detail in error.errors()]
    for keys, group in itertools.groupby(located, key=lambda pair: pair[0]):
        details = [detail for _, detail in group]
        key = ".".join(filter(None, [path, *map(str, keys)]))
        if details[0]["type"] == "extra_forbidden":
            fields = section.model_fields if (section := find_section(schema, keys[:-1])) else {}
            field_names = [field.alias or name for name, field in fields.items()]
            yield unknown_key(".".join(filter(None, [path, *map(str, keys[:-1])])), str(keys[-1]), field_names)
        else:
            yield _explain_value(key, details)


def unknown_key(section: str, name: str, known: Sequence[str]) -> str:
    """Return the error message about an unknown key, which suggests a similar key.

    Args:
        section: dotted key of the section, "" for the top level.
        name: unknown key in this section.
        known: valid keys in this section.
    """
    key = f"{section}.{name}" if section else name
    equivalent = translate_key(key)
    hint = (
        suggest_name(equivalent)
        if equivalent and equivalent != key
        else nearest(name, known, prefix=f"{section}." if section else "")
    )
    if key in ("experiment", "debug"):
        hint = "Start its file with the line # @package _global_"
    elif "." in name:
        hint = f"In a file write {name.replace('.', ': {')}: VALUE{'}' * name.count('.')}"
    elif hint is None and known:
        hint = f"Known here: {', '.join(sorted(known))}"
    return str(ConfigError("unknown key", where=key, remedy=hint))


def _keys(detail: ErrorDetails, values: object) -> tuple[int | str, ...]:
    """Return the keys that lead to the invalid value of a pydantic error.

    Names of union members, which pydantic adds to these keys, are omitted.
    """
    keys: list[int | str] = []
    for key in detail["loc"]:
        try:
            values = values[key]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            return (*keys, key) if detail["type"] == "missing" else tuple(keys)
        keys.append(key)
    return tuple(keys)


def find_section(schema: Any, keys: Sequence[int | str]) -> type[BaseModel] | None:  # noqa: ANN401 - a type, if any
    """Return the pydantic class of a config section, or None if no section has this path.

    Args:
        schema: schema class of the whole configuration.
        keys: path of keys to the section.
    """
    for key in keys:
        fields = getattr(schema, "model_fields", {})
        schema = fields[key].annotation if key in fields else None
    return schema if isinstance(schema, type) and issubclass(schema, BaseModel) else None


def _explain_value(key: str, details: Sequence[ErrorDetails]) -> str:
    """Return the error message about an invalid value of a configuration key.

    It names the violated bound, or the valid types if the type is wrong.
    """
    if details[0]["type"] == "missing":
        return str(ConfigError("is missing", where=key, remedy="Give it a value"))
    bounds = [detail for detail in details if _kind(detail) is None and detail["type"] != "literal_error"]
    phrases = list(dict.fromkeys(_describe_constraint(detail) for detail in bounds[:1] or details))
    value = details[0]["input"]
    value_text = repr(value) if len(repr(value)) <= MAX_SHOWN else f"{repr(value)[:MAX_SHOWN]} ..."
    hint = f"Type {format_setting(key, [value])}" if "a list" in phrases and isinstance(value, str) else None
    if "text" in phrases and isinstance(value, (int, float)):  # Such a value is 1e5, which is parsed as a number.
        section, _, index = key.rpartition(".")
        example = f'{section}=["...", ...]' if index.isdecimal() else f'{key}="..."'
        hint = f"For text, use quotes inside quotes: '{example}'"
    return str(ConfigError(f"must be {' or '.join(phrases)} (got {value_text})", where=key, remedy=hint))


def _kind(detail: ErrorDetails) -> str | None:
    """Return the expected type in a pydantic error, such as "an integer".

    Return None for errors that are not about the type of a value.
    """
    return KINDS.get(detail["type"], KINDS.get(detail["type"].partition("_")[0]))


def _describe_constraint(detail: ErrorDetails) -> str:
    if detail["type"] == "literal_error":
        return str(detail["ctx"]["expected"])
    message = detail["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    return _kind(detail) or message[:1].lower() + message[1:]


def translate_key(key: str) -> str | None:
    """Return mate's key for a key of Lightning or transformers, or None if unknown.

    For example, `max_steps` is `trainer.max_steps`.
    """
    for section, own_section in SECTIONS.items():
        if key.startswith(section):
            return own_section + key.removeprefix(section)
    return KEY_ALIASES.get(key.rpartition(".")[2])


def suggest_name(name: str, value: str | None = None) -> str:
    """Return the hint "Did you mean NAME?" for a mistyped name.

    If `name` is followed by a value, the hint contains "NAME=VALUE". The value is omitted if `name` is a complete
    override.
    """
    return f"Did you mean {name}{f'={value}' if value and '=' not in name else ''}?"
