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
"""Subfolder of a run folder that contains one JSON file per analysis."""


class Analysis(ABC):
    """Base class of analyses, which measure properties of a trained network on one split."""

    name: ClassVar[str]
    """Name of the analysis, and of its result file `analysis/NAME.json` in the run folder."""

    @abstractmethod
    def find(self, parts: Parts, config: RunConfig, split: str) -> dict[str, Any]:
        """Analyze the trained network on one split, and return JSON-serializable results.

        Args:
            parts: assembled run: task with the trained network, data module and serializer.
            config: configuration of the run.
            split: name of the split to analyze.

        Raises:
            MateError: the analysis does not support this network or these inputs.
        """


def analyse_run(
    run: str, split: str, runtime: RuntimeOverrides, analysis: Analysis
) -> tuple[RunFolder, dict[str, Any]]:
    """Analyze a finished run with its best checkpoint and write the results into its folder.

    The results are written to `analysis/NAME.json`.

    The batch size is 1, because the memory of an analysis may grow quadratically with the input length.

    Args:
        run: path of the run folder.
        split: name of the split to analyze.
        runtime: overrides of settings for this machine, such as the device.
        analysis: analysis to run.

    Returns:
        The run folder and the results.

    Raises:
        RunError: the run is not finished, or it is a pipeline of several networks.
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
    """Select `count` examples that are evenly spaced in a sequence of examples.

    All examples are returned if `count` is None or not smaller than their number.
    """
    if count is None or count >= len(examples):
        return list(examples)
    return [examples[index * len(examples) // count] for index in range(count)]
