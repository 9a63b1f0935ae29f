"""Runs of W&B: how each begins, online or offline."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mate_cli.errors import ConfigError
from mate_cli.files.atomic import check_inside

MAX_TAG = 64
WANDB_MODES = ("online", "offline", "disabled", "dryrun", "run", "shared")
SWEEP = "WANDB_SWEEP_ID"
OF_WANDB = {"WANDB_DATA_DIR": "data", "WANDB_CACHE_DIR": "cache"}
"""Folders in which W&B keeps files for a while, which are below the run's: that of the user may not be writable."""
OF_AGENT = (SWEEP, "WANDB_RUN_ID", "WANDB_SWEEP_PARAM_PATH")
"""Set by an agent of a W&B sweep for the run that it starts."""


def wandb_mode(options: Mapping[str, Any]) -> Any:  # noqa: ANN401 - the words of W&B
    """Return the mode of `logger.wandb`, unless the environment disables W&B.

    Raises:
        ConfigError: the environment names no mode.
    """
    told = os.environ.get("WANDB_MODE") or "offline"
    if told not in WANDB_MODES:
        raise ConfigError("is not a W&B mode", where=f"WANDB_MODE={told}", remedy=f"Use {', '.join(WANDB_MODES)}")
    return "disabled" if told == "disabled" else options["mode"]


def open_wandb(options: Mapping[str, Any], *, tags: Sequence[str], **arguments: Any) -> Any:  # noqa: ANN401
    """Start a W&B run; where it cannot be online, start it offline and say so once.

    What a run prints is sent line by line, as W&B's own capture would fill its log with progress bars.
    An agent of a sweep waits for figures on the server: what it starts is online.

    Args:
        options: those of `logger.wandb`.
        tags: beside those of the options; W&B takes neither empty nor long ones.
        **arguments: of `wandb.init`.
    """
    check_inside(Path(arguments["dir"]), Path(arguments["dir"], "wandb", "run"))
    import wandb

    mode, sweep = wandb_mode(options), os.environ.get(SWEEP)
    for name, part in OF_WANDB.items() if mode != "disabled" else ():
        place = Path(arguments["dir"], "wandb", part).absolute()
        place.mkdir(parents=True, exist_ok=True)
        os.environ[name] = str(place)
    settings = wandb.Settings(console="off", silent=True, init_timeout=options["timeout"])
    if sweep and mode == "offline":
        print(f"a run of the W&B sweep {sweep}: logging online")
        mode = "online"
    if mode != "online":
        os.environ["WANDB_ERROR_REPORTING"] = "false"  # or it would ask its server, offline too
    of_sweep = [f"sweep-{sweep}"] if sweep else []
    chosen = dict.fromkeys(tag[:MAX_TAG] for tag in (*tags, *of_sweep, *options["tags"]) if tag)
    arguments |= {"project": options["project"], "entity": options["entity"], "tags": list(chosen)}
    if mode == "online":
        try:
            # Asked first, because without a key wandb.init would wait for an answer at the terminal.
            if wandb.login(prompt=False, verify=False):
                # Offline nothing can be resumed: wandb sync joins the parts of one id.
                return wandb.init(mode=mode, settings=settings, resume="allow", **arguments)
            reason = "no key; get one with: wandb login"
        except wandb.errors.Error as error:
            reason = str(error)
            wandb.teardown()  # or its service says that the id of the run is in use
        print(f"warning: W&B cannot be reached ({reason}). Logging offline; later: wandb sync", file=sys.stderr)
        mode = "offline"
    return wandb.init(mode=mode, settings=settings, **arguments)


@contextmanager
def hide_agent() -> Iterator[None]:
    """Begin W&B runs that no agent of a sweep has asked for: the one it waits for is the whole, and no stage of it."""
    hidden = {name: os.environ.pop(name) for name in OF_AGENT if name in os.environ}
    try:
        yield
    finally:
        os.environ |= hidden
