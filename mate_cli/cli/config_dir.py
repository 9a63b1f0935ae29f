"""Where the YAML files are: in the wheel, beside a clone, and in the user's own `./conf`."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def config_dir() -> Path:
    """Return the folder of our configuration: inside an installed package, beside it in a clone.

    Raises:
        FileNotFoundError: the installation holds no configuration.
    """
    for folder in (PACKAGE / "conf", PACKAGE.parent / "conf"):
        if (folder / "train.yaml").is_file():
            return folder
    raise FileNotFoundError(f"no conf/train.yaml in {PACKAGE} or {PACKAGE.parent}: install mate-cli again")


def user_config_dir() -> Path | None:
    """Return `./conf` when it is the user's own; its experiments and groups are added to ours."""
    folder = Path.cwd() / "conf"
    return folder if folder.is_dir() and folder.resolve() != config_dir().resolve() else None
