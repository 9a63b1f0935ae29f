"""Search path of configuration files, and reading them without Hydra.

The search path is the user's folder, `./conf` or `--config-dir`, followed by mate's `conf/`.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

from mate_cli.errors import ConfigError

PACKAGE = Path(__file__).resolve().parents[1]
_typed: list[Path] = []
"""Stack of the folders passed as `--config-dir`. The last one replaces `./conf`."""


@cache
def config_dir() -> Path:
    """Return mate's `conf/`, which is in an installed package and next to it in a clone.

    Raises:
        FileNotFoundError: the installation contains no configuration.
    """
    for folder in (PACKAGE / "conf", PACKAGE.parent / "conf"):
        if (folder / "train.yaml").is_file():
            return folder
    raise FileNotFoundError(f"no conf/train.yaml in {PACKAGE} or {PACKAGE.parent}: install mate again")


@contextmanager
def typed_config_dir(folder: str | None) -> Iterator[None]:
    """Replace `./conf` by the folder of `--config-dir` inside the context, unless it is None.

    Raises:
        ConfigError: the folder does not exist.
    """
    if folder is None:
        yield
        return
    if not Path(folder).is_dir():
        raise ConfigError("no such folder", where=f"--config-dir {folder}")
    _typed.append(Path(folder).absolute())
    try:
        yield
    finally:
        _typed.pop()


def user_config_dir() -> Path | None:
    """Return the user's configuration folder, or None if it does not exist.

    The folder is `./conf` unless `--config-dir` is set. Its files take precedence over mate's files.
    """
    try:
        folder = _typed[-1] if _typed else Path.cwd() / "conf"
    except FileNotFoundError:  # The working directory was deleted.
        return None
    return folder if folder.is_dir() and folder.resolve() != config_dir().resolve() else None


def config_folders() -> list[Path]:
    """Return the search path of configurations: the user's folder if it exists, then mate's."""
    folder = user_config_dir()
    return [folder, config_dir()] if folder else [config_dir()]


def find_config(name: str) -> Path | None:
    """Return the file of an option such as `model/mate`, or None if it does not exist."""
    files = [folder / f"{name}.yaml" for folder in config_folders()]
    return next(filter(Path.is_file, files), None)


def choices(group: str) -> list[str]:
    """Return the sorted options of a config group, from mate's and the user's files."""
    return sorted({path.stem for folder in config_folders() for path in (folder / group).glob("*.yaml")})


def read_config(path: Path | None) -> dict[str, Any]:
    """Read a YAML file without its defaults list applied. Return {} if it cannot be read."""
    import yaml  # type: ignore[import-untyped]

    try:
        text = path.read_text(encoding="utf-8") if path else ""
        content = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except Exception:  # Hydra reports the error when it composes the file.
        return {}
    return content if isinstance(content, dict) else {}


def defaults_of(content: Mapping[str, Any]) -> list[Any]:
    """Return the defaults list of a file, or [] if `defaults` is no list (an error in Hydra)."""
    defaults = content.get("defaults")
    return defaults if isinstance(defaults, list) else []


def read_extended(command: str) -> Iterator[dict[str, Any]]:
    """Yield a command's primary configuration, after the configurations that it extends."""
    content = read_config(find_config(command))
    for entry in defaults_of(content):
        if isinstance(entry, str) and entry not in ("_self_", "program"):
            yield from read_extended(entry)
    yield content


def group_choices(content: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return (config group, selected option) for each group in a file's defaults list."""
    groups = [entry for entry in defaults_of(content) if isinstance(entry, dict)]
    return [(str(name), option) for group in groups for name, option in group.items()]


def list_defaults(config_name: str) -> list[tuple[str, str | None]]:
    """Return each config group of a command with its default option.

    Configurations that the command extends are included. The default option is None if the group has none. Optional
    groups are excluded.
    """
    pairs = [pair for content in read_extended(config_name) for pair in group_choices(content)]
    return [(group, default) for group, default in pairs if not group.startswith("optional ")]


def override_choices(group: str, name: str) -> dict[str, Any]:
    """Return {config group: option} set in an option's file or in the files that it extends."""
    overrides: dict[str, Any] = {}
    for content in extended_choice(group, name):
        overrides |= {key.removeprefix("override /"): value for key, value in group_choices(content)}
    return overrides


def extended_choice(group: str, name: str) -> Iterator[dict[str, Any]]:
    """Yield the content of an option's file, after the content of the files that it extends."""
    yield from map(read_config, extended_files(group, name))


def read_choice(group: str, name: str) -> dict[str, Any]:
    """Return the content of an option's file merged over the files that it extends.

    Keys are merged at the top level only. `defaults` is removed.
    """
    content: dict[str, Any] = {}
    for part in extended_choice(group, name):
        content |= part
    return {key: value for key, value in content.items() if key != "defaults"}


def extended_files(group: str, name: str) -> Iterator[Path]:
    """Yield an option's file, after the files that it extends."""
    file = find_config(f"{group}/{name}")
    for entry in defaults_of(read_config(file)):
        if isinstance(entry, str) and entry != "_self_":
            outer, _, inner = entry.removeprefix("/").rpartition("/")
            yield from extended_files(outer or group, inner)
    if file:
        yield file


def user_experiment_files(name: str) -> list[Path]:
    """Return the user's files that make up a user-defined experiment, its own file last.

    The list starts after the last extended file that is not in the user's folder.
    """
    folder = user_config_dir()
    files = [*extended_files("experiment", name)] if folder else []
    return [*takewhile(lambda file: folder and file.is_relative_to(folder), reversed(files))][::-1]


def top_keys(command: str) -> dict[str, Any]:
    """Return the top-level values of a command's configuration, without config groups.

    Configurations that it extends are included.
    """
    return {
        key: value
        for content in read_extended(command)
        for key, value in content.items()
        if key not in ("defaults", "hydra")
    }
