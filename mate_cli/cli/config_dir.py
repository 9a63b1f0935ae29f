"""Locate and read the YAML configuration files without Hydra, which is slow to import.

Files are searched in the user's folder (`--config-dir`, by default `./conf`), then in mate's `conf/`. An option of a
config group is a file `GROUP/NAME.yaml`. An option extends another if its defaults list names it.
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
    """Return the path of mate's own configuration folder `conf/`.

    It is inside an installed package, and next to the package in a clone of the repository.

    Raises:
        FileNotFoundError: the installation contains no configuration.
    """
    for folder in (PACKAGE / "conf", PACKAGE.parent / "conf"):
        if (folder / "train.yaml").is_file():
            return folder
    raise FileNotFoundError(f"no conf/train.yaml in {PACKAGE} or {PACKAGE.parent}: install mate again")


@contextmanager
def typed_config_dir(folder: str | None) -> Iterator[None]:
    """Use the folder given by `--config-dir` instead of `./conf` inside the context.

    Args:
        folder: value of the flag. None to use `./conf`.

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
    """Return the folder of the user's configuration files, or None if it does not exist.

    The folder is `./conf` unless `--config-dir` is set. Its files take precedence over mate's files.
    """
    try:
        folder = _typed[-1] if _typed else Path.cwd() / "conf"
    except FileNotFoundError:  # The working directory was deleted.
        return None
    return folder if folder.is_dir() and folder.resolve() != config_dir().resolve() else None


def config_folders() -> list[Path]:
    """Return the existing configuration folders: the user's folder, then mate's `conf/`."""
    folder = user_config_dir()
    return [folder, config_dir()] if folder else [config_dir()]


def find_config(name: str) -> Path | None:
    """Return the path of a configuration file, or None if it is missing.

    Args:
        name: path relative to the configuration folder, without `.yaml`.
    """
    files = [folder / f"{name}.yaml" for folder in config_folders()]
    return next(filter(Path.is_file, files), None)


def list_options(group: str) -> list[str]:
    """Return the sorted option names of a config group from mate's and the user's YAML files."""
    return sorted({path.stem for folder in config_folders() for path in (folder / group).glob("*.yaml")})


def read_config(path: Path | None) -> dict[str, Any]:
    """Parse a configuration file without applying its defaults list.

    Return {} if `path` is None or the file cannot be parsed.
    """
    import yaml  # type: ignore[import-untyped]

    try:
        text = path.read_text(encoding="utf-8") if path else ""
        content = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except Exception:  # Hydra reports the error when it composes the file.
        return {}
    return content if isinstance(content, dict) else {}


def defaults_of(content: Mapping[str, Any]) -> list[Any]:
    """Return the Hydra defaults list in the content of a configuration file.

    Return [] if `defaults` is missing or no list.
    """
    defaults = content.get("defaults")
    return defaults if isinstance(defaults, list) else []


def group_choices(content: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the (config group, option) pairs in the Hydra defaults list of a file's content."""
    groups = [entry for entry in defaults_of(content) if isinstance(entry, dict)]
    return [(str(name), option) for group in groups for name, option in group.items()]


def list_defaults(config_name: str) -> list[tuple[str, str | None]]:
    """Return the (config group, default option) pairs of a command, without optional groups and overrides.

    The default option is None if the group has none. Configurations that the command extends are included.
    """
    pairs = [pair for content in load_extended_option("", config_name) for pair in group_choices(content)]
    return [(group, default) for group, default in pairs if " " not in group]


def override_choices(group: str, name: str) -> dict[str, Any]:
    """Return the options that the YAML files of an option select in other config groups.

    For example, an experiment selects a model and a dataset. Files that the option extends are included.
    """
    pairs = (pair for content in load_extended_option(group, name) for pair in group_choices(content))
    return {key.removeprefix("override /"): value for key, value in pairs}


def load_extended_option(group: str, name: str) -> Iterator[dict[str, Any]]:
    """Iterate over the contents of an option's YAML file and of all files that it extends.

    Extended files come first.
    """
    return map(read_config, extended_files(group, name))


def read_choice(group: str, name: str) -> dict[str, Any]:
    """Return the values of a config group option.

    Values of the files that the option extends are included. Keys are merged at the top level only. `defaults` and
    `hydra` are removed.
    """
    contents = load_extended_option(group, name)
    return {key: value for content in contents for key, value in content.items() if key not in ("defaults", "hydra")}


def extended_files(group: str, name: str) -> Iterator[Path]:
    """Yield the paths of all YAML files that an option extends, then of the option's own file.

    Args:
        group: config group. Empty for the primary configuration of a command.
        name: name of the option or command.
    """
    file = find_config(str(Path(group, name)))
    for entry in defaults_of(read_config(file)):
        if isinstance(entry, str) and entry not in ("_self_", "program"):  # `program` has settings of Hydra.
            parent, _, option = entry.removeprefix("/").rpartition("/")
            yield from extended_files(parent or group, option)
    if file:
        yield file


def user_experiment_files(name: str) -> list[Path]:
    """Return the user's YAML files that define a user-defined experiment.

    Extended files come first, the file of the experiment last. Files before the last file of the package are excluded.
    The list is empty for an experiment of the package.
    """
    if (folder := user_config_dir()) is None:
        return []
    files = reversed([*extended_files("experiment", name)])
    return [*takewhile(lambda file: file.is_relative_to(folder), files)][::-1]


def top_keys(command: str) -> dict[str, Any]:
    """Return the top-level keys of a command's configuration with their values.

    Config groups are excluded. Configurations that the command extends are included.
    """
    return read_choice("", command)
