"""The interface of analyses, and running one on a finished run."""

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
"""Below a run's folder: what was found, a file per analysis."""


class Analysis(ABC):
    """Looks at what a finished network does with a split."""

    name: ClassVar[str]
    """The name of its file in the run's folder."""

    @abstractmethod
    def find(self, parts: Parts, config: RunConfig, split: str) -> dict[str, Any]:
        """Return what there is to say, as plain values.

        Raises:
            MateError: this network or these inputs have nothing of the kind.
        """


def analyse_run(
    run: str, split: str, runtime: RuntimeOverrides, analysis: Analysis
) -> tuple[RunFolder, dict[str, Any]]:
    """Analyse a finished run with its best weights, and write `analysis/NAME.json` in its folder.

    Batches are small: what is looked at may grow with the square of the length.

    Returns:
        The run's folder, and what was found.

    Raises:
        RunError: it is not finished, or a system of several networks.
        DataError: the split is missing.
    """
    folder = open_run(run)
    stages = folder.read_record().stages
    if stages:
        remedy = f"Name one of its stages: {format_setting('run', folder.path / next(iter(stages)))}"
        raise RunError("this run is a system of several networks", where=run, remedy=remedy)
    config = runtime.config(folder)
    config = config.model_copy(update={"hardware": config.hardware.model_copy(update={"micro_batch": 1})})
    content = {"analysis": analysis.name, "split": split, **analysis.find(load_best(config, folder), config, split)}
    folder.write_json(f"{FOLDER}/{analysis.name}.json", content)
    return folder, content


def pick_evenly(examples: Sequence[TableExample], count: int | None) -> list[TableExample]:
    """Pick so many examples at even distances; all where there are no more, or no number is given."""
    if count is None or count >= len(examples):
        return list(examples)
    return [examples[place * len(examples) // count] for place in range(count)]
