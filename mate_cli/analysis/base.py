"""Base class of analyses, and the function that analyzes a finished run."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from mate_cli.errors import RunError
from mate_cli.pipelines.assembly import Parts, load_best
from mate_cli.pipelines.machine import RuntimeOverrides
from mate_cli.quoting import format_setting
from mate_cli.runs.configuration import RunConfig
from mate_cli.runs.folders import open_run
from mate_cli.runs.record import RunFolder
from mate_cli.tables.example import TableExample

FOLDER = "analysis"
"""Subfolder of the run's folder with one result file per analysis."""


class Analysis(ABC):
    """Base class of analyses of a trained network on a split."""

    name: ClassVar[str]
    """Name of the result file in the run's folder."""

    @abstractmethod
    def find(self, parts: Parts, config: RunConfig, split: str) -> dict[str, Any]:
        """Return the results as JSON-serializable values.

        Args:
            parts: task with the trained network, data module and serializer.
            config: configuration of the run.
            split: split to analyze.

        Raises:
            MateError: the analysis does not apply to this network or these inputs.
        """


def analyse_run(
    run: str, split: str, runtime: RuntimeOverrides, analysis: Analysis
) -> tuple[RunFolder, dict[str, Any]]:
    """Analyze a finished run with its best checkpoint.

    The results are written to `analysis/NAME.json` in the folder of the run.

    Batches have one example, because the memory of an analysis may grow with the square of the length.

    Args:
        run: folder of the run.
        split: split to analyze.
        runtime: overrides for this machine.
        analysis: analysis to run.

    Returns:
        The folder of the run, and the results.

    Raises:
        RunError: the run is not finished, or is a system of several networks.
        DataError: the split is missing.
    """
    folder = open_run(run)
    stages = folder.read_record().stages
    if stages:
        hint = f"Name one of its stages: {format_setting('run', folder.path / next(iter(stages)))}"
        raise RunError("this run is a system of several networks", where=run, remedy=hint)
    config = runtime.config(folder)
    config = config.model_copy(update={"hardware": config.hardware.model_copy(update={"micro_batch": 1})})
    content = {"analysis": analysis.name, "split": split, **analysis.find(load_best(config, folder), config, split)}
    folder.write_json(f"{FOLDER}/{analysis.name}.json", content)
    return folder, content


def pick_evenly(examples: Sequence[TableExample], count: int | None) -> list[TableExample]:
    """Pick `count` evenly spaced examples, or all examples if `count` is None or larger."""
    if count is None or count >= len(examples):
        return list(examples)
    return [examples[index * len(examples) // count] for index in range(count)]
