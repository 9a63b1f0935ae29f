"""What was typed, as far as it tells a run apart: equal settings are equal however they are typed."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import OmegaConf

from mate_cli.cli.config.composition import composer
from mate_cli.cli.config.plan import compose_plan
from mate_cli.cli.config.words import Word
from mate_cli.errors import MateError
from mate_cli.pipelines.plan import Plan
from mate_cli.runs.folders import flat_keys
from mate_cli.runs.names import is_ignored, of_stage


def telling(plan: Plan, folder: Path | None = None) -> Plan:
    """The plan with its settings: what was typed of it without what changes nothing, values as they are read."""
    keys = {text: Word.parse(text).key for text in plan.overrides}
    asked = [text for text in plan.overrides if keys[text] != "experiment" and not is_ignored(keys[text])]
    with composer([], folder):  # a word is mostly of one stage, and the others are composed once
        same, stages = plan, _untyped(plan, folder) if asked else []
        for text in asked:
            if any(stage.is_changed_by(Word.parse(text)) for stage in stages):
                continue
            if other := _same_plan(same, [one for one in same.overrides if one is not text], folder):
                same, stages = other, _untyped(other, folder)
    values = flat_keys(plan.values())
    return replace(plan, settings=[_read(Word.parse(text), values) for text in same.overrides])


def _same_plan(plan: Plan, words: Sequence[str], folder: Path | None) -> Plan | None:
    """The plan of fewer words if it is the same; None if it is another, or none at all."""
    try:
        other = compose_plan(words, folder)
    except (MateError, HydraException):
        return None
    return (
        replace(other, overrides=list(words)) if (other.values(), other.names) == (plan.values(), plan.names) else None
    )


@dataclass(frozen=True)
class _Untyped:
    """A stage beside what it would be without any value that was typed: composed once, it shows what most words do.

    Args:
        values: what it is trained with, by dotted key, as far as its words alone decide it.
        others: the same of its choices alone, interpolations as they stand.
    """

    name: str
    words: Sequence[str]
    values: Mapping[str, Any]
    others: Mapping[str, Any]

    def is_changed_by(self, word: Word) -> bool:
        """Whether the stage would certainly be another without this word; False where only composing it tells."""
        stage, key = of_stage(word.key)
        if stage not in ("", f"stages.{self.name}.") or str(replace(word, key=key)) not in self.words:
            return False
        if not _is_value(word) or sum(_touch(key, Word.parse(text).key) for text in self.words) > 1:
            return False
        if key not in self.values or key not in self.others or "${" in str(self.others[key]):
            return False
        return bool(self.values[key] != self.others[key])


def _untyped(plan: Plan, folder: Path | None) -> list[_Untyped]:
    """The stages that are trained; nothing is known where choices alone make no configuration."""
    found = []
    with composer([], folder) as hydra, suppress(HydraException):
        for stage in plan.stages:
            if stage.run:
                continue
            choices = [text for text in stage.overrides if not _is_value(Word.parse(text))]
            others = flat_keys(cast(dict[str, Any], OmegaConf.to_container(hydra.compose(choices).config)))
            values = flat_keys(stage.config.model_dump())
            if stage is not plan.stages[0]:  # the weights that it begins with decide some of these
                values = {key: value for key, value in values.items() if not key.startswith(("init.", "model."))}
            found.append(_Untyped(stage.name, stage.overrides, values, others))
    return found


def _is_value(word: Word) -> bool:
    """Whether it sets a key that is there."""
    return not word.sign and not word.group and word.value is not None


def _touch(key: str, other: str) -> bool:
    """Whether one of the keys is the other, or below it."""
    return f"{key}.".startswith(f"{other}.") or f"{other}.".startswith(f"{key}.")


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
