"""Stages that several runs have in common: each is trained once, and who comes meanwhile waits for it."""

import time
from pathlib import Path

from mate_cli.pipelines.run_spec import Stage, is_finished
from mate_cli.runs import ranks
from mate_cli.runs.folders import find_same
from mate_cli.runs.identity import digest_run
from mate_cli.runs.lock import LockedError, acquire_lock
from mate_cli.runs.record import ReadOnlyFolder, RunFolder
from mate_cli.terminal.console import Console

POLL = 1.0
"""Seconds between two looks at a stage that another process trains."""


def shared_folder(stage: Stage, console: Console) -> RunFolder:
    """Find the folder of a shared stage, finished or locked by this process; wait while another one trains it.

    It is that of a run of the stage's experiment with the same values, whoever has begun it, else one that is named
    after them.

    Raises:
        RunError: it cannot be locked, or a run of the experiment is damaged.
    """
    folder = ranks.broadcast_from_rank_zero(lambda: _folder_of(stage))
    waited = False
    while not ranks.broadcast_from_rank_zero(lambda: _is_free(folder.path)):
        if not waited:
            console.print(f"waiting for {folder.path}, in training by another process", soft_wrap=True)
        waited = True
        time.sleep(POLL)
    return folder if ranks.is_rank_zero() else ReadOnlyFolder(folder.path)


def _folder_of(stage: Stage) -> RunFolder:
    outputs, values = Path(stage.config.paths.outputs), stage.config.model_dump()
    found = find_same(outputs, "train", stage.names.experiment, values, stage.code)
    return found or RunFolder(outputs / "train" / stage.names.experiment / digest_run(values, stage.code))


def _is_free(folder: Path) -> bool:
    """Say whether a run is finished, or locked by this process from now on."""
    if is_finished(folder):
        return True
    try:
        acquire_lock(folder)
    except LockedError:
        return False
    return True
