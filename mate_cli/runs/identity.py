"""Run identity: the settings that distinguish runs.

Used for run names, W&B groups, table rows, `resume=missing` and `mate diff`. The identity consists of the resolved
values, except values that cannot change a result, and of hashes of the user-defined code.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import accumulate, chain
from operator import methodcaller
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

import mate_cli
from mate_cli.files.safe_load import to_json
from mate_cli.files.targets import find_beside

RESULT_NEUTRAL_KEYS = (
    *("resume", "experiment", "paths.", "hardware.", "logger.", "hydra.", "name", "run", "deterministic"),
    *("origin.", "data.download", "trainer.log_every", "trainer.checkpoint_every", "trainer.options.profiler."),
)
"""Keys that cannot change a result. A final dot includes all keys below."""
PLACES = ("data.root", "data.datasets")
"""Keys of the data folders, which may have moved since a run was trained."""
FOLD = "data.dev_fold"
"""Key of the dev fold of a cross-validation run."""
SEED_REPEAT_KEYS = ("seed", FOLD, *PLACES, *RESULT_NEUTRAL_KEYS)
"""Keys that may differ between repetitions of an experiment."""
ABSENT = "absent"
"""Placeholder for the value of a missing setting."""
CODE = "code"
"""Key of the user-defined code in the settings."""
MAX_NAME = 120
Difference = tuple[str, Any, Any]
"""A dotted key and its values in two configurations. None for a configuration without the key."""


@dataclass(frozen=True)
class Names:
    """Names of the selected config group options that identify a run, such as its model."""

    experiment: str
    dataset: str
    model: str
    attention: str
    init: str
    task: str

    @classmethod
    def of(cls, choices: Mapping[str, str | None]) -> Names:
        """Create the names from a mapping of config groups to their selected options.

        If no experiment is selected, the name of the experiment is <data>_<model>.
        """
        experiment = choices.get("experiment") or f"{choices['data']}_{choices['model']}"
        groups = {"dataset": "data", "model": "model", "attention": "attention", "init": "init", "task": "task"}
        return cls(experiment, **{name: str(choices[group]) for name, group in groups.items()})

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Names:
        """Create the names from the values of a record, ignoring other keys.

        The section `origin` of config.yaml contains the names too.
        """
        return cls(**{name: values[name] for name in cls.__dataclass_fields__})


def flat_keys(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten a nested mapping to its leaves by dotted key, such as `optimizer.lr`.

    A list is a leaf.
    """
    leaves: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        leaves |= flat_keys(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return leaves


def find_value(tree: Any, key: str) -> Any:  # noqa: ANN401 - any value
    """Return the value at a dotted key of a nested mapping, or None if the key is missing."""
    for part in key.split("."):
        tree = tree.get(part) if isinstance(tree, Mapping) else None
    return tree


def value_text(value: object) -> str:
    """Format a configuration value as on the command line, such as `null` for None.

    Equal numbers give equal text: 1e-3 and 0.001 both give 0.001.
    """
    if isinstance(value, float):
        return f"{value:.12g}"
    if value is None or isinstance(value, bool):
        return str(value).lower().replace("none", "null")
    return str(value).replace("'", "").replace(" ", "") if isinstance(value, (list, dict)) else str(value)


def split_stage_prefix(key: str) -> tuple[str, str]:
    """Split a dotted key into its stage prefix, such as `stages.NAME.`, and the remaining key.

    `stages.NAME.optimizer.lr` gives (`stages.NAME.`, `optimizer.lr`). The prefix is empty for a key of the run itself.
    """
    parts = key.split(".", 2)
    return (f"stages.{parts[1]}.", parts[2]) if parts[0] == "stages" and len(parts) == 3 else ("", key)


@cache
def is_ignored(key: str, ignored: tuple[str, ...] = SEED_REPEAT_KEYS) -> bool:
    """Return whether a key, or a section of the key such as `trainer.`, is in `ignored`.

    Keys ignored for a run are ignored for its stages too, except `stages.NAME.run`.
    """
    stage, setting = split_stage_prefix(key)
    if stage and setting == "run":
        return key in ignored
    sections = accumulate(re.findall(r"[^.]*\.", f"{setting}."))  # `trainer.`, `trainer.options.`
    return not {key, setting, *sections}.isdisjoint(ignored)


def filter_values(leaves: Mapping[str, Any], ignored: tuple[str, ...] = SEED_REPEAT_KEYS) -> dict[str, Any]:
    """Return the configuration values, by dotted key, whose keys are not ignored.

    See `is_ignored` for the ignored keys.
    """
    return {key: value for key, value in leaves.items() if not is_ignored(key, ignored)}


def iter_settings(settings: Iterable[str], ignored: tuple[str, ...] = SEED_REPEAT_KEYS) -> Iterator[tuple[str, str]]:
    """Yield (key, value) of each setting `key=value` whose key is not ignored."""
    for setting in settings:
        key, _, value = setting.partition("=")
        if not is_ignored(key := key.lstrip("+~"), ignored):
            yield key, value


def differing_keys(several: Sequence[Mapping[str, Any]]) -> list[str]:
    """List the keys whose values differ between mappings, in order of appearance.

    A key that some mappings lack differs too.
    """
    keys = dict.fromkeys(chain.from_iterable(several))
    values = {key: [*map(methodcaller("get", key, ABSENT), several)] for key in keys}
    return [key for key, entries in values.items() if entries.count(entries[0]) < len(entries)]


def differences(
    before: Mapping[str, Any], now: Mapping[str, Any], ignored: tuple[str, ...] = RESULT_NEUTRAL_KEYS
) -> Iterator[Difference]:
    """Yield each key whose values differ between two configurations, with both values.

    Args:
        before: values of the first configuration, by dotted key.
        now: values of the second configuration, by dotted key.
        ignored: keys that are not compared, see `is_ignored`.
    """
    for key in differing_keys([before, now]):
        if not is_ignored(key, ignored):
            yield key, before.get(key), now.get(key)


def digest_run(config: Mapping[str, Any], code: Mapping[str, str]) -> str:
    """Return a digest of the configuration and code that determine the result of a run.

    The digest depends on the seed. Runs with equal digests are repetitions of the same computation.

    Args:
        config: resolved configuration.
        code: hash of each user-defined source file of the run.
    """
    return digest({**format_identity_values(config), CODE: digest(code)})


def format_identity_values(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the configuration values that can change a result, as text by dotted key.

    Null values are omitted.
    """
    values = filter_values(flat_keys(config), RESULT_NEUTRAL_KEYS)
    return {key: value_text(value) for key, value in values.items() if value is not None}


def digest(values: Mapping[str, Any], length: int = 16) -> str:
    """Return a hash of a mapping as `length` hexadecimal digits, or "" for an empty mapping.

    The hash does not depend on the order of the keys.
    """
    text = to_json(dict(sorted(values.items())))
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:length] if values else ""


def code_setting(code: Mapping[str, Any]) -> list[str]:
    """Return the hash of user-defined code as a list of one setting, such as `code=1a2b3c`.

    The list is empty if the run uses no user-defined code.
    """
    return [f"{CODE}={mark}"] if (mark := digest(code, 6)) else []


def configuration_name(experiment: str, settings: Sequence[str]) -> str:
    """Return the name of a run without its seed, which all repetitions of the run share.

    Example: `hybridqa_mate · init=minilm · optimizer.lr=1e-4`.

    Config group options come first. Settings that may differ between repetitions are omitted. If the name has more than
    `MAX_NAME` characters, keys are shortened to their last part, settings that do not fit are omitted (settings of
    `data` are added last), and a hash is appended.
    """
    shown = [setting for setting in settings if any(iter_settings([setting]))]
    shown.sort(key=lambda setting: ("." in setting.partition("=")[0], setting))
    name = " · ".join([experiment, *shown])
    if len(name) <= MAX_NAME:
        return name
    mark = hashlib.sha256(name.encode()).hexdigest()[:6]
    name, room = experiment[: MAX_NAME // 2], MAX_NAME - len(mark) - 3
    # File names of data are the longest values and the least informative.
    for key, value in sorted(iter_settings(shown), key=lambda setting: setting[0].startswith("data.")):
        text = f" · {key.rpartition('.')[2]}={value}"
        name += text if len(name) + len(text) <= room else ""
    return f"{name} … {mark}"


CONF = "conf"
"""Folder of configuration files in the working directory, and first part of their names in recorded hashes."""


def hash_modules(targets: Iterable[str]) -> dict[str, str]:
    """Hash the source files of user-defined classes and functions.

    The files that these modules import from the same folder are hashed too.

    Args:
        targets: dotted names of classes and functions. Names in mate and in installed packages are skipped.

    Returns:
        The hash of each file, by its path relative to the folder from which it is imported.
    """
    hashes: dict[str, str] = {}
    for target in targets:
        if root := _find_root(target.partition(".")[0]):
            waiting = [target]
            while waiting:
                for file in _module_files(root, waiting.pop()):
                    name = file.relative_to(root).as_posix()
                    if name not in hashes:
                        hashes[name] = hash_file(file)
                        waiting += _imported_names(root, file)
    return dict(sorted(hashes.items()))


def hash_file(file: Path) -> str:
    """Return a hash of the content of a file.

    Comments of YAML files do not affect the hash.
    """
    content = file.read_bytes()
    if file.suffix == ".yaml":
        # A file that cannot be parsed is hashed as bytes.
        with suppress(Exception):
            content = repr(yaml.load(content, getattr(yaml, "CSafeLoader", yaml.SafeLoader))).encode()
    return hashlib.sha256(content).hexdigest()[:12]


def hash_package() -> str:
    """Return a hash of the source files of mate_cli."""
    files = sorted(Path(mate_cli.__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def warn_changed(recorded: Mapping[str, str], modules: Mapping[str, str], run: Path) -> None:
    """Warn if source or configuration files of a run have changed since it started.

    Files that are missing now are not compared.

    Args:
        recorded: hash of each file when the run started, by name.
        modules: current hash of each user-defined module, by name.
        run: run folder, for the message.
    """
    paths = {name: Path(name) for name in recorded if name.startswith(f"{CONF}/") and ".." not in name}
    current = {**modules, **{name: hash_file(file) for name, file in paths.items() if file.is_file()}}
    if changed := [name for name, mark in recorded.items() if current.get(name, mark) != mark]:
        have = "have" if len(changed) > 1 else "has"
        message = f"{', '.join(changed)} {have} changed since {run} started, which was trained with the old version"
        warnings.warn(message, stacklevel=2)


def _find_root(package: str) -> Path | None:
    """Return the folder from which a user-defined module is imported.

    Return None for installed modules.
    """
    if package == "mate_cli" or package in sys.stdlib_module_names or not package.isidentifier():
        return None
    find_beside([package])
    with suppress(ValueError):
        spec = find_spec(package)
        locations = [*(spec.submodule_search_locations or []), spec.origin] if spec else []
        root = Path(locations[0]).resolve().parent if locations and locations[0] else None
        return root if root and not {"site-packages", "dist-packages"} & {*root.parts} else None
    return None


def _module_files(root: Path, name: str) -> Iterator[Path]:
    """Yield the existing files of a dotted name: its module and the parent packages."""
    folder = root
    for part in name.split("."):
        yield from (file for file in (folder / f"{part}.py", folder / part / "__init__.py") if file.is_file())
        folder = folder / part


def _imported_names(root: Path, file: Path) -> Iterator[str]:
    """Yield the dotted names that a module imports, or nothing if the module cannot be parsed."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return
    package = file.relative_to(root).parent.parts
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            around = package[: len(package) - node.level + 1] if node.level else ()
            module = [*around, *([node.module] if node.module else [])]
            yield from (".".join([*module, alias.name]) for alias in node.names)
