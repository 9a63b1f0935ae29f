"""`mate completion bash|zsh|fish`: print the script that completes commands, groups, choices and keys."""

from collections.abc import Sequence

from mate_cli.cli.shell.help import nearest
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
"""Actions of `mate data`; its own module takes longer to load."""
HELP = """Print the completion script of a shell.

Usage: mate completion bash|zsh|fish

Now, in this terminal
  eval "$(mate completion bash)"
Permanently
  echo 'eval "$(mate completion bash)"' >> ~/.bashrc
  echo 'eval "$(mate completion zsh)"' >> ~/.zshrc
  mate completion fish > ~/.config/fish/completions/mate.fish"""


def run_plain(words: Sequence[str]) -> int:
    """Print a shell's script, or the candidates that such a script asks for.

    Raises:
        ConfigError: there is no script for this shell.
    """
    match list(words):
        case ["query", line]:
            print("\n".join(completions(line)))
        case [] | ["--help"] | ["-h"]:
            print(HELP)
        case [shell] if shell in SCRIPTS:
            print(SCRIPTS[shell], end="")
        case _:
            remedy = nearest(words[0], SCRIPTS) or "Choose from bash, zsh and fish"
            raise ConfigError("no such shell", where=f"mate completion {' '.join(words)}", remedy=remedy)
    return 0


def completions(line: str) -> list[str]:
    """Return what the last word of a command line, such as `mate train mod`, can become."""
    from mate_cli.cli.app import COMMANDS
    from mate_cli.cli.shell.candidates import Completer

    before, word = line.split()[1:], ""
    if not line.endswith((" ", "\t")) and before:
        word = before.pop()
    if not before:
        return [name for name in (*COMMANDS, "--help", "--version") if name.startswith(word)]
    command, *words = before
    if command == "completion":
        return [shell for shell in SCRIPTS if shell.startswith(word)]
    if command not in COMMANDS:
        return []
    if command == "list":
        from mate_cli.cli.commands.list import kinds

        return [] if words else [kind for kind in kinds() if kind.startswith(word)]
    if command == "explain":
        return [name.rstrip("=.") for name in Completer("train", words).complete(word) if "=" not in word]
    actions = DATA_ACTIONS if command == "data" and not words else ()
    return [action for action in actions if action.startswith(word)] + Completer(command, words).complete(word)
