"""What systems answer and cost, once their stages are trained."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mate_cli.pipelines.evaluation.evaluation import save_predictions
from mate_cli.pipelines.systems.base import System, SystemAnswers, Trained
from mate_cli.runs.record import RunFolder
from mate_cli.tables.example import TableExample

LEARNT = "system.json"
"""What a system has learnt of the development split."""


def joint_throughput(stages: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """What an example costs that passes through all stages: seconds and operations add up, where all have them."""
    joint: dict[str, float] = {}
    if all(stage.get("examples_per_second") for stage in stages):
        joint["examples_per_second"] = 1 / sum(1 / stage["examples_per_second"] for stage in stages)
    if all("training_flops_per_example" in stage for stage in stages):
        joint["training_flops_per_example"] = sum(stage["training_flops_per_example"] for stage in stages)
    return joint


def answer_split(system: System, stages: Mapping[str, Trained], split: str, to: RunFolder) -> dict[str, float]:
    """Let a system answer a split and score it; its predictions go into a folder."""
    examples = stages[system.stages[0]].parts.data.questions(split)
    answered = system.answer(stages, examples, split)
    save_answers(to, split, system, examples, answered)
    return system.score(answered, examples)


def save_answers(
    folder: RunFolder, split: str, system: System, examples: Sequence[TableExample], answered: SystemAnswers
) -> None:
    """Write predictions/<split>.json."""

    def score(example: TableExample) -> dict[str, float]:
        return system.score(replace(answered, metrics={}), [example])

    details = {name: {"cells": [[*cell] for cell in cells]} for name, cells in answered.cells.items()}
    save_predictions(folder, split, examples, answered.texts, score, details)
