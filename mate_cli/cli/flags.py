"""Flags among the words of a command."""

from collections.abc import Iterator, Sequence

SHORT = {
    **{"--help": "-h", "--cfg": "-c", "--package": "-p", "--run": "-r", "--multirun": "-m", "--info": "-i"},
    **{"--shell-completion": "-sc", "--config-path": "-cp", "--config-name": "-cn", "--config-dir": "-cd"},
}
DRY = "--dry"
"""Resolve and check a run, and train nothing."""
PRINT_SCRIPT = "--print-script"
"""Print what would be submitted to Slurm."""
FLAGS = (
    *(*SHORT, *SHORT.values(), "--hydra-help", "--version", "--resolve", "--experimental-rerun"),
    *(DRY, PRINT_SCRIPT),
)
"""All that Hydra understands, and two that are answered before it."""
VALUED = ("--cfg", "--package", "--config-path", "--config-name", "--config-dir", "--experimental-rerun")
"""Flags whose value may be the word after them."""
LONG = {short: long for long, short in SHORT.items()}


def split_flags(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return flags by their long names, with their values, and the overrides."""
    pairs = list(_paired(words))
    return {flag: text for flag, text in pairs if flag}, [text for flag, text in pairs if not flag]


def _paired(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each flag with its value, and each override with no flag."""
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        flag = LONG.get(name, name)
        if not word.startswith("-"):
            yield "", word
        elif flag in VALUED and not equals:
            yield flag, next(rest, "")
        else:
            yield flag, value
