"""Commands in subprocesses that are forked from an interpreter with loaded modules.

Importing torch and Lightning takes longer than most tested commands. A single-threaded server process imports them once
and forks for each command. A fork is an ordinary process: it has a process id, an environment and separate output,
handles signals, and exits as an interpreter does.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import re
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

ROOT = Path(__file__).resolve().parents[1]
NUMBER = struct.Struct("i")
LAUNCHER = "MATE_LAUNCHER"
"""Variable with the parent process id. It is empty for forks, whose parent is the server process."""
LONGEST = 1 << 20
"""Maximum size of a request in bytes."""
CACHE = os.environ.get("MATE_CACHE", "")
"""Cache of this test run, also if a test sets another cache for its commands."""


class Command:
    """A running command with the interface of `subprocess.Popen`.

    The output is written to files, because a pipe could fill up.
    """

    def __init__(self, connection: socket.socket, output: IO[bytes], errors: IO[bytes]) -> None:
        self._connection, self._output, self._errors = connection, output, errors
        self.pid, self.returncode = self._number(), None

    def __enter__(self) -> Command:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            self.returncode = self._number()
        return self.returncode

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        self.wait(timeout)
        self._output.seek(0)
        self._errors.seek(0)
        return self._output.read().decode(), self._errors.read().decode()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def __del__(self) -> None:
        if hasattr(self, "returncode"):
            self.send_signal(signal.SIGKILL)

    def _number(self) -> int:
        return NUMBER.unpack(self._connection.recv(NUMBER.size))[0]


def start_again(command: Sequence[str], stderr: IO[bytes], env: Mapping[str, str], **_: object) -> Command:
    """Replace `subprocess.Popen` of an interpreter, its program and arguments."""
    return start(*command[2:], errors=stderr, environment={**env, LAUNCHER: ""})


def start(*words: str, errors: IO[bytes] | None = None, environment: Mapping[str, str] = os.environ) -> Command:
    """Start `mate` with arguments in the current directory.

    Args:
        *words: arguments of `mate`.
        errors: file for stderr. None: a temporary file.
        environment: environment variables. Default: those of this process.
    """
    output, errors = TemporaryFile(), errors or TemporaryFile()  # noqa: SIM115 - the command keeps them
    ours, theirs = socket.socketpair()
    request = {"words": words, "environment": dict(environment), "folder": str(Path.cwd())}
    with theirs:
        files = [theirs.fileno(), output.fileno(), errors.fileno()]
        socket.send_fds(_warm_interpreter(), [json.dumps(request).encode()], files)
    return Command(ours, output, errors)


def finish(command: Command) -> str:
    """Wait until a command exits without error, and return its output."""
    output, errors = command.communicate(timeout=900)
    assert command.returncode == 0, output + errors
    return output


def wait_for_step(folder: Path, step: int, command: Command) -> None:
    """Wait until a training run has logged an optimizer step.

    Args:
        folder: folder of the outputs.
        step: number of the step.
        command: the training command, which must not exit before.
    """
    for _ in range(15_000):
        assert command.poll() is None, command.communicate()
        rows = "".join(file.read_text() for file in folder.glob("train/*/*/metrics.jsonl"))
        if any(int(number) >= step for number in re.findall(r'"step": (\d+)', rows)):
            return
        time.sleep(0.02)
    raise AssertionError(f"step {step} was never reached")


@cache
def _warm_interpreter() -> socket.socket:
    """Start the server process and return the socket for requests.

    The server exits when the socket is closed, at the end of this process.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, __file__, str(theirs.fileno()), CACHE]
        # A command that a test ran in this process may have left the safe path, which hides the modules of tests.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
        environment["OMP_NUM_THREADS"] = "1"  # Threads of OpenMP would not survive a fork.
        process = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment
        )
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours


def load_everything() -> None:
    """Import every module of mate, including the libraries, and read every configuration file."""
    import composed_once
    from hydra import compose, initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    import mate_cli
    from mate_cli.cli.config_dir import config_dir

    composed_once.install(Path(sys.argv[2], "composed"))
    os.fsync = lambda _: None
    sys.path[0] = str(ROOT)
    for module in pkgutil.walk_packages(mate_cli.__path__, "mate_cli."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        compose("train")
        for file in config_dir().rglob("*.yaml"):
            name = file.relative_to(config_dir()).as_posix()
            GlobalHydra.instance().config_loader().repository.load_config(name)
    threads = [task.joinpath("comm").read_text() for task in Path("/proc/self/task").glob("*")]
    # A fork has the thread that forks and no other; the allocator of pyarrow alone starts its own again.
    assert len([name for name in threads if not name.startswith("jemalloc")]) <= 1, threads
    gc.freeze()  # what is loaded is garbage in no fork: no fork has to look


def next_command(requests: socket.socket) -> dict:
    """Fork for every request, and return the request in the fork.

    An intermediate process waits for the fork and reports its exit code.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    waiting: list[int] = []
    while True:
        text, files, _, _ = socket.recv_fds(requests, LONGEST, 3)
        if not text:
            for process in waiting:
                os.waitpid(process, 0)
            os._exit(0)
        waiting = [process for process in waiting if os.waitpid(process, os.WNOHANG)[0] == 0]
        waiting.append(os.fork())
        if waiting[-1] == 0:
            requests.close()
            if (pid := os.fork()) == 0:
                os.close(files[0])
                os.dup2(files[1], 1)
                os.dup2(files[2], 2)
                signal.signal(signal.SIGINT, signal.default_int_handler)
                return json.loads(text)
            os.write(files[0], NUMBER.pack(pid))
            os.write(files[0], NUMBER.pack(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))
            os._exit(0)
        for file in files:
            os.close(file)


if __name__ == "__main__":
    load_everything()
    typed = next_command(socket.socket(fileno=int(sys.argv[1])))
    os.environ.clear()
    os.environ.update(typed["environment"])
    os.chdir(typed["folder"])
    sys.argv = ["mate", *typed["words"]]
    runpy.run_module("mate_cli", run_name="__main__", alter_sys=True)
