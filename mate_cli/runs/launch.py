"""Distributed training of a run.

On one machine, mate itself starts the processes with torch. On several machines, Slurm or torchrun starts them.
"""

import logging
import os
import re
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException, SubprocessContext
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.rendezvous import rendezvous

from mate_cli import errors
from mate_cli.errors import ConfigError, MateError, RunError
from mate_cli.runs import ranks
from mate_cli.runs.configuration import Hardware
from mate_cli.runs.lock import LAUNCHER, delegate_lock
from mate_cli.runs.ranks import PER_CORE, find_accelerator, missing_gpu_remedy
from mate_cli.runs.record import STOPPED, RunFolder

RENDEZVOUS_TIMEOUT = timedelta(minutes=5)
"""Maximum time that a rank waits for all ranks to start."""
TIMEOUT = timedelta(hours=2)
"""Timeout of collective operations, which is long because rank 0 may first encode a large dataset."""
FAILURE_GRACE_SECONDS, TERMINATE_SECONDS, STOP_SECONDS = 15.0, 10, 120
"""Grace periods in seconds: after another rank failed, after SIGTERM, and to save a checkpoint after the user or the
scheduler interrupts the run."""
INTERRUPTED = 130
"""Exit code of an interrupted process."""
TORCHRUN_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""Environment variables in which torchrun passes the rank of a process."""
START_REMEDY = "Start mate by torchrun or srun, or unset RANK, WORLD_SIZE and SLURM_STEP_NUM_TASKS for one process"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def train_in_processes(folder: RunFolder, command: Sequence[str], hardware: Hardware) -> int:
    """Train a run in several processes, and complete its records after a failure.

    Args:
        folder: folder of the run.
        command: command line of each process.
        hardware: number of processes and their accelerator.

    Returns:
        0 if all processes finished, 130 if the run was interrupted.

    Raises:
        MateError: see `launch_processes`. The traceback of an exception that is no `MateError` is written to
            traceback.txt in the run folder.
    """
    sizes = folder.metrics_sizes()
    try:
        code = launch_processes(command, hardware, delegate_lock(folder.path))
    except MateError as error:
        if isinstance(error.__cause__, ChildFailedError):
            folder.write_text("traceback.txt", str(error.__cause__))
        elif folder.metrics_sizes() == sizes:
            folder.undo()
            raise
        folder.complete_records("failed", f"{type(error).__name__}: {error}")
        raise
    if code == INTERRUPTED:
        folder.complete_records("interrupted", STOPPED)
    return code


def launch_processes(command: Sequence[str], hardware: Hardware, entrusted: Mapping[str, str] | None = None) -> int:
    """Run a command in `hardware.devices` processes on this machine.

    All processes are terminated if one process fails.

    This function replaces torch's elastic agent, which changes arguments that contain `$`, looks up the host name on
    the network, and leaves the processes no time to save a checkpoint.

    Args:
        command: program and arguments of each process.
        hardware: configured hardware, with the number of processes.
        entrusted: environment variables by which the processes use the run lock of this process, see `delegate_lock`.
            None if this process holds no lock.

    Returns:
        0 if all processes finished, 130 if they were interrupted.

    Raises:
        MateError: the error of the process that failed first, or a `RunError` with its signal or exit code.
    """
    # This process owns the store: a port that rank 0 opened later might be in use by another program by then.
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # type: ignore[attr-defined]
    env = {"MASTER_ADDR": store.host, "MASTER_PORT": str(store.port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    env |= {"WORLD_SIZE": str(hardware.devices), "NODE_RANK": "0", LAUNCHER: str(os.getpid()), **(entrusted or {})}
    rank_envs = {rank: {**env, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(hardware.devices)}
    args = dict.fromkeys(rank_envs, tuple(command[1:]))
    with TemporaryDirectory(prefix="mate_") as logs, _signals_as_exceptions():
        workers = SubprocessContext("mate", command[0], args, rank_envs, DefaultLogsSpecs(logs))
        stopped = False
        try:
            workers.start()
            failed = _wait(workers)
            _end(workers, TERMINATE_SECONDS)
        except SignalException:
            stopped, failed = True, None
            with suppress(SignalException):  # A second signal kills the processes at once.
                _end(workers, STOP_SECONDS)
        finally:
            workers.close(signal.SIGKILL)
        return _result(workers, failed, stopped)


@contextmanager
def _signals_as_exceptions() -> Iterator[None]:
    """Let torch elastic convert signals to exceptions, and silence its logger, in the context.

    A SIGHUP that is ignored, as under nohup, stays ignored. torch handles signals in the main thread only, because
    Python allows no signal handlers in other threads.
    """
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    names = [number.name for number in SIGNALS if number != signal.SIGHUP or handlers[number] != signal.SIG_IGN]
    os.environ["TORCHELASTIC_SIGNALS_TO_HANDLE"] = ",".join(names)
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for number, handler in handlers.items() if threading.current_thread() is threading.main_thread() else ():
            signal.signal(number, handler or signal.SIG_DFL)


def _wait(workers: SubprocessContext) -> int | None:
    """Wait until all processes have ended.

    After a failure, wait for at most `FAILURE_GRACE_SECONDS` seconds.

    Returns:
        The rank that failed first, or None if no process failed.
    """
    failed, until = None, float("inf")
    while len(codes := _codes(workers)) < workers.nprocs and time.monotonic() < until:
        failed = _first_failure(workers, codes) if failed is None else failed
        if until == float("inf") and (failed is not None or any(codes.values())):
            until = time.monotonic() + FAILURE_GRACE_SECONDS
            _continue_stopped(workers)
        time.sleep(0.1)
    failed = _first_failure(workers, codes) if failed is None else failed
    return next((rank for rank, code in codes.items() if code), None) if failed is None else failed


def _codes(workers: SubprocessContext) -> dict[int, int]:
    """Return the exit codes of the ended processes by rank."""
    codes = {rank: handler.proc.poll() for rank, handler in workers.subprocess_handlers.items()}
    return {rank: code for rank, code in codes.items() if code is not None}


def _first_failure(workers: SubprocessContext, codes: Mapping[int, int]) -> int | None:
    """Return the rank whose process failed first and so caused all other failures.

    This is the rank that was ended by a signal, else the rank with the earliest error file. Later errors are
    consequences: the connections of the remaining ranks to the failed rank break. Return None if no rank is found.
    """
    files = {rank: Path(file) for rank, file in workers.error_files.items() if Path(file).exists()}
    earliest = min(files, key=lambda rank: files[rank].stat().st_mtime_ns, default=None)
    return next((rank for rank, code in codes.items() if code < 0 or code == INTERRUPTED), earliest)


def _end(workers: SubprocessContext, seconds: int) -> None:
    """Send SIGTERM to the remaining processes, and SIGKILL if they still run after `seconds`."""
    _continue_stopped(workers)
    workers.close(signal.SIGTERM, timeout=seconds)


def _continue_stopped(workers: SubprocessContext) -> None:
    """Continue suspended worker processes by SIGCONT, so that they can handle SIGTERM."""
    for number in workers.pids().values():
        with suppress(ProcessLookupError):
            os.killpg(number, signal.SIGCONT)


def _result(workers: SubprocessContext, failed: int | None, stopped: bool) -> int:
    codes = _codes(workers)
    if stopped and any(codes.values()):
        failed = _first_failure(workers, {})
        if failed is None or isinstance(_error(workers, failed, 0).__cause__, ChildFailedError):
            return INTERRUPTED  # The error is only a connection that broke when another rank ended.
    if failed is None:
        return 0
    if codes[failed] == INTERRUPTED:
        return INTERRUPTED
    raise _error(workers, failed, codes[failed])


def _error(workers: SubprocessContext, rank: int, code: int) -> MateError:
    """Return the error with which the launcher reports a failed process of the run.

    The result is the `MateError` of the process if it raised one, else a `RunError` with torch's report as the cause.
    """
    failure = ProcessFailure(rank, workers.pids()[rank], code, workers.error_files[rank])
    if isinstance(failure.message, dict):
        reason = str(failure.message["message"])
        name, _, text = reason.partition(": ")
        error_type = vars(errors).get(name)
        if isinstance(error_type, type) and issubclass(error_type, MateError):
            return error_type(text)
        reason = f": {reason}"
    else:
        reason = f" was killed by {failure.signal_name()}" if code < 0 else f" ended with exit code {code}"
    error = RunError(f"process {rank} of {workers.nprocs}{reason}", remedy="Continue with resume=last")
    error.__cause__ = ChildFailedError("mate", {rank: failure})
    return error


@contextmanager
def join_processes(hardware: Hardware) -> Iterator[None]:
    """Initialize the process group of a run, and destroy it at the end of the context.

    Does nothing if the run has a single process. Ranks other than 0 print nothing inside the context.

    Raises:
        MateError: the error raised inside the context. A process that was started by `launch_processes` exits instead,
            and the launcher reports the error.
    """
    variables = read_rank_variables(os.environ)
    if not variables or dist.is_initialized():
        yield
        return
    os.environ.update(variables)
    launcher = int(os.environ.get(LAUNCHER, "0"))
    if not hardware.threads:
        torch.set_num_threads(max(1, torch.get_num_threads() // hardware.devices))
    try:
        with nullcontext() if variables["RANK"] == "0" else _mute_output():
            _connect(hardware.accelerator)
            yield
            dist.barrier()
            dist.destroy_process_group()
    except (Exception, SystemExit) as error:
        failed = isinstance(error, Exception)  # SystemExit: this rank only ends because another rank failed.
        if failed:
            ranks.record_failure(error)
        if launcher:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(MateError.exit_code)  # A normal exit would print an additional message of Gloo's threads.
        if failed and variables["RANK"] != "0":
            raise RunError(f"process {variables['RANK']} of {variables['WORLD_SIZE']}: {error}") from error
        raise


@contextmanager
def _mute_output() -> Iterator[None]:
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _connect(accelerator: str) -> None:
    cuda = accelerator != "cpu" and torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    # Objects other than gradients are exchanged over the CPU, so that they do not wait for CUDA kernels.
    backend = "cpu:gloo,cuda:nccl" if cuda else "gloo"
    failures: list[Exception] = []

    def meet() -> None:
        try:
            store, rank, size = next(rendezvous("env://", timeout=RENDEZVOUS_TIMEOUT))
            store.set_timeout(RENDEZVOUS_TIMEOUT)
            dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=TIMEOUT)
        except Exception as error:
            failures.append(error)

    meeting = threading.Thread(target=meet, daemon=True)  # The main thread stays free to handle signals.
    meeting.start()
    while meeting.is_alive():
        meeting.join(0.1)
    if failures:
        address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        problem = f"the {os.environ['WORLD_SIZE']} processes of this run could not connect to each other"
        raise RunError(problem, where=address, remedy="Read the output of the other processes") from failures[0]


def read_rank_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the rank, the world size and the rendezvous address of this process.

    The variables of all launchers are returned under the names that torchrun uses.

    Args:
        environment: environment variables of torchrun, Slurm or a PyTorchJob on Kubernetes.

    Returns:
        The variables in `TORCHRUN_VARIABLES` and NODE_RANK, by name. Empty if this is the only process of the run.

    Raises:
        ConfigError: a variable of the launcher is missing or no number. The message names the variable.
    """
    if set(TORCHRUN_VARIABLES) <= set(environment):
        node = environment.get("GROUP_RANK", environment.get("NODE_RANK", "0"))
        _check_numbers(environment, "RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_PORT")
        if not environment["MASTER_ADDR"]:
            raise ConfigError("is missing", where="MASTER_ADDR", remedy=START_REMEDY)
        return {**{name: environment[name] for name in TORCHRUN_VARIABLES}, "NODE_RANK": node}
    if environment.get("SLURM_STEP_NUM_TASKS", "1") == "1":  # srun sets it, a batch script alone does not.
        if environment.get("WORLD_SIZE", "" if "RANK" in environment else "1") == "1":
            return {}
        # A PyTorchJob on Kubernetes starts one process in each pod and sets no LOCAL_RANK.
        in_pod = {"NODE_RANK": environment.get("RANK", ""), **environment, "LOCAL_RANK": "0"}
        return read_rank_variables({**dict.fromkeys(TORCHRUN_VARIABLES, ""), **in_pod})
    _check_numbers(environment, *(f"SLURM_{name}" for name in ("STEP_NUM_TASKS", "PROCID", "LOCALID", "NODEID")))
    nodes = environment.get("SLURM_STEP_NODELIST", environment.get("SLURM_NODELIST", "127.0.0.1"))
    # The first node of `gpu[007-009,12],cpu1` is `gpu007`.
    first_node = re.sub(r"\[(\w+)[^]]*\]", r"\1", nodes).partition(",")[0]
    # The port differs between job steps, and every process of a step computes the same port.
    port = 15000 + (7 * int(environment.get("SLURM_JOB_ID", "0")) + int(environment.get("SLURM_STEP_ID", "0"))) % 20000
    return {
        "RANK": environment["SLURM_PROCID"],
        "LOCAL_RANK": environment["SLURM_LOCALID"],
        "NODE_RANK": environment["SLURM_NODEID"],
        "WORLD_SIZE": environment["SLURM_STEP_NUM_TASKS"],
        "MASTER_ADDR": environment.get("MASTER_ADDR", first_node),
        "MASTER_PORT": environment.get("MASTER_PORT", str(port)),
    }


def _check_numbers(environment: Mapping[str, str], *names: str) -> None:
    for name in names:
        if not (value := environment.get(name, "")).isdecimal():
            raise ConfigError(f"is {f'no number ({value})' if value else 'missing'}", where=name, remedy=START_REMEDY)


def check_processes(hardware: Hardware, environment: Mapping[str, str]) -> None:
    """Check that the number of started processes equals the configured number of ranks.

    This machine must have enough GPUs or CPU cores for its processes.

    Args:
        hardware: configured numbers of devices and nodes.
        environment: see `read_rank_variables`.

    Raises:
        ConfigError: the launcher started another number of processes than configured, no launcher started processes on
            several nodes, or this machine has too few GPUs or CPU cores.
    """
    size, variables = hardware.devices * hardware.nodes, read_rank_variables(environment)
    if variables and int(variables["WORLD_SIZE"]) != size:
        problem = f"{variables['WORLD_SIZE']} processes were started, but hardware.devices x hardware.nodes is {size}"
        hint = "Start srun or torchrun with the same number of nodes and of processes per node"
        raise ConfigError(problem, where="hardware", remedy=hint)
    if variables and hardware.devices > 1 and not environment.keys() & {"LOCAL_RANK", "SLURM_LOCALID"}:
        hint = "Set 1, and hardware.nodes to the number of pods, or start mate by torchrun in each pod"
        raise ConfigError("a pod of a PyTorchJob is one process", where="hardware.devices", remedy=hint)
    if hardware.nodes > 1 and not variables:
        problem = f"no processes were started on {hardware.nodes} nodes"
        hint = "Start with srun (with submitit, set hydra.launcher.nodes and hydra.launcher.tasks_per_node), or use 1"
        raise ConfigError(problem, where="hardware.nodes", remedy=missing_gpu_remedy(hardware, hint))
    accelerator = find_accelerator(hardware)
    if accelerator == "cpu" and not variables and hardware.devices > (limit := PER_CORE * (os.cpu_count() or 1)):
        problem = f"{hardware.devices} processes are too many for the cores of this machine"
        raise ConfigError(problem, where="hardware.devices", remedy=f"Use {limit} at most")
    if accelerator == "mps" and hardware.devices > 1:
        raise ConfigError("this machine has only one such device", where="hardware.devices", remedy="Use 1")
    if accelerator == "gpu" and hardware.devices > 1 and (gpus := torch.cuda.device_count()) < hardware.devices:
        hint = f"Set hardware.devices={gpus}" if gpus else "Use hardware.accelerator=cpu"
        hint = missing_gpu_remedy(hardware, hint)
        problem = f"PyTorch finds {gpus} GPUs here, fewer than {hardware.devices}"
        raise ConfigError(problem, where="hardware.devices", remedy=hint)
