"""Names that people bring from Lightning, transformers and their templates, and what they are called here."""

from __future__ import annotations

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
    **{"limit_test_batches": "trainer.limit_test=...", "compile": "trainer.compile"},
    **{name: f"+trainer.options.{name}" for name in ("profiler", "max_time", "detect_anomaly", "benchmark")},
    **dict.fromkeys(("learning_rate",), "optimizer.lr"),
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
"""The last part of a key, and what to type: a key, or whole words where the value means something else here."""


def translate_key(key: str) -> str | None:
    """Return what a key of another program is called here; None for one that nobody brings."""
    for section, ours in SECTIONS.items():
        if key.startswith(section):
            return ours + key.removeprefix(section)
    return NAMES.get(key.rpartition(".")[2])


def offer(name: str, value: str | None = None) -> str:
    """Ask whether a name was meant, with the value that was typed unless it says its own."""
    return f"Did you mean {name}{f'={value}' if value and '=' not in name else ''}?"
