"""Start of W&B runs, online or offline."""

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
"""Variables of W&B's temporary folders, placed in the run folder: the user's folders may not be writable."""
OF_AGENT = (SWEEP, "WANDB_RUN_ID", "WANDB_SWEEP_PARAM_PATH")
"""Variables that the agent of a W&B sweep sets for the run that it starts."""


def wandb_mode(options: Mapping[str, Any]) -> Any:  # noqa: ANN401 - values of W&B
    """Return the W&B mode of `options`, or "disabled" if WANDB_MODE=disabled.

    Args:
        options: options of `logger.wandb`.

    Raises:
        ConfigError: `WANDB_MODE` is not a mode of W&B.
    """
    mode = os.environ.get("WANDB_MODE") or "offline"
    if mode not in WANDB_MODES:
        raise ConfigError("is not a W&B mode", where=f"WANDB_MODE={mode}", remedy=f"Use {', '.join(WANDB_MODES)}")
    return "disabled" if mode == "disabled" else options["mode"]


def open_wandb(options: Mapping[str, Any], *, tags: Sequence[str], **arguments: Any) -> Any:  # noqa: ANN401
    """Start a W&B run, which logs offline if the W&B server cannot be reached.

    A warning is printed in this case. W&B's console capture is off, because it would
    fill the log with progress bars. Runs started by the agent of a W&B sweep log online instead of offline, because the
    agent waits for metrics on the server.

    Args:
        options: options of `logger.wandb`.
        tags: additional tags. Empty tags are dropped and long tags truncated, because W&B rejects them.
        **arguments: arguments of `wandb.init`.
    """
    check_inside(Path(arguments["dir"]), Path(arguments["dir"], "wandb", "run"))
    import wandb

    mode, sweep = wandb_mode(options), os.environ.get(SWEEP)
    for name, part in OF_WANDB.items() if mode != "disabled" else ():
        folder = Path(arguments["dir"], "wandb", part).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        os.environ[name] = str(folder)
    settings = wandb.Settings(console="off", silent=True, init_timeout=options["timeout"])
    if sweep and mode == "offline":
        print(f"a run of the W&B sweep {sweep}: logging online")
        mode = "online"
    if mode != "online":
        # W&B would otherwise contact its error reporting server, even offline.
        os.environ["WANDB_ERROR_REPORTING"] = "false"
    of_sweep = [f"sweep-{sweep}"] if sweep else []
    all_tags = dict.fromkeys(tag[:MAX_TAG] for tag in (*tags, *of_sweep, *options["tags"]) if tag)
    arguments |= {"project": options["project"], "entity": options["entity"], "tags": list(all_tags)}
    if mode == "online":
        try:
            # Check the login first: without an API key `wandb.init` would prompt in the terminal.
            if wandb.login(prompt=False, verify=False):
                # `resume` works only online. Offline parts with the same ID are joined by `wandb sync`.
                return wandb.init(mode=mode, settings=settings, resume="allow", **arguments)
            reason = "no key; get one with: wandb login"
        except wandb.errors.Error as error:
            reason = str(error)
            # Without the teardown, the W&B service reports that the ID of the run is in use.
            wandb.teardown()
        print(f"warning: W&B cannot be reached ({reason}). Logging offline; later: wandb sync", file=sys.stderr)
        mode = "offline"
    return wandb.init(mode=mode, settings=settings, **arguments)


@contextmanager
def detach_sweep_agent() -> Iterator[None]:
    """Remove the environment variables of a W&B sweep agent inside the context.

    Stages of a run are trained in this context, because the agent waits for the complete run, not for its stages.
    """
    hidden = {name: os.environ.pop(name) for name in OF_AGENT if name in os.environ}
    try:
        yield
    finally:
        os.environ |= hidden
