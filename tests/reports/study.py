"""Builds a study as large as a paper's: models by seeds, long curves, costs, and answers to questions."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np

from tests.reports.answered import write_predictions
from tests.reports.runs import build_run

MODELS = {
    "mate": (0.628, 41.0, 0.31e12, 3900.0),
    "tapas": (0.622, 19.0, 0.62e12, 7400.0),
    "sat": (0.601, 20.5, 0.60e12, 7300.0),
    "linformer": (0.588, 33.0, 0.36e12, 4600.0),
    "etc": (0.402, 28.0, 0.42e12, 5200.0),
}
"""Exact match, examples per second, training FLOPs per example, peak memory in MB."""
PLACES = (
    *("Ashby Park", "Corran Hall", "Dunmore Road", "Elm Lane", "Fort Rowan", "Glen Avon", "Harbour View"),
    "Isle Court",
)
TEAMS = ("Rovers", "Albion", "Wanderers", "Athletic", "Harriers", "United", "Rangers", "Town", "Celtic", "City")
SIZES = (12, 36, 72, 140, 320, 760)


def build_study(root: Path, *, models: int = 5, seeds: int = 3, points: int = 60, questions: int = 120) -> Path:
    """Writes models by seeds; models beyond the named ones are variants of them with another learning rate."""
    for number in range(models):
        model = list(MODELS)[number % len(MODELS)]
        rate = 5e-5 / (1 + number // len(MODELS))
        for seed in range(1, seeds + 1):
            name = f"hybridqa_{model}_{number // len(MODELS)}" if number >= len(MODELS) else f"hybridqa_{model}"
            build_studied(root / "train" / name / f"2025-03-0{seed}_09-00-00_0", model, seed, rate, points, questions)
    return root


def build_studied(folder: Path, model: str, seed: int, rate: float, points: int, questions: int) -> Path:
    """Writes one run of the study."""
    exact, speed, flops, memory = MODELS[model]
    rng = np.random.default_rng([seed, *model.encode(), int(1e7 * rate)])
    level = exact - 0.03 * math.log(5e-5 / rate) + rng.normal(0, 0.004)
    rows = answers(model, level, rng, questions)
    metrics = scores(level, rng) | measured(rows)
    throughput = {"examples_per_second": speed + rng.normal(0, 0.4), "training_flops_per_example": flops}
    build_run(
        folder,
        model=model,
        seed=seed,
        task="pointr",
        metrics=metrics,
        steps=1,
        config={"optimizer": {"lr": rate, "weight_decay": 0.01}},
        throughput=throughput,
        peak_memory_mb=memory + rng.normal(0, 30),
        wall_seconds=62613 * 5 / speed,
    )
    write_log(folder, metrics, rng, points, 62613 * 5 / speed)
    write_predictions(folder, json.dumps(rows))
    return folder


def scores(level: float, rng: np.random.Generator) -> dict[str, float]:
    """Test scores in both parts of the questions and in all of them, and how cells were selected."""
    shifts = {"/table": 0.06, "/passage": -0.03, "": 0.0}
    answers = {
        f"test/{score}{part}": level + shift + gain + rng.normal(0, 0.003)
        for part, shift in shifts.items()
        for score, gain in (("em", -0.006), ("f1", 0.07))
    }
    return answers | {f"dev/hits@{k}": level + gain for k, gain in ((1, 0.16), (3, 0.25), (5, 0.28))}


def answers(model: str, level: float, rng: np.random.Generator, count: int) -> list[dict[str, object]]:
    """Rows of predictions; questions about large tables are harder, most so for models that approximate."""
    easy = np.random.default_rng(7).normal(0, 0.3, count)  # the same questions are hard for everybody
    rows = []
    for number in range(count):
        size = SIZES[number % len(SIZES)]
        harder = 0.05 * math.log(size / 12) * (2 if model in ("linformer", "etc") else 0.6)
        right = rng.random() < level + 0.12 + easy[number] - harder
        gold, other = PLACES[number % len(PLACES)], PLACES[(number + 1 + number % 3) % len(PLACES)]
        said = gold if right else other
        rows.append(
            {
                "question_id": f"q{number:04d}",
                "pred": said,
                "question": f"Where did {TEAMS[number % 10]} play their home matches in the season of {1900 + number}?",
                "answer": [gold],
                "source": ("table", "passage")[number % 2],
                "table_id": f"{TEAMS[number % 10]}_{1900 + number}",
                "table_cells": size,
                "scores": {"em": float(right), "f1": float(right) or 0.25 * (said[0] == gold[0])},
            }
        )
    return rows


def measured(rows: list[dict[str, object]]) -> dict[str, float]:
    """The mean scores of the rows, in both parts of the questions and in all of them."""
    found = {}
    for part in ("", "table", "passage"):
        own = [row["scores"] for row in rows if part in ("", row["source"])]
        for score in ("em", "f1"):
            if own:
                found[f"dev/{score}" + (f"/{part}" if part else "")] = float(np.mean([one[score] for one in own]))
    return found


def write_log(folder: Path, metrics: dict[str, float], rng: np.random.Generator, points: int, seconds: float) -> None:
    """Writes as many logged steps as asked for, every tenth with scores on dev."""
    lines = []
    for number in range(1, points + 1):
        share = number / points
        clock = {"step": round(9780 * share), "epoch": round(5 * share, 3), "time": round(seconds * share, 1)}
        loss = 2.2 * math.exp(-4 * share) + 0.42 + rng.normal(0, 0.05)
        speed = {"train/examples_per_second": 62613 * 5 / seconds + rng.normal(0, 1)}
        lines.append(clock | {"train/loss": loss, "train/lr": 5e-5 * (1 - share), **speed})
        if number % max(1, points // 20) == 0:
            rise = 1 - math.exp(-5 * share) + rng.normal(0, 0.006)
            dev = {name: value * rise for name, value in metrics.items() if name.startswith("dev/")}
            lines.append(clock | dev | {"dev/loss": 0.6 + 0.9 * math.exp(-5 * share) + 0.15 * share})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
