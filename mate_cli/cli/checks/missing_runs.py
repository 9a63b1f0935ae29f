"""Runs that are to stand in for stages and are not there yet: all else that would be trained can be planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mate_cli.cli.config.resolve import resolve
from mate_cli.errors import MissingRunError

if TYPE_CHECKING:
    from mate_cli.pipelines.run_spec import RunSpec


@dataclass(frozen=True)
class PlannedRun:
    """A run as it would be trained.

    Args:
        spec: of the run, in which stages whose runs are missing would be trained.
        missing: why the run of such a stage cannot be used, by stage.
    """

    spec: RunSpec
    missing: Mapping[str, MissingRunError]


def resolve_planned(words: Sequence[str]) -> PlannedRun:
    """Resolve a run; where the finished run of a stage is missing, as if the stage was trained.

    Raises:
        MateError: see `resolve`.
    """
    missing: dict[str, MissingRunError] = {}
    while True:
        try:
            return PlannedRun(resolve(words), missing)
        except MissingRunError as error:
            typed = f"stages.{error.stage}.run="
            words = [word for word in words if not word.lstrip("+").startswith(typed)]
            if error.stage in missing:  # its experiment says so, and not the words
                raise
            missing[error.stage] = error
