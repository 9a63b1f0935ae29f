"""`mate completion bash|zsh|fish`: print the completion script of a shell.

The script completes commands, config groups, options and keys. It calls `mate completion query LINE` for candidates.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mate_cli.cli.config_dir import list_defaults, list_options, override_choices, read_choice, top_keys
from mate_cli.cli.help import nearest
from mate_cli.errors import ConfigError

BASH = r"""_mate() {
    local line="${COMP_LINE:0:COMP_POINT}" word
    word="${line##*[[:space:]]}"
    COMPREPLY=($(mate completion query "$line" 2>/dev/null))
    # Readline breaks words at = and :, so what stands before the last of them is already there.
    COMPREPLY=("${COMPREPLY[@]#"${word%"${word##*[=:]}"}"}")
    case "${COMPREPLY[0]-}" in *=|*.|*/) compopt -o nospace 2>/dev/null ;; esac
}
complete -o default -F _mate mate
"""
ZSH = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n" + BASH
FISH = """function __mate_complete
    mate completion query (commandline -cp) 2>/dev/null
end
complete -c mate -f -a '(__mate_complete)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
DATA_ACTIONS = ("list", "check", "download", "export", "prune")
"""Actions of `mate data`, defined here because its module is slow to import."""
FLAGS = ("--help", "--version", "--cfg", "--info", "--hydra-help")
"""Flags to complete for every command. `OF_TRAIN` lists further flags of `mate train`."""
OF_TRAIN = ("--multirun", "--config-dir", "--dry", "--print-script")
HELP = """Print the completion script of a shell.

Usage: mate completion bash|zsh|fish

Now, in this terminal
  eval "$(mate completion bash)"
Permanently
  echo 'eval "$(mate completion bash)"' >> ~/.bashrc
  echo 'eval "$(mate completion zsh)"' >> ~/.zshrc
  mate completion fish > ~/.config/fish/completions/mate.fish"""


def run_plain(arguments: Sequence[str]) -> int:
    """Print the completion script of a shell, or the completions of a command line.

    The arguments `query LINE` request completions.

    Raises:
        ConfigError: if the shell is unknown.
    """
    match list(arguments):
        case ["query", line]:
            print("\n".join(completions(line)))
        case [shell] if shell in SCRIPTS:
            print(SCRIPTS[shell], end="")
        case _:
            hint = nearest(arguments[0], SCRIPTS) or "Choose from bash, zsh and fish"
            raise ConfigError("no such shell", where=f"mate completion {' '.join(arguments)}", remedy=hint)
    return 0


def completions(line: str) -> list[str]:
    """Return the shell completions of the last argument of a command line.

    Args:
        line: command line up to the cursor, such as `mate train mod` with the candidate `model=`.
    """
    from mate_cli.cli.app import COMMANDS

    previous, word = line.split()[1:], ""
    if not line.endswith((" ", "\t")) and previous:
        word = previous.pop()
    if not previous:
        return [name for name in (*COMMANDS, "--help", "--version") if name.startswith(word)]
    command, *arguments = previous
    if command == "completion":
        return [shell for shell in SCRIPTS if shell.startswith(word)]
    if command not in COMMANDS:
        return []
    if command == "list":
        from mate_cli.cli.commands.list import kinds

        return [] if arguments else [kind for kind in kinds() if kind.startswith(word)]
    if command == "explain":
        return [name.rstrip("=.") for name in Completer("train", arguments).complete(word) if "=" not in word]
    actions = DATA_ACTIONS if command == "data" and not arguments else ()
    return [action for action in actions if action.startswith(word)] + Completer(command, arguments).complete(word)


@dataclass(frozen=True)
class Completer:
    """Shell completion for the arguments of one subcommand.

    Args:
        command: name of the command.
        arguments: arguments before the one to complete. Selected options determine which keys exist.
    """

    command: str
    arguments: Sequence[str]

    def complete(self, word: str) -> list[str]:
        """Return the completions of a partial flag or override, such as `model=ma`."""
        if word.startswith("-"):
            flags = (*FLAGS, *(OF_TRAIN if self.command == "train" else ()))
            return [flag for flag in flags if flag.startswith(word)]
        key, equals, value = word.partition("=")
        name = key.lstrip("+~")
        if equals:
            return [f"{key}={candidate}" for candidate in self._values(name, value)]
        sign = key[: len(key) - len(name)]
        return sorted({f"{sign}{candidate}" for candidate in self._keys(name) if candidate.startswith(name)})

    def _values(self, key: str, value: str) -> Iterator[str]:
        """Yield the completions of the partial value in an override `key=value`.

        Only the text after the last comma is completed.
        """
        prefix, comma, fragment = value.rpartition(",")
        groups = self._groups()
        is_flag = key not in groups and isinstance(self._default(key), bool)
        candidates = ("true", "false") if is_flag else list_options(key) if key in groups else ()
        yield from (f"{prefix}{comma}{name}" for name in candidates if name.startswith(fragment))

    def _keys(self, prefix: str) -> Iterator[str]:
        """Yield the candidates for the completion of a partial key, such as `optimizer.l`.

        The candidates are groups and top-level keys, or the keys of the section before the last dot.
        """
        section = prefix.rpartition(".")[0]
        if section:
            node = self._section(section)
            yield from (f"{section}.{_ended(name, value)}" for name, value in node.items())
            return
        groups = self._groups()
        yield from (f"{group}=" for group in groups)
        yield from (f"{group}." for group in groups if self._section(group))
        yield from (_ended(name, value) for name, value in top_keys(self.command).items() if name not in groups)

    def _section(self, section: str) -> dict[str, Any]:
        first, *parts = section.split(".")
        option = self._groups().get(first)
        node: Any = read_choice(first, option) if option else top_keys(self.command).get(first)
        for part in parts:
            node = node.get(part) if isinstance(node, dict) else None
        return {name: value for name, value in node.items() if name[0] != "_"} if isinstance(node, dict) else {}

    def _default(self, key: str) -> object:
        section, _, name = key.rpartition(".")
        return (self._section(section) if section else top_keys(self.command)).get(name)

    def _groups(self) -> dict[str, str | None]:
        """Return the selected option of each config group, such as `tapas` for the group `model`.

        The arguments select an option, else the experiment, else the defaults list.
        """
        groups = dict(list_defaults(self.command))
        values = {key: value for key, _, value in (argument.partition("=") for argument in self.arguments)}
        experiment = values.get("experiment")
        overrides = override_choices("experiment", experiment) if experiment and "experiment" in groups else {}
        return groups | {name: value for name, value in (overrides | values).items() if name in groups}


def _ended(name: str, value: object) -> str:
    """Complete a key by the next character to type: `.` for a section, `=` for a value."""
    return f"{name}." if isinstance(value, dict) and value else f"{name}="
