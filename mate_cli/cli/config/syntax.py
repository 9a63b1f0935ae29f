"""Check the syntax of command-line arguments, and suggest the intended override.

Users of other programs write flags such as `--lr 1e-4`, option names without their group, spaces around `=` and lists
without quotes. Such arguments raise an error before composition, with the correct override as a hint.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import Path

from mate_cli.cli.config_dir import list_defaults, list_options, top_keys
from mate_cli.cli.help import groups_of, nearest, nearest_choice
from mate_cli.cli.overrides import DRY, EMPTY_VALUES, FLAGS, LONG, NONE, PRINT_SCRIPT, VALUED
from mate_cli.errors import ConfigError, RunError
from mate_cli.quoting import format_setting, quote_for_shell

FORM = "settings are written key=value"
SPACES_AROUND_EQUALS = re.compile(r"(?P<key>[+~]*[A-Za-z][\w./-]*) = ?(?P<value>\S*)")
BRACKETS = {"[": "]", "{": "}"}
TABLES = (".csv", ".tsv", ".json", ".jsonl", ".parquet", ".xlsx", ".xlsm", ".xls")
HUGE_INTEGER = re.compile(r"[0-9_]{4000}")
"""Pattern of a number with more digits than Python converts to an integer."""


OTHER_CONFIGS = ("--config-name", "--config-path", "--experimental-rerun")
"""Hydra flags that replace the primary configuration of a command, which mate does not support."""


@dataclass(frozen=True)
class Syntax:
    """Syntax checks for the command-line arguments of one command.

    Args:
        command: name of the command, which is also the name of its primary configuration.
        converts: function that returns whether the command itself converts an argument, so that it need not be an
            override.
        texts: keys whose values are free text with any characters.
        actions: positional arguments of the command, such as `list` of `mate data`.
    """

    command: str
    converts: Callable[[str], bool] = lambda argument: False
    texts: Sequence[str] = ()
    actions: Sequence[str] = ()

    @cached_property
    def default_options(self) -> dict[str, str | None]:
        """Default option of each config group of the command, None if a group has no default."""
        return dict(list_defaults(self.command))

    def check(self, arguments: Sequence[str]) -> None:
        """Check that every command-line argument of the command is valid.

        An argument is a flag, an override, or a short form (see `converts`) that the command converts to an override.

        Raises:
            ConfigError: for the first invalid argument, with the correct form as hint.
        """
        for index, (previous, argument) in enumerate(zip(["", *arguments], arguments, strict=False)):
            flag, following = LONG.get(previous, previous), next(iter(arguments[index + 1 :]), "")
            if self.converts(argument) or flag in VALUED:
                continue
            if argument.startswith("-"):
                self._check_flag(argument, following, arguments)
            elif "=" not in argument and not argument.startswith("~"):
                raise self._explain_bare_word(previous, argument, arguments[index + 1 :])
            else:
                self._check_setting(argument, arguments[index + 1 :])

    def _check_flag(self, argument: str, following: str, arguments: Sequence[str]) -> None:
        from mate_cli.cli.config.hydra_errors import nearest_key
        from mate_cli.cli.config.hydra_setup import known_keys

        flag, equals, value = argument.partition("=")
        long = LONG.get(flag, flag)
        is_train_flag = long in (DRY, PRINT_SCRIPT, "--multirun")
        is_known = self.command == "train" or (self.command, long) == ("evaluate", DRY)
        if long in OTHER_CONFIGS or (is_train_flag and not is_known):
            hint = "Leave it out" if is_train_flag else "Use --config-dir FOLDER"
            raise ConfigError(f"mate {self.command} does not have this flag", where=long, remedy=hint)
        if flag in FLAGS:
            return
        key: str | None = flag.lstrip("-").replace("-", "_") or None
        if key and key not in (*groups_of(self.command), *top_keys(self.command)) and "." not in flag:
            same_length = [known_flag for known_flag in FLAGS if known_flag.startswith("--") == flag.startswith("--")]
            prefixes = [
                known_flag for known_flag in same_length if len(known_flag) > 2 and flag.startswith(f"{known_flag}-")
            ]
            if question := nearest(flag, prefixes or same_length, cutoff=0.7):
                raise ConfigError("unknown flag", where=argument, remedy=question)
            key = nearest_key(key, known_keys(self.command, [w for w in arguments if "=" in w and w[0] != "-"]))
        if key is None:
            hint = f"{FORM.capitalize()}, without dashes; all: mate {self.command} --help"
            raise ConfigError("unknown flag", where=argument, remedy=hint)
        value = value if equals else following if following and not following.startswith("--") else "..."
        hint = suggest(key if "=" in key else f"{key}={value}")
        raise ConfigError(f"{FORM}, without dashes", where=argument, remedy=hint)

    def _explain_bare_word(self, previous: str, argument: str, following: Sequence[str]) -> ConfigError:
        """Return the error for an argument without `=`, and suggest the intended override.

        Args:
            previous: argument before it, "" for the first one.
            argument: argument without `=`.
            following: arguments after it.
        """
        key, equals, value = previous.partition("=")
        bare_words = [argument, *takewhile(lambda part: "=" not in part and not part.startswith("--"), following)]
        text = " ".join([argument, *(part for part in following[:2] if part[:2] != "--")])
        if spaced := SPACES_AROUND_EQUALS.match(text):
            return _explain_spaces(spaced["key"], spaced["value"])
        if missing_bracket := _missing_bracket(value):
            return _explain_list(previous, missing_bracket, [argument, *following])
        if value.endswith(","):
            return ConfigError("no spaces between values", where=previous, remedy=suggest(previous + argument))
        if key in self.texts and equals and not Path(argument).is_file():
            sentence = suggest(" ".join([previous, *bare_words]))
            return ConfigError("a text with spaces needs quotes", where=previous, remedy=sentence)
        if question := nearest(argument, self.actions, prefix=f"mate {self.command} "):
            return ConfigError(f"mate {self.command} has no such action", where=argument, remedy=question)
        return ConfigError(FORM, where=argument, remedy=self._guess_setting(argument, "".join(bare_words[1:2])))

    def _guess_setting(self, argument: str, following: str) -> str:
        """Return a hint for an argument without `=`, such as a config group, an option or a path.

        Args:
            argument: argument without `=`.
            following: argument after it, which may be the value. "" if it is the last one.
        """
        groups = sorted(groups_of(self.command), key=lambda name: name != "experiment")
        if argument in groups:
            options = ", ".join(list_options(argument))
            return suggest(f"{argument}={following}") if following else f"Type {argument}=NAME, with one of {options}"
        if setting := self._guess_path(argument):
            return f"Type {setting}"
        if homes := [group for group in groups if argument in list_options(group)]:
            return suggest(*(f"{group}={argument}" for group in homes))
        if argument in top_keys(self.command):
            return suggest(f"{argument}={following or '...'}")
        suggestions = (
            (group, nearest_choice(group, argument)) for group in groups if re.fullmatch(r"[A-Za-z][\w./-]*", argument)
        )
        offers = (f"Did you mean {group}={name}?" for group, name in suggestions if name)
        return next(offers, f"All of them: mate {self.command} --help")

    def _guess_path(self, argument: str) -> str | None:
        """Return the override for which a path argument is probably intended.

        The key is `table=`, `run=` or `resume=`. The override is quoted for a shell. Return None if the argument is no
        path, or the command has no such key.
        """
        from mate_cli.runs.folders import open_run

        keys, path = top_keys(self.command), Path(argument)
        if path.suffix.lower() in TABLES:
            return format_setting("table", argument) if "table" in keys else None
        key = next((key for key in ("run", "resume") if key in keys), None)
        if key is None or not (path.is_dir() or "/" in argument):
            return None
        try:
            return format_setting(key, open_run(argument, key).path)
        except RunError as error:
            question = re.fullmatch(r"Did you mean (.*)\?", error.remedy or "")
            return question[1] if question else format_setting(key, argument)

    def _check_setting(self, argument: str, later: Sequence[str]) -> None:
        key, _, value = argument.partition("=")
        name = key.lstrip("+~")
        following = next((part for part in later if not part.startswith("-")), "")
        if key != key.strip() or not key or (following and not value and "=" not in following):
            raise _explain_spaces(key.strip() or "key", value.strip() or following)
        self._check_choice(argument, name, value)
        if name == "hydra.run.dir":
            path = Path(value)
            name_setting = f"{format_setting('name', path.name or 'NAME')} " * ("resume" in top_keys(self.command))
            hint = f"Type {name_setting}{format_setting('paths.outputs', path.parent)}"
            raise ConfigError("a run creates its own folder", where=argument, remedy=hint)
        if name not in self.texts and HUGE_INTEGER.search(value):
            raise ConfigError("has too many digits", where=name, remedy="Write a shorter one")
        if name not in self.texts and (missing_bracket := _missing_bracket(value)):
            raise _explain_list(argument, missing_bracket, later)

    def _check_choice(self, argument: str, group: str, value: str) -> None:
        """Raise `ConfigError` if an override of a config group is invalid, such as `+model=mate`.

        Invalid are `+group=`, the deletion of a group that requires an option, and several options for a group that
        takes one option.

        Args:
            argument: override as written.
            group: key of the override. Other keys than config groups are not checked.
            value: text after `=`.
        """
        if group not in self.default_options:
            return
        if argument.startswith("+"):
            raise ConfigError("this group already has an option", where=argument, remedy=suggest(f"{group}={value}"))
        names, is_needed = list_options(group), self.default_options[group] is not None
        deleted = argument.startswith("~")
        is_empty = not deleted and value.lower() in EMPTY_VALUES and value not in names
        if (deleted or is_empty or value == "[]") and is_needed and NONE not in names:
            hint = f"Type {group}=NAME; mate list {group} shows all {len(names)}"
            raise ConfigError(f"mate {self.command} needs an option of this config group", where=argument, remedy=hint)
        if is_empty:
            hint = f"Write {group}={NONE}" if NONE in names else "Leave it out"
            raise ConfigError("is not the name of an option", where=argument, remedy=hint)
        if NONE not in names and re.fullmatch(r"\[[^\[\]]*\]", value):
            options = value.strip("[]").replace(" ", "")
            hint = f"Add -m to run each: {group}={options}" if self.command == "train" else "Name one"
            raise ConfigError("takes one option", where=argument, remedy=hint)


def suggest(*settings: str) -> str:
    """Return the hint "Type key=value" for the given overrides, quoted for a shell.

    Several overrides are joined by "or".
    """
    return "Type " + " or ".join(map(quote_for_shell, settings))


def _explain_spaces(key: str, value: str) -> ConfigError:
    return ConfigError("no spaces around =", where=key, remedy=suggest(f"{key}={value or '...'}"))


def _missing_bracket(value: str) -> str:
    """Return the closing bracket that an unquoted value such as `[a,b` lacks.

    Return "" if the value is complete. The value may be a list, a mapping or an interpolation.
    """
    opening = value[:1] if value[:1] in BRACKETS else "{" if "${" in value else ""
    bracket = BRACKETS.get(opening, "")
    is_open = opening and not re.search("['\"\\\\]", value) and value.count(opening) > value.count(bracket)
    return bracket if is_open else ""


def _explain_list(setting: str, bracket: str, following: Sequence[str]) -> ConfigError:
    """Return the error for an override whose list value lacks its closing bracket.

    The shell may have split the list at spaces.

    Args:
        setting: override with the start of the list.
        bracket: missing closing bracket.
        following: arguments after the override, which may contain the rest of the list.
    """
    end = next((index for index, argument in enumerate(following, 1) if argument.endswith(bracket)), None)
    if end is None:
        hint = suggest(f"{setting.rstrip(', ')}{bracket}")
        return ConfigError(f"{bracket} is missing at the end", where=setting, remedy=hint)
    return ConfigError(
        "a list with spaces needs quotes", where=setting, remedy=suggest(" ".join([setting, *following[:end]]))
    )
