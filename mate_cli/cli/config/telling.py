"""What was typed, as far as it tells a run apart: equal settings are equal however they are typed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

from mate_cli.cli.config.plan import compose_plan
from mate_cli.cli.config.words import Word
from mate_cli.errors import MateError
from mate_cli.pipelines.plan import Plan
from mate_cli.runs.folders import flatten
from mate_cli.runs.names import is_ignored


def telling(plan: Plan, folder: Path | None = None) -> Plan:
    """The plan with its settings: what was typed of it without what changes nothing, values as they are read.

    Args:
        plan: as it was composed.
        folder: the user's configuration; `./conf` when it is None.
    """
    words = list(plan.overrides)
    for text in plan.overrides:
        word = Word.parse(text)
        if word.key == "experiment" or is_ignored(word.key):
            continue
        others = [one for one in words if one is not text]
        if _changes_nothing(plan, others, folder):
            words = others
    values = flatten(plan.values())
    return replace(plan, settings=[_read(Word.parse(text), values) for text in words])


def _changes_nothing(plan: Plan, others: Sequence[str], folder: Path | None) -> bool:
    """Whether fewer words make the same plan."""
    try:
        other = compose_plan(others, folder)
    except (MateError, HydraException):
        return False
    return (other.values(), other.names) == (plan.values(), plan.names)


def _read(word: Word, values: dict[str, Any]) -> str:
    """A setting with its value as the configuration has it: 0.001 for 1e-3."""
    if word.group or word.value is None or "experiment" in word.key:
        return str(word)
    found: Any = values.get(word.key)
    if found is None:
        try:
            found = OverridesParser.create().parse_override(str(word)).value()
        except HydraException:
            return str(word)
    return str(word) if isinstance(found, str) else str(replace(word, sign="", value=_text(found)))


def _text(value: Any) -> str:  # noqa: ANN401 - any value
    if isinstance(value, float):
        return f"{value:.12g}"
    if value is None or isinstance(value, bool):
        return str(value).lower().replace("none", "null")
    return str(value).replace("'", "").replace(" ", "") if isinstance(value, (list, dict)) else str(value)
