"""Entry point of the command line: runs a subcommand and prints errors in one line."""

from __future__ import annotations

import importlib
import logging
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from mate_cli import __version__
from mate_cli.cli.config_dir import PACKAGE, config_dir, typed_config_dir
from mate_cli.cli.overrides import split_flags
from mate_cli.errors import ConfigError, MateError
from mate_cli.files.io_errors import find_known_error
from mate_cli.files.safe_path import protect_subprocesses
from mate_cli.terminal.progress import Progress
from mate_cli.terminal.streams import clean_streams

if TYPE_CHECKING:
    from types import ModuleType


COMMANDS = {
    "train": "Train a model; leaves a run folder in outputs/train/.",
    "run": "Train or continue the run in a folder.",
    "evaluate": "Score a run, a released checkpoint or any system's answers.",
    "predict": "Answer questions about your own tables, or a dataset's.",
    "export": "Export a finished run to a folder that Mate and transformers can load.",
    "compare": "Compare runs: a table here, curves and plots in one page.",
    "diff": "Show how two runs differ in settings, data, scores and answers.",
    "note": "Add a note to a run.",
    "remove": "Delete runs permanently, after confirmation.",
    "benchmark": "Compare speed with other libraries.",
    "data": "List, check, download or export datasets.",
    "list": "List experiments, networks, datasets, other options, and runs.",
    "explain": "Explain a key: its meaning, its values and where it is set.",
    "inspect": "Show how one example is encoded, truncated, pruned and attended to.",
    "doctor": "Show hardware and software of this machine, and missing parts.",
    "completion": "Print the completion script of bash, zsh or fish.",
}
"""Description of each subcommand by name. It is the module of `commands` with its name, or see `COMMAND_ALIASES`."""
COMMAND_ALIASES = {"diff": ("compare", "run_diff")}
"""Module and function of each command that is implemented in the module of another command."""
COMMANDS_WITHOUT_ARGUMENTS = ("list", "doctor")
"""Commands without a configuration that run without arguments. The other such commands print their help instead."""
PROGRAM = (sys.executable, str(PACKAGE / "__main__.py"))
"""Command that starts `mate` in a subprocess, without importing modules from the subprocess's working directory."""
TERMINATION_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
"""Signals that interrupt `mate` as Ctrl-C (SIGINT) does."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `mate` with command-line arguments and return its exit code.

    Args:
        arguments: command-line arguments without the program name. None for the arguments in `sys.argv`.

    Returns:
        0 if the command succeeded, 2 for an error that the user can fix, 130 after an interrupt. Commands may return
        other exit codes.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    for name in ("MATE_CACHE", "MATE_DATA"):
        # An empty path would mean the working directory, so treat an empty variable as unset.
        if os.environ.get(name) == "":
            del os.environ[name]
    signals: list[bool] = []

    def stop() -> None:
        signals.append(True)
        interrupt()

    try:
        with clean_streams(), plain_warnings(), handle_signals((signal.SIGINT, *TERMINATION_SIGNALS), stop):
            try:
                check_arguments(arguments)
                protect_subprocesses()
                code = dispatch(arguments)
            except Exception as error:
                # An extension module may turn the interrupt into an error of its own.
                if signals or (user_error := find_known_error(error)) is None:
                    raise
                code = print_error(user_error)
            sys.stdout.flush()
        return code
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except (KeyboardInterrupt, Exception) as error:
        if not signals and not is_interrupted(error):
            raise
        # CPython exits by SIGINT if the exception passed through code that an extension module called. Running any
        # other code clears this state. The exit code below is then used.
        exec("")
        return 130


def is_interrupted(error: BaseException | None) -> bool:
    """Return whether an error is an interrupt, or was raised while handling an interrupt.

    An interrupt is a `KeyboardInterrupt`. For example, clean-up code that an interrupt started may fail.
    """
    while error and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def check_arguments(arguments: Sequence[str]) -> None:
    """Check that command-line arguments are valid UTF-8 and the working directory exists.

    Raises:
        ConfigError: an argument is not UTF-8, or the working directory was deleted.
    """
    if not {*arguments} & {"--help", "-h", "--version", "completion"}:
        try:
            Path.cwd()
        except FileNotFoundError as error:
            raise ConfigError("the working folder no longer exists", remedy="Change to another one: cd") from error
    for argument in arguments:
        # Python decodes bytes that are not UTF-8 as lone surrogates.
        if not argument.isascii() and re.search("[\ud800-\udfff]", argument):
            text = argument.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            raise ConfigError("argument is not valid UTF-8", where=text, remedy="Rename the file, or give its folder")


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Format warnings as `warning: <message>`, without source lines, inside the context."""
    default_format = warnings.formatwarning

    def format_plain(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        return f"warning: {' '.join(str(message).split())}\n"

    warnings.formatwarning = format_plain
    # Matplotlib warns about its cache folders on import, even if no figure is drawn.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        yield
    finally:
        warnings.formatwarning = default_format


def dispatch(arguments: list[str]) -> int:
    """Run the `mate` subcommand that the first argument names, and return its exit code.

    Args:
        arguments: command-line arguments without the program name. Without any, the help text is printed.

    Raises:
        ConfigError: no subcommand has this name.
    """
    from mate_cli.cli import help as texts

    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:2], "--help", *arguments[2:]]
    if not arguments or arguments[0] in ("--help", "-h"):
        print(texts.overview(COMMANDS))
        return 0
    if arguments[0] == "--version":
        print(f"mate {__version__}")
        return 0
    name, *rest = arguments
    if name not in COMMANDS:
        hint = texts.nearest(name, COMMANDS, prefix="mate ") or "mate --help lists all"
        raise ConfigError("no such command", where=name, remedy=hint)
    home, function = COMMAND_ALIASES.get(name, (name, "run"))
    module = importlib.import_module(f"mate_cli.cli.commands.{home}")
    if hasattr(module, "run_plain"):
        if {"--help", "-h"} & {*rest} or (not rest and name not in COMMANDS_WITHOUT_ARGUMENTS):
            print(module.HELP)
            return 0
        return int(module.run_plain(rest))
    return run_hydra(name, module, function, rest)


def run_hydra(name: str, module: ModuleType, function: str, arguments: list[str]) -> int:
    """Run a subcommand whose arguments are Hydra overrides, and return its exit code.

    The arguments are checked, the configuration is composed and validated, and the function of the command is called.

    Args:
        name: subcommand, which is also the name of its primary configuration in `conf/`.
        module: module of the command. The optional attributes `TEXT_KEYS`, `ACTIONS`, `accepts_argument` and
            `convert_arguments` adapt the argument syntax. The optional `run_command` replaces composition and
            `function`.
        function: name of the function in `module` that is called with the validated configuration.
        arguments: arguments after the subcommand.
    """
    from unittest.mock import patch

    from mate_cli.cli.config.hydra_errors import wrap_hydra_errors
    from mate_cli.cli.config.hydra_setup import open_hydra, use_user_config, with_user_experiment
    from mate_cli.cli.config.syntax import Syntax
    from mate_cli.cli.overrides import Override, find_help_topic

    if "--version" in arguments:
        print(f"mate {__version__}")
        return 0
    arguments = [str(Override.parse(argument)) for argument in arguments]
    if topic := find_help_topic(arguments):
        from mate_cli.cli.commands.explain import text

        flags, overrides = split_flags(arguments)
        with typed_config_dir(flags.get("--config-dir")), wrap_hydra_errors(name, overrides, module.__file__):
            print(text(name, topic, [argument for argument in overrides if "=" in argument]))
        return 0
    converts, texts_of = getattr(module, "accepts_argument", lambda argument: False), getattr(module, "TEXT_KEYS", ())
    actions = getattr(module, "ACTIONS", ())
    Syntax(name, converts, texts_of, actions).check(arguments)
    arguments = module.convert_arguments(arguments) if hasattr(module, "convert_arguments") else arguments
    if {"--help", "-h"} & set(arguments):
        from mate_cli.cli.help import command_help

        print(command_help(name))
        return 0
    flags, overrides = split_flags(arguments)
    with (
        typed_config_dir(flags.get("--config-dir")),
        wrap_hydra_errors(name, arguments, module.__file__),
        patch.object(sys, "argv", [f"mate {name}", *arguments]),
    ):
        use_user_config()
        if hasattr(module, "run_command"):
            return int(module.run_command(arguments) or 0)
        if flags.keys() & {"--cfg", "--info", "--hydra-help", "--shell-completion", "--resolve"}:
            run_hydra_info_flags(name)
            return 0
        # hydra.main would compose the configuration twice.
        from hydra import compose
        from hydra.core.hydra_config import HydraConfig

        from mate_cli.cli.config.validate import validate

        # `mate benchmark` displays a separate countdown.
        progress = Progress(f"mate {name}") if name != "benchmark" else nullcontext()
        with progress, open_hydra():
            config = compose(name, with_user_experiment(overrides, name), return_hydra_config=True)
            HydraConfig.instance().set_config(config)
            getattr(module, function)(validate(config, name))
    return 0


def run_hydra_info_flags(config_name: str) -> None:
    """Run Hydra for flags that only print information, such as `--cfg` and `--info`.

    The arguments are read from `sys.argv`.

    Args:
        config_name: name of the primary configuration in `conf/`, such as `train`.
    """
    from unittest.mock import patch

    import hydra

    from mate_cli.cli.config.hydra_setup import with_user_experiment

    flags, overrides = split_flags(sys.argv[1:])
    sys.argv[1:] = [*with_user_experiment(overrides, config_name), *filter(None, chain(*flags.items()))]
    # Hydra raises its errors instead of printing them.
    with patch.dict(os.environ, HYDRA_FULL_ERROR="1"):
        hydra.main(version_base="1.3", config_path=str(config_dir()), config_name=config_name)(print)()


def print_error(error: MateError) -> int:
    """Print `error: <message>` on stderr and return the exit code of the error."""
    from rich.text import Text

    from mate_cli.terminal.console import Console

    line = Text("error: ", style="bold red") + Text(str(error), style="default")
    Console(stderr=True, highlight=False).print(line, soft_wrap=True)
    return error.exit_code


def interrupt() -> None:
    """Raise `KeyboardInterrupt` for a termination signal other than SIGINT.

    This is a signal handler.

    Raises:
        KeyboardInterrupt: always.
    """
    raise KeyboardInterrupt


@contextmanager
def handle_signals(numbers: tuple[signal.Signals, ...], stop: Callable[[], None]) -> Iterator[None]:
    """Install `stop` as the handler of the given signals inside the context.

    Forked subprocesses keep the default action of the signals. If SIGHUP is already ignored, as under nohup, it stays
    ignored. Does nothing outside the main thread, where Python cannot set signal handlers.

    Args:
        numbers: signals to handle.
        stop: function called without arguments.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    process = os.getpid()

    def handle(number: int, frame: object) -> None:
        if os.getpid() == process:
            stop()
        else:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    handlers = {number: signal.getsignal(number) for number in numbers}
    signals = [number for number in numbers if handlers[number] != signal.SIG_IGN]
    for number in signals:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number in signals:
            signal.signal(number, handlers[number] or signal.SIG_DFL)
