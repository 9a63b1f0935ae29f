"""Folders of YAML files: in the wheel, beside a clone, and the user's `./conf`; their content, without Hydra."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any

from mate_cli.errors import ConfigError

PACKAGE = Path(__file__).resolve().parents[1]
_typed: list[Path] = []
"""The folder of `--config-dir`, which takes the place of `./conf`."""


def config_dir() -> Path:
    """Return the folder of our configuration: inside an installed package, beside it in a clone.

    Raises:
        FileNotFoundError: the installation holds no configuration.
    """
    for folder in (PACKAGE / "conf", PACKAGE.parent / "conf"):
        if (folder / "train.yaml").is_file():
            return folder
    raise FileNotFoundError(f"no conf/train.yaml in {PACKAGE} or {PACKAGE.parent}: install mate again")


@contextmanager
def typed_config_dir(folder: str | None) -> Iterator[None]:
    """Let the folder of `--config-dir` take the place of `./conf`.

    Raises:
        ConfigError: there is no such folder.
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
    """Return the user's own folder, `./conf` or that of `--config-dir`; its files win over shipped ones."""
    try:
        folder = _typed[-1] if _typed else Path.cwd() / "conf"
    except FileNotFoundError:  # the working folder was deleted
        return None
    return folder if folder.is_dir() and folder.resolve() != config_dir().resolve() else None


def config_folders() -> list[Path]:
    """Return the folders in which a file is looked for: the user's, if there is one, and then ours."""
    return [folder for folder in (user_config_dir(), config_dir()) if folder]


def find_config(name: str) -> Path | None:
    """Find the file of a choice, such as `model/mate`; None where there is none."""
    places = (folder / f"{name}.yaml" for folder in config_folders())
    return next((place for place in places if place.is_file()), None)


def choices(group: str) -> list[str]:
    """Return the names that a group can be set to, of our files and the user's."""
    return sorted({path.stem for folder in config_folders() for path in (folder / group).glob("*.yaml")})


def read_config(path: Path | None) -> dict[str, Any]:
    """Read a file by itself; nothing where it cannot be read."""
    import yaml  # type: ignore[import-untyped]

    try:
        text = path.read_text(encoding="utf-8") if path else ""
        content = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except Exception:  # Hydra names the error when it composes the file
        return {}
    return content if isinstance(content, dict) else {}


def defaults_of(content: Mapping[str, Any]) -> list[Any]:
    """Return the defaults of a file; none where they are no list, which Hydra refuses."""
    defaults = content.get("defaults")
    return defaults if isinstance(defaults, list) else []


def read_extended(command: str) -> Iterator[dict[str, Any]]:
    """Yield the primary configuration of a command, after those that it extends."""
    content = read_config(find_config(command))
    for entry in defaults_of(content):
        if isinstance(entry, str) and entry not in ("_self_", "program"):
            yield from read_extended(entry)
    yield content


def group_choices(content: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the groups in the defaults of a file, with its choices."""
    for entry in defaults_of(content):
        if isinstance(entry, dict):
            yield from ((str(name), value) for name, value in entry.items())


def list_defaults(config_name: str) -> list[tuple[str, str | None]]:
    """Return groups and what they choose by themselves, also of an extended configuration; no optional files."""
    pairs = [pair for content in read_extended(config_name) for pair in group_choices(content)]
    return [(group, default) for group, default in pairs if not group.startswith("optional ")]


def override_choices(group: str, name: str) -> dict[str, Any]:
    """Return the groups that a file overrides, and those that it extends, with what they choose."""
    overrides: dict[str, Any] = {}
    for content in extended_choice(group, name):
        overrides |= {key.removeprefix("override /"): value for key, value in group_choices(content)}
    return overrides


def extended_choice(group: str, name: str) -> Iterator[dict[str, Any]]:
    """Yield the content of a choice's file after those of its group that it extends."""
    yield from map(read_config, extended_files(group, name))


def read_choice(group: str, name: str) -> dict[str, Any]:
    """Return the content of a choice's file over those of its group that it extends, without their defaults."""
    content: dict[str, Any] = {}
    for part in extended_choice(group, name):
        content |= part
    return {key: value for key, value in content.items() if key != "defaults"}


def extended_files(group: str, name: str) -> Iterator[Path]:
    """Yield a choice's file after those of its group that it extends."""
    file = find_config(f"{group}/{name}")
    for entry in defaults_of(read_config(file)):
        if isinstance(entry, str) and entry != "_self_":
            outer, _, inner = entry.removeprefix("/").rpartition("/")
            yield from extended_files(outer or group, inner)
    if file:
        yield file


def user_experiment_files(name: str) -> list[Path]:
    """Return the files of the user's own that an experiment of theirs is made of; the last one is its own."""
    folder, files = user_config_dir(), [*extended_files("experiment", name)]
    return [*takewhile(lambda file: folder and file.is_relative_to(folder), reversed(files))][::-1]


def top_keys(command: str) -> dict[str, Any]:
    """Return the keys at the top of a command's configuration, and of those that it extends, that are no groups."""
    return {
        key: value
        for content in read_extended(command)
        for key, value in content.items()
        if key not in ("defaults", "hydra")
    }
