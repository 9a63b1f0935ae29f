"""Builds run folders that look like real ones, the same every time."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

VERSIONS = {"python": "3.11.9", "torch": "2.13.0", "mate_cli": "0.1.0", "transformers": "4.57.1"}
LEVELS = {"mate": 0.742, "tapas": 0.715, "sat": 0.668}
SPEEDS = {"mate": 41.3, "tapas": 18.6, "sat": 35.2}


def build_run(
    folder: Path,
    *,
    model: str = "mate",
    seed: int = 1,
    task: str = "cell_selection",
    status: str = "finished",
    reason: str | None = None,
    metrics: dict[str, float] | None = None,
    config: dict[str, Any] | None = None,
    steps: int = 40,
    **record: Any,
) -> Path:
    """Writes one run folder; `record` entries replace the built ones, `config` entries are added to the built."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed * 1000 + sum(map(ord, model + task)))
    final = cell_selection_metrics(model, rng) if task == "cell_selection" else answer_metrics(model, rng)
    content = run_record(model, seed, task, status, reason) | {"metrics": final if metrics is None else metrics}
    if status != "finished" and metrics is None:
        content["metrics"] = {}
    content |= record
    counts = {split: count for split, count in content["data"].items() if split in ("dev", "test")}
    questions = {"questions": {split: f"{count}:1" for split, count in counts.items()}}
    (folder / "record.json").write_text(json.dumps(questions | content, indent=2))
    write_config(folder, {"seed": seed} | base_config(model, task) | (config or {}))
    write_curves(folder, final, rng, steps if status == "finished" else steps // 3)
    return folder


def run_record(model: str, seed: int, task: str, status: str, reason: str | None) -> dict[str, Any]:
    speed = SPEEDS.get(model, 30.0)
    return {
        "schema": 1,
        "command": "train",
        "experiment": model,
        "status": status,
        "reason": reason,
        "argv": ["mate", "train", f"experiment=hybridqa_{model}", f"seed={seed}"],
        "overrides": [f"experiment=hybridqa_{model}", f"seed={seed}"],
        "dataset": "hybridqa",
        "model": model,
        "attention": "segments" if model == "mate" else "sdpa",
        "init": "minilm",
        "task": task,
        "seed": seed,
        "started": f"2025-03-0{1 + seed % 9}T09:00:00+00:00",
        "finished": f"2025-03-0{1 + seed % 9}T11:00:00+00:00" if status != "running" else None,
        "wall_seconds": 62613 / speed * (1 + 0.01 * seed),
        "host": "lab-3",
        "device": "cpu (16 threads)",
        "versions": VERSIONS,
        "code_version": "2493d19",
        "parameters": 22_713_217,
        "weights_sha256": None,
        "throughput": {"examples_per_second": speed + 0.2 * seed, "tokens_per_second": 512 * speed},
        "peak_memory_mb": 3100.0 + 10 * seed,
        "data": {"train": 62613, "dev": 3466, "test": 3463, "failures": 0},
    }


def cell_selection_metrics(model: str, rng: np.random.Generator) -> dict[str, float]:
    level = LEVELS.get(model, 0.6) + rng.normal(0, 0.004)
    scores = {"hits@1": level, "hits@3": level + 0.107, "hits@5": level + 0.139}
    metrics = {
        f"{split}/{name}": value + shift
        for split, shift in (("dev", 0), ("test", -0.008))
        for name, value in scores.items()
    }
    return metrics | {
        f"baseline/tfidf/{split}/hits@{k}": 0.18 + 0.06 * k for split in ("dev", "test") for k in (1, 3, 5)
    }


def answer_metrics(model: str, rng: np.random.Generator) -> dict[str, float]:
    level = LEVELS.get(model, 0.6) - 0.11 + rng.normal(0, 0.003)
    shifts = {"/table": 0.055, "/passage": -0.02, "": 0.0}
    return {
        f"{split}/{score}{part}": level + shift + gain
        for split in ("dev", "test")
        for part, shift in shifts.items()
        for score, gain in (("em", 0.0), ("f1", 0.075))
    }


def base_config(model: str, task: str) -> dict[str, Any]:
    return {
        "model": {"_target_": f"mate_cli.models.{model}.{model.capitalize()}", "size": "minilm"},
        "task": {"name": task},
        "optimizer": {"lr": 5e-5, "weight_decay": 0.01},
        "trainer": {"batch_size": 32, "max_epochs": 5},
    }


def write_config(folder: Path, config: dict[str, Any]) -> None:
    (folder / "config.yaml").write_text(json.dumps(config, indent=2))  # JSON is YAML


def write_curves(folder: Path, final: dict[str, float], rng: np.random.Generator, steps: int) -> None:
    lines = []
    for index in range(1, steps + 1):
        share, step = index / 40, index * 50
        loss = 0.9 * math.exp(-3 * share) + 0.35 + rng.normal(0, 0.02)
        clock = {"step": step, "epoch": int(5 * share), "time": 30.0 * index}
        lines.append(clock | {"train/loss": loss, "train/lr": 5e-5 * (1 - share)})
        if index % 4 == 0:
            rise = 1 - math.exp(-4 * share) + rng.normal(0, 0.008)
            dev = {name: value for name, value in final.items() if name.startswith("dev/") and name.count("/") == 1}
            lines.append({"step": step} | {name: value * rise for name, value in dev.items()})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def build_demo(root: Path) -> Path:
    """Writes the runs of a small study: three models by three seeds, one failed, one running, one PointR pipeline."""
    for model in LEVELS:
        for seed in (1, 2, 3):
            failed = model == "sat" and seed == 3
            build_run(
                root / "train" / f"hybridqa_{model}" / f"2025-03-0{seed}_09-00-00_0",
                model=model,
                seed=seed,
                status="failed" if failed else "finished",
                reason="OutOfMemoryError: 12.4 GB needed, 8.0 GB free; lower hardware.micro_batch" if failed else None,
            )
    pipeline = build_run(
        root / "train" / "hybridqa_pointr" / "2025-03-04_09-00-00_0",
        task="pointr",
        argv=["mate", "train", "experiment=hybridqa_pointr"],
    )
    build_run(pipeline / "cell_selection")
    build_run(pipeline / "span_reading", task="span_reading")
    build_run(root / "train" / "hybridqa_mate" / "2025-03-05_09-00-00_0", seed=4, status="running", wall_seconds=None)
    return root


def build_ranked(root: Path) -> Path:
    """Writes three seeds of one network, one run of another within their error, and one of a third below it."""
    for seed, score in ((1, 0.60), (2, 0.64), (3, 0.68)):
        build_run(root / f"mate{seed}", seed=seed, metrics={"dev/em": score})
    build_run(root / "tapas", model="tapas", metrics={"dev/em": 0.63})
    build_run(root / "sat", model="sat", metrics={"dev/em": 0.5})
    return root
