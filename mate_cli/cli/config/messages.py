"""Sentences about keys and values that are refused, such as `trainer.max_steps: must be greater than 0 (got -5)`."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mate_cli.cli.help import nearest
from mate_cli.errors import ConfigError
from mate_cli.quoting import format_setting

SECTIONS = {"model.optimizer.": "optimizer.", "model.scheduler.": "scheduler.", "datamodule.": "data."}
"""Sections of other programs whose keys have the same names here."""
NAMES = {
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
    **{f"limit_{name}_batches": f"trainer.limit_{short}=..." for name, short in (("train", "train"), ("val", "dev"))},
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
"""What the last part of a key of Lightning, transformers and their templates is called here: a key, or whole words
where the value means something else."""
KINDS = {
    **dict.fromkeys(("int", "integer"), "an integer"),
    **dict.fromkeys(("float", "number"), "a number"),
    **dict.fromkeys(("bool", "boolean"), "true or false"),
    **dict.fromkeys(("list", "tuple", "array"), "a list"),
    **dict.fromkeys(("dict", "model", "dataclass", "object"), "a group of keys"),
    **{"string": "text", "none": "null", "null": "null", "too_short": "one or more"},
}
"""Types of values in words, by the names that pydantic's errors begin with, and by those of a JSON schema."""
MAX_SHOWN = 200
"""Letters of a value that a sentence quotes."""


def validation_messages(error: ValidationError, values: object, path: str = "", schema: object = None) -> Iterator[str]:
    """Yield one sentence per key of a failed check."""
    placed = [(_keys(detail, values), detail) for detail in error.errors()]
    for keys, group in itertools.groupby(placed, key=lambda pair: pair[0]):
        details = [detail for _, detail in group]
        place = ".".join(filter(None, [path, *map(str, keys)]))
        if details[0]["type"] == "extra_forbidden":
            fields = section.model_fields if (section := find_section(schema, keys[:-1])) else {}
            known = [field.alias or name for name, field in fields.items()]
            yield unknown_key(".".join(filter(None, [path, *map(str, keys[:-1])])), str(keys[-1]), known)
        else:
            yield _explain_value(place, details)


def unknown_key(section: str, name: str, known: Sequence[str]) -> str:
    """Return the sentence about a key of a section that nothing reads."""
    place = f"{section}.{name}" if section else name
    ours = translate_key(place)
    remedy = offer(ours) if ours and ours != place else nearest(name, known, prefix=f"{section}." if section else "")
    if place in ("experiment", "debug"):
        remedy = "Start its file with the line # @package _global_"
    elif "." in name:
        remedy = f"In a file write {name.replace('.', ': {')}: VALUE{'}' * name.count('.')}"
    elif remedy is None and known:
        remedy = f"Known here: {', '.join(sorted(known))}"
    return str(ConfigError("unknown key", where=place, remedy=remedy))


def _keys(detail: ErrorDetails, values: object) -> tuple[int | str, ...]:
    """Return the part of pydantic's location that exists in the values; what follows are names of types."""
    keys: list[int | str] = []
    for key in detail["loc"]:
        try:
            values = values[key]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            return (*keys, key) if detail["type"] == "missing" else tuple(keys)
        keys.append(key)
    return tuple(keys)


def find_section(schema: Any, keys: Sequence[int | str]) -> type[BaseModel] | None:  # noqa: ANN401 - a type, if any
    """Return the class of the section that a path of keys leads to; None where it is plain, or is not there."""
    for key in keys:
        fields = getattr(schema, "model_fields", {})
        schema = fields[key].annotation if key in fields else None
    return schema if isinstance(schema, type) and issubclass(schema, BaseModel) else None


def _explain_value(place: str, details: Sequence[ErrorDetails]) -> str:
    """Return the sentence about one value: its bound if it has the right type, else the types it may have."""
    if details[0]["type"] == "missing":
        return str(ConfigError("is missing", where=place, remedy="Give it a value"))
    bounds = [detail for detail in details if _kind(detail) is None and detail["type"] != "literal_error"]
    phrases = list(dict.fromkeys(_demand(detail) for detail in bounds[:1] or details))
    value = details[0]["input"]
    shown = repr(value) if len(repr(value)) <= MAX_SHOWN else f"{repr(value)[:MAX_SHOWN]} ..."
    remedy = f"Type {format_setting(place, [value])}" if "a list" in phrases and isinstance(value, str) else None
    if "text" in phrases and isinstance(value, float):  # such as 1e5, whose spelling is lost once it is a number
        remedy = f"For text, use quotes inside quotes: '{place}=\"...\"'"
    return str(ConfigError(f"must be {' or '.join(phrases)} (got {shown})", where=place, remedy=remedy))


def _kind(detail: ErrorDetails) -> str | None:
    """Return the type that a value must have; None where it has the right one."""
    return KINDS.get(detail["type"], KINDS.get(detail["type"].partition("_")[0]))


def _demand(detail: ErrorDetails) -> str:
    if detail["type"] == "literal_error":
        return str(detail["ctx"]["expected"])
    message = detail["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    return _kind(detail) or message[:1].lower() + message[1:]


def translate_key(key: str) -> str | None:
    """Return what a key of another program is called here; None for one that nobody brings."""
    for section, ours in SECTIONS.items():
        if key.startswith(section):
            return ours + key.removeprefix(section)
    return NAMES.get(key.rpartition(".")[2])


def offer(name: str, value: str | None = None) -> str:
    """Ask whether a name was meant, with the value that was typed unless it says its own."""
    return f"Did you mean {name}{f'={value}' if value and '=' not in name else ''}?"
