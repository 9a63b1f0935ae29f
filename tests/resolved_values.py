"""Records of the resolved configurations of every experiment, scale and sweep."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml
from configurations import sweep_jobs

from mate_cli.cli.config.resolve import resolve
from mate_cli.cli.config_dir import config_dir
from mate_cli.pipelines.run_spec import MACHINE, RunSpec
from mate_cli.runs.identity import configuration_name, flat_keys

FOLDER = Path(__file__).parent / "cli" / "resolved"
SCALES = ("paper", "minilm", "small")
ABSENT, AS_BASE = "(no such key)", "(as in the base)"
"""Placeholders: in a record for a key that only the base has, and in a difference for a value that is not recorded."""
Record = dict[str, Any]


def experiments() -> list[str]:
    """Return the names of all experiments."""
    return sorted(file.stem for file in (config_dir() / "experiment").glob("*.yaml"))


def sweeps() -> list[str]:
    """Return the names of all sweeps."""
    return sorted(file.stem for file in (config_dir() / "sweep").glob("*.yaml"))


def defaults_record() -> Record:
    """Return the default configuration of `mate train`, by dotted key."""
    return _values(_resolve([]))


def experiment_record(experiment: str, scale: str) -> Record:
    """Return the names of an experiment, and the values that differ from a base.

    At scale `paper`, the base is the default configuration, and the experiment of the stage for values of a stage. At
    other scales, the base is scale `paper`.
    """
    spec = _resolve([f"experiment={experiment}", f"scale={scale}"])
    return _record(spec, _parts(spec) if scale == "paper" else _paper_values(experiment))


def sweep_record(sweep: str) -> Record:
    """Return the configurations of a sweep's jobs, by their name in a comparison.

    Each contains its seeds and the values that differ from its experiment. Jobs that need finished runs are recorded
    by their overrides.
    """
    found: Record = {}
    for seeds, words in _repeats(sweep_jobs(config_dir() / "sweep" / f"{sweep}.yaml")):
        if any(".run=" in word for word in words):
            found[" ".join(words)] = {"seeds": " ".join(seeds)}
            continue
        spec = _resolve(words)
        group = configuration_name(spec.names.experiment, spec.settings)
        found[" ".join(words) if group in found else group] = {
            "seeds": " ".join(seeds),
            **_record(spec, _paper_values(spec.names.experiment)),
        }
    return found


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return a line with path and both values for each entry that differs."""
    before, after = _flat(old), _flat(new)
    return [
        f"{' > '.join(path)}: {before.get(path, AS_BASE)!r} has become {after.get(path, AS_BASE)!r}"
        for path in dict.fromkeys([*before, *after])
        if path not in before or path not in after or before[path] != after[path]
    ]


def files_record() -> Record:
    """Return a digest of every configuration file, so that `make test` detects changes."""
    values = {file: yaml.safe_load(file.read_text("utf-8")) for file in sorted(config_dir().rglob("*.yaml"))}
    return {
        file.relative_to(config_dir()).as_posix(): hashlib.sha256(json.dumps(value).encode()).hexdigest()[:12]
        for file, value in values.items()
    }


def read_record(name: str) -> Record:
    """Read a record file by its name."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def write_records() -> None:
    """Rewrite all record files."""
    records = {
        "defaults": defaults_record(),
        "files": files_record(),
        **{scale: {name: experiment_record(name, scale) for name in experiments()} for scale in SCALES},
        "sweeps": {name: sweep_record(name) for name in sweeps()},
    }
    for name, record in records.items():
        text = json.dumps(record, indent=1, ensure_ascii=False)
        (FOLDER / f"{name}.json").write_text(f"{text}\n", encoding="utf-8")


def _values(spec: RunSpec) -> Record:
    return flat_keys(json.loads(json.dumps(spec.values(), default=str)))


def _resolve(words: Sequence[str]) -> RunSpec:
    """Resolve overrides without the folders of environment variables."""
    plain = {name: value for name, value in os.environ.items() if name not in ("MATE_CACHE", "MATE_DATA")}
    with patch.dict(os.environ, plain, clear=True):
        return resolve(words)


@cache
def _paper_values(experiment: str) -> Record:
    return _values(_resolve([f"experiment={experiment}"]))


def _parts(spec: RunSpec) -> Record:
    """Return the base values of a run: experiments of its stages, or the defaults."""
    defaults = defaults_record()
    if not spec.upstream_stages:
        return defaults
    machine = {key: value for key, value in defaults.items() if key.partition(".")[0] in MACHINE}
    own = machine if spec.system else _paper_values(spec.last.names.experiment)
    stages = {stage.name: _paper_values(stage.names.experiment) for stage in spec.upstream_stages}
    return own | {f"stages.{name}.{key}": value for name, values in stages.items() for key, value in values.items()}


def _record(spec: RunSpec, base: Record) -> Record:
    """Return the names of a run, the values that differ from a base, and missing keys."""
    values = _values(spec)
    changed = {key: value for key, value in values.items() if key not in base or value != base[key]}
    return {
        "names": " ".join(asdict(spec.names).values()),
        **changed,
        **{key: ABSENT for key in base if key not in values},
    }


def _repeats(jobs: Sequence[Sequence[str]]) -> Iterator[tuple[list[str], list[str]]]:
    """Group jobs that only differ in their seed. Yield seeds and other overrides."""
    found: dict[tuple[str, ...], list[str]] = {}
    for job in jobs:
        seeds = [word.removeprefix("seed=") for word in job if word.startswith("seed=")]
        found.setdefault(tuple(word for word in job if not word.startswith("seed=")), []).extend(seeds)
    for words, seeds in found.items():
        yield seeds, [*words]


def _flat(record: object, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    if not isinstance(record, Mapping):
        return {path: record}
    return {place: value for key, part in record.items() for place, value in _flat(part, (*path, key)).items()}
