"""Start the processes that train one run together, or find those that Slurm or torchrun has started."""

import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from mate_cli.errors import ConfigError, MateError
from mate_cli.runs import ranks
from mate_cli.runs.configuration import Hardware
from mate_cli.runs.liveness import is_halted

ARRIVAL, TIMEOUT = timedelta(minutes=10), timedelta(hours=2)
"""A process waits so long for the others to start, and to answer: the first may have a large dataset to encode."""
ENDING, HANGING, HALTED = 20.0, 30.0, 5.0
"""Seconds that other processes get to end after the first, that the first gets to notice the end of another, and that
one which is halted gets to go on when the run is to end."""
INTERRUPTED = 130
"""Exit code of a process that was asked to stop."""
HERE = "127.0.0.1"


Child = subprocess.Popen[bytes]


@contextmanager
def together(hardware: Hardware) -> Iterator[None]:
    """Be one of the `devices` x `nodes` processes of a run; the others are started unless someone else has.

    All but the first are silent, and end with it.

    Raises:
        ConfigError: the machine has not so many devices, or the processes that were started are too many or too few.
        RunError: another process has failed.
    """
    size = hardware.devices * hardware.nodes
    check_devices(hardware)
    place = started(os.environ)
    check_started(size, place, hardware.nodes)
    if size == 1 and hardware.strategy != "fsdp":
        yield
        return
    with _environment(), warnings.catch_warnings():
        store, children = (_join(place), []) if place else _start(size)
        if not hardware.threads:
            torch.set_num_threads(max(1, torch.get_num_threads() // hardware.devices))
        with (
            ranks.speaking(store, hardware.devices),
            _watching(children) if os.environ["RANK"] == "0" else _following(),
        ):
            _connect(hardware.accelerator, store)
            yield
            dist.barrier()
            dist.destroy_process_group()


def check_devices(hardware: Hardware) -> None:
    """Refuse more GPUs than there are, and what FSDP2 cannot do.

    Raises:
        ConfigError: with what there is.
    """
    if hardware.strategy == "fsdp" and hardware.precision == "16-mixed":
        raise ConfigError("fsdp has no scaling of losses", where="hardware.precision", remedy="Use bf16-mixed, or ddp")
    if hardware.devices == 1:
        return
    if hardware.accelerator == "mps":
        raise ConfigError("there is one device of this kind", where="hardware.devices", remedy="Use 1")
    if hardware.accelerator in ("gpu", "auto") and (seen := torch.cuda.device_count()) < hardware.devices:
        remedy = f"Set hardware.devices={seen}" if seen else "Use hardware.accelerator=cpu"
        raise ConfigError(
            f"torch sees {seen} GPUs here, fewer than {hardware.devices}", where="hardware.devices", remedy=remedy
        )


def started(environment: Mapping[str, str]) -> dict[str, str]:
    """Which process this is, in the variables of torchrun; empty unless torchrun, Slurm or this module started it."""
    if {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= set(environment):
        names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
        return {
            **{name: environment[name] for name in names},
            "NODE_RANK": environment.get("GROUP_RANK", environment.get("NODE_RANK", "0")),
        }
    if int(environment.get("SLURM_STEP_NUM_TASKS", "1")) == 1:  # set by srun alone, not in a batch script
        return {}
    nodes = environment.get("SLURM_STEP_NODELIST", environment.get("SLURM_NODELIST", HERE))
    # Every step of every job gets a port of its own, which all its processes can work out.
    port = 15000 + (7 * int(environment.get("SLURM_JOB_ID", "0")) + int(environment.get("SLURM_STEP_ID", "0"))) % 20000
    return {
        "RANK": environment["SLURM_PROCID"],
        "LOCAL_RANK": environment["SLURM_LOCALID"],
        "NODE_RANK": environment["SLURM_NODEID"],
        "WORLD_SIZE": environment["SLURM_STEP_NUM_TASKS"],
        "MASTER_ADDR": environment.get("MASTER_ADDR", SLURMEnvironment.resolve_root_node_address(nodes)),
        "MASTER_PORT": environment.get("MASTER_PORT", str(port)),
    }


def check_started(size: int, place: Mapping[str, str], nodes: int) -> None:
    """Refuse to wait for processes that nobody has started.

    Raises:
        ConfigError: naming both numbers.
    """
    if place and int(place["WORLD_SIZE"]) != size:
        raise ConfigError(
            f"{place['WORLD_SIZE']} processes were started, but hardware.devices x hardware.nodes is {size}",
            where="hardware",
            remedy="Give srun (--nodes, --ntasks-per-node) or torchrun (--nnodes, --nproc-per-node) the same numbers",
        )
    if nodes > 1 and not place:
        raise ConfigError(
            f"nobody has started processes on {nodes} nodes",
            where="hardware.nodes",
            remedy="Put srun in front, or use 1",
        )


def _join(place: Mapping[str, str]) -> Store:
    os.environ.update(place)
    store, _, _ = next(rendezvous("env://", timeout=ARRIVAL))
    store.set_timeout(TIMEOUT)
    return store


def _start(size: int) -> tuple[Store, list[Child]]:
    """Start this command again for every process but the first; `sys.argv` begins with a module file."""
    store = dist.TCPStore(HERE, 0, size, is_master=True, wait_for_workers=False, timeout=TIMEOUT)  # type: ignore[attr-defined]
    place = {"MASTER_ADDR": HERE, "MASTER_PORT": str(store.port), "WORLD_SIZE": str(size), "NODE_RANK": "0"}
    os.environ.update({**place, "RANK": "0", "LOCAL_RANK": "0"})
    children = []
    for rank in map(str, range(1, size)):
        own = {**os.environ, "RANK": rank, "LOCAL_RANK": rank}
        children.append(
            Child([sys.executable, *sys.argv], env=own, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        )
    return store, children


def _connect(accelerator: str, store: Store) -> None:
    cuda = accelerator != "cpu" and torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    # What processes tell each other beside gradients goes through the CPU, and waits for no kernel.
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if cuda else "gloo",
        store=PrefixStore("group", store),
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
        timeout=TIMEOUT,
    )


@contextmanager
def _watching(children: list[Child]) -> Iterator[None]:
    """Be the first process: end with all others, and do not wait for ever for one that has died."""
    over = threading.Event()
    if children:
        # A connection of its own, for this one is taken while it waits for a process.
        own = dist.TCPStore(HERE, int(os.environ["MASTER_PORT"]), is_master=False)  # type: ignore[attr-defined]
        threading.Thread(target=_watch, args=(children, own, over), daemon=True).start()
    try:
        with _ending_the_halted(children):
            yield
        _wait(children)
    except KeyboardInterrupt:
        _wait(children)
        raise
    finally:
        over.set()
        for child in children:
            child.kill()
            child.wait()


@contextmanager
def _ending_the_halted(children: list[Child]) -> Iterator[None]:
    """End processes that are halted when a signal asks the run to end: the first would wait for them for ever.

    Handlers of signals run when this process computes again, so that another thread is told of them by the system.
    """
    arrived, told = os.pipe()
    os.set_blocking(told, False)
    before = signal.set_wakeup_fd(told, warn_on_full_buffer=False)

    def end() -> None:
        while os.read(arrived, 1):
            time.sleep(HALTED)
            for child in children:
                if child.poll() is None and is_halted(child.pid):
                    child.kill()

    threading.Thread(target=end, daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(told)


def _wait(children: list[Child]) -> None:
    until = time.monotonic() + ENDING
    for child in children:
        with suppress(subprocess.TimeoutExpired):
            child.wait(max(0.0, until - time.monotonic()))


def _watch(children: list[Child], store: Store, over: threading.Event) -> None:
    """Tell the main thread of a process that died, and end this one when it hangs all the same."""
    died: float | None = None
    while not over.wait(0.2):
        codes = [child.poll() for child in children]
        lost = next((rank for rank, code in enumerate(codes, 1) if code not in (None, 0, INTERRUPTED)), None)
        if lost is None:
            continue
        if died is None:
            died, reason = time.monotonic(), f"process {lost} of {len(codes) + 1} {ending(codes[lost - 1])}"
            if not store.check([ranks.FAILED]):
                store.set(ranks.FAILED, reason)
        if time.monotonic() - died > HANGING and not store.check([ranks.NOTICED]):
            print(f"error: {reason}. Go on with resume=last.", file=sys.stderr, flush=True)
            for child in children:
                child.kill()
            os._exit(MateError.exit_code)


def ending(code: int | None) -> str:
    """How a process ended, in words."""
    return f"was killed by {signal.Signals(-code).name}" if code and code < 0 else f"ended with exit code {code}"


@contextmanager
def _following() -> Iterator[None]:
    """Be one of the other processes: silent, and gone when the one that started it is."""
    threading.Thread(target=_outlive_no_parent, args=(os.getppid(),), daemon=True).start()
    warnings.simplefilter("ignore")
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        try:
            yield
        except (KeyboardInterrupt, SystemExit):
            raise
        except MateError as error:
            ranks.tell_failure(str(error))
            raise SystemExit(error.exit_code) from None
        except BaseException as error:
            ranks.tell_failure(f"{type(error).__name__}: {error}")
            raise


def _outlive_no_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


@contextmanager
def _environment() -> Iterator[None]:
    """Leave the variables of this process as they were."""
    saved = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(saved)
