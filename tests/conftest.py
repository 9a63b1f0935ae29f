"""Shared setup of all tests.

Tests use no network, few threads, an empty cache and deterministic random examples. They are divided into two parts:
fast tests and tests marked `long`.
"""

import gc
import json
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["WANDB_MODE"] = "offline"
os.environ["HF_HUB_OFFLINE"] = "1"
# Whatever tests start runs this checkout, also where another one is installed.
os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
sys.path.insert(0, str(Path(__file__).parent))

import composed_once
import pytest
from hypothesis import HealthCheck, settings

from mate_cli.terminal import progress

progress.PLAIN_DELAY = 600.0  # on a busy machine, too, what a test prints is what its command says

# Started in the background or by nohup, a process ignores these, and so would all that the tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

os.fsync = lambda _: None  # no test ends in a power failure, and each waits for the disk some thirty times
gc.disable()  # until all tests are collected: nothing that is loaded before is garbage

settings.register_profile(
    "default", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=8
)
settings.register_profile("long", settings.get_profile("default"), max_examples=50)
settings.load_profile("default")

PARTS = pytest.StashKey[dict[str, int]]()
"""Number of tests that this session runs, and number of tests deselected for the other part."""


@pytest.fixture(scope="session")
def vocabulary():
    """The small vocabulary of the golden files of google-research/tapas."""
    from golden import tapas

    from mate_cli.tokenization.vocabulary import Vocabulary

    return Vocabulary(json.loads(tapas("g14_em_f1.json").read_text())["vocab"])


def pytest_configure(config: pytest.Config) -> None:
    """Create a cache shared by all processes of a session.

    Data are encoded, and kernels and modules compiled, once per session.
    """
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    config.stash[PARTS] = {}
    if not is_worker(config):
        os.environ["MATE_CACHE"] = tempfile.mkdtemp(prefix="mate-cache-")
    composed_once.install(Path(os.environ["MATE_CACHE"], "composed"))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the cache."""
    if not is_worker(config):
        shutil.rmtree(os.environ["MATE_CACHE"], ignore_errors=True)


def is_worker(config: pytest.Config) -> bool:
    """Return whether this process is a worker of pytest-xdist."""
    return hasattr(config, "workerinput")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all but every n-th case of tests marked `sampled(n)` as `long`.

    Tests marked `gpu` are skipped if there is no CUDA device.
    """
    cases = Counter[str]()
    for item in items:
        if marker := item.get_closest_marker("sampled"):
            test = item.nodeid.split("[")[0]
            if cases[test] % marker.args[0]:
                item.add_marker(pytest.mark.long)
            cases[test] += 1
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if not marked:
        return
    import torch

    if not torch.cuda.is_available():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Count the tests deselected for the other part."""
    if items:
        parts = items[0].config.stash[PARTS]
        parts["left"] = parts.get("left", 0) + len(items)
        parts["long"] = parts.get("long", 0) + sum(item.get_closest_marker("long") is not None for item in items)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Count the tests of this session, and freeze loaded modules for the garbage collector."""
    session.config.stash[PARTS]["here"] = len(session.items)
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send the test counts of a worker to the controller, which prints them."""
    if is_worker(session.config):
        session.config.workeroutput["parts"] = session.config.stash[PARTS]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    """Store the test counts of a worker. All workers have collected the same tests."""
    node.config.stash[PARTS].update(getattr(node, "workeroutput", {}).get("parts", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the numbers of tests in each part, so that deselected tests are noticed."""
    parts, examples = config.stash[PARTS], settings().max_examples
    if "left" in parts:
        here = f"{parts['here']} tests in this part, properties with {examples} examples"
        terminalreporter.write_line(f"{here}; {parts['left']} are left to the other, {parts['long']} of them long")
