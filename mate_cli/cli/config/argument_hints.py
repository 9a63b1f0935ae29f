"""Words that are no settings as Hydra reads them, and the setting that each is meant to be.

People who come from other programs type flags, names without their group, spaces around the sign and lists without
quotes. Each of these is refused before anything is composed, with what to type in its place.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mate_cli.cli.config.override import NONE, NOTHING
from mate_cli.cli.config_dir import choices
from mate_cli.cli.flags import DRY, FLAGS, LONG, PRINT_SCRIPT, VALUED
from mate_cli.cli.shell.help import groups_of, keys_of, list_defaults, nearest, nearest_choice
from mate_cli.errors import ConfigError, RunError
from mate_cli.quoting import format_setting, quote_for_shell

FORM = "settings are written key=value"
BRACKETS = {"[": "]", "{": "}"}
TABLES = (".csv", ".tsv", ".json", ".jsonl", ".parquet", ".xlsx", ".xlsm", ".xls")
ENDLESS = re.compile(r"[0-9_]{4000}")
"""More digits than Python reads as a number."""
NAME = re.compile(r"[A-Za-z][\w./-]*")
LIST = re.compile(r"\[[^\[\]]*\]")
INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")
"""What Hydra's --info may be asked for."""


@dataclass(frozen=True)
class Syntax:
    """The grammar of one command.

    Args:
        config_name: its primary configuration.
        takes: whether it reads a word in a way of its own.
        texts: keys whose values are sentences, which may hold anything.
        actions: words that stand alone, such as `list` of `mate data`.
        find_key: the full key of a name, in what would be composed of the words; None without one.
    """

    config_name: str
    takes: Callable[[str], bool]
    texts: Sequence[str]
    actions: Sequence[str]
    find_key: Callable[[str, Sequence[str]], str | None]

    def check(self, words: Sequence[str]) -> None:
        """Refuse the first word that is no setting.

        Raises:
            ConfigError: saying what to type.
        """
        for place, word in enumerate(words):
            before = words[place - 1] if place else ""
            flag = LONG.get(before, before)
            if self.takes(word) or flag in VALUED or (flag == "--info" and word in INFO):
                continue
            if word.startswith("-"):
                self._check_flag(words, place)
            elif "=" not in word and not word.startswith("~"):
                raise self._explain_bare_word(words, place)
            else:
                self._check_setting(words, place)

    def _check_flag(self, words: Sequence[str], place: int) -> None:
        flag, equals, value = words[place].partition("=")
        if flag in (DRY, PRINT_SCRIPT) and self.config_name != "train":
            raise ConfigError("is a flag of mate train", where=flag, remedy="Leave it out")
        if flag in FLAGS:
            return
        name = flag.lstrip("-").replace("-", "_")
        value = value if equals else _next(words, place) or "..."
        known = name in (*groups_of(self.config_name), *keys_of(self.config_name)) or "." in name
        alike = [other for other in FLAGS if other.startswith("--") == flag.startswith("--")]
        longer = next(
            (f"Did you mean {other}?" for other in alike if len(other) > 2 and flag.startswith(f"{other}-")), None
        )
        if not known and (question := longer or nearest(flag, alike, cutoff=0.7)):
            raise ConfigError("unknown flag", where=words[place], remedy=question)
        others = [word for word in words if "=" in word and not word.startswith("-")]
        key = name if known else self.find_key(name, others)
        if key is None:
            remedy = f"{FORM.capitalize()}, without dashes; all: mate {self.config_name} --help"
            raise ConfigError("unknown flag", where=words[place], remedy=remedy)
        setting = key if "=" in key else f"{key}={value}"
        raise ConfigError(f"{FORM}, without dashes", where=words[place], remedy=suggest(setting))

    def _explain_bare_word(self, words: Sequence[str], place: int) -> ConfigError:
        """Return the error of a word without `=`."""
        word, before, after = words[place], words[place - 1] if place else "", _next(words, place)
        key, equals, begun = before.partition("=")
        if word == "=" or before == "=":
            return _explain_spaces("", word, after)
        if after.startswith("="):
            return _explain_spaces(word, after.removeprefix("=") or _next(words, place + 1))
        if equals and not begun:
            return _explain_spaces(key, word)
        if equals and _is_open(begun):
            return _explain_list(before, words[place:])
        if begun.endswith(","):
            return ConfigError("no spaces between values", where=before, remedy=suggest(before + word))
        if key in self.texts and equals:
            sentence = " ".join([begun, *_bare_words(words[place:])])
            return ConfigError("a text with spaces needs quotes", where=before, remedy=suggest(f"{key}={sentence}"))
        return self._explain_lone_word(word, after)

    def _explain_lone_word(self, word: str, after: str) -> ConfigError:
        """Return the error of a name, a group or a path that stands alone."""
        if question := nearest(word, self.actions, prefix=f"mate {self.config_name} "):
            return ConfigError(f"mate {self.config_name} has no such action", where=word, remedy=question)
        groups = sorted(groups_of(self.config_name), key=lambda name: name != "experiment")
        if word in groups:
            if after and "=" not in after:
                return ConfigError(FORM, where=word, remedy=suggest(f"{word}={after}"))
            return ConfigError(FORM, where=word, remedy=f"Type {word}=NAME, with one of {', '.join(choices(word))}")
        if setting := self._guess_setting(word):
            return ConfigError(FORM, where=word, remedy=f"Type {setting}")
        if homes := [group for group in groups if word in choices(group)]:
            return ConfigError(FORM, where=word, remedy=suggest(*(f"{group}={word}" for group in homes)))
        for group in groups:
            if NAME.fullmatch(word) and (name := nearest_choice(group, word)):
                return ConfigError(FORM, where=word, remedy=f"Did you mean {group}={name}?")
        if word in keys_of(self.config_name):
            return ConfigError(FORM, where=word, remedy=suggest(f"{word}={after or '...'}"))
        return ConfigError(FORM, where=word, remedy=f"All of them: mate {self.config_name} --help")

    def _guess_setting(self, word: str) -> str | None:
        """Guess the setting that a file or folder is meant for, as a shell takes it: a table, or its newest run."""
        from mate_cli.runs.folders import open_run

        keys, path = keys_of(self.config_name), Path(word)
        if path.suffix.lower() in TABLES:
            return format_setting("table", word) if "table" in keys else None
        key = "run" if "run" in keys else "resume" if "resume" in keys else None
        if key is None or not (path.is_dir() or "/" in word):
            return None
        try:
            return format_setting(key, open_run(word, key).path)
        except RunError as error:
            question = re.fullmatch(r"Did you mean (.*)\?", error.remedy or "")
            return question[1] if question else format_setting(key, word)

    def _check_setting(self, words: Sequence[str], place: int) -> None:
        key, equals, value = words[place].partition("=")
        if equals and key != key.strip() and NAME.fullmatch(key.strip().lstrip("+~")):
            raise _explain_spaces(key.strip(), value.strip(), _next(words, place))
        if equals and not key.strip():
            raise _explain_spaces(words[place - 1] if place else "key", value or _next(words, place))
        name = key.lstrip("+~")
        if equals and key.endswith("+"):
            raise self._explain_list_item(words, place)
        self._check_choice(words[place], name, value)
        if key.startswith("+") and name in groups_of(self.config_name):
            raise ConfigError("this group is chosen already", where=words[place], remedy=suggest(f"{name}={value}"))
        if name == "hydra.run.dir":
            path = Path(value)
            named = f"{format_setting('name', path.name or 'NAME')} " if "resume" in keys_of(self.config_name) else ""
            remedy = f"Type {named}{format_setting('paths.outputs', path.parent)}"
            raise ConfigError("a run creates its own folder", where=words[place], remedy=remedy)
        if name not in self.texts and ENDLESS.search(value):
            raise ConfigError("has too many digits", where=name, remedy="Write a shorter one")
        if name not in self.texts and _is_open(value):
            raise _explain_list(words[place], words[place + 1 :])

    def _check_choice(self, word: str, group: str, value: str) -> None:
        """Refuse a group that is deleted, set to nothing, or set to several files where one is read."""
        defaults = dict(list_defaults(self.config_name))
        if group not in defaults:
            return
        names = choices(group)
        deleted = word.startswith("~") and not (value and NONE in names)  # Hydra compares it with what was chosen
        nothing = not deleted and value.lower() in NOTHING and value not in names
        if nothing and (NONE in names or defaults[group] is None):
            remedy = f"Write {group}={NONE}" if NONE in names else "Leave it out"
            raise ConfigError("is not the name of a choice", where=word, remedy=remedy)
        empty = NONE not in names and value == "[]"
        if nothing or empty or (deleted and defaults[group] is not None):
            remedy = f"Type {group}=NAME; mate list {group} shows all {len(names)}"
            raise ConfigError(f"mate {self.config_name} needs a choice of this group", where=word, remedy=remedy)
        if NONE not in names and LIST.fullmatch(value):
            each = value.strip("[]").replace(" ", "")
            several = f"Add -m to run each: {group}={each}" if self.config_name == "train" else "Name one"
            raise ConfigError("takes one choice", where=word, remedy=several)

    def _explain_list_item(self, words: Sequence[str], place: int) -> ConfigError:
        """Return the error of `key+=item`: no word of Hydra appends."""
        typed, _, value = words[place].partition("=")
        name = typed.strip("+~")
        others = [word for word in words if "=" in word and word != words[place] and not word.startswith("-")]
        known = "." in name or name in (*groups_of(self.config_name), *keys_of(self.config_name))
        key = name if known else self.find_key(name, others) or name
        items = value.strip("'\"").removeprefix("[").removesuffix("]")
        return ConfigError("lists are replaced as a whole", where=typed, remedy=suggest(f"{key}=[{items}]"))


def suggest(*settings: str) -> str:
    """Say what to type, as a shell takes it."""
    return "Type " + " or ".join(map(quote_for_shell, settings))


def _next(words: Sequence[str], place: int) -> str:
    """Return the word after a place, unless it is a flag or there is none."""
    after = words[place + 1] if place + 1 < len(words) else ""
    return "" if after.startswith("--") else after


def _bare_words(words: Sequence[str]) -> list[str]:
    """Return the words up to the next setting or flag."""
    ends = [place for place, word in enumerate(words) if "=" in word or word.startswith("--")]
    return list(words[: ends[0]] if ends else words)


def _explain_spaces(key: str, *values: str) -> ConfigError:
    """Return the error of spaces around the sign."""
    value = next((value for value in values if value not in ("", "=")), "...")
    return ConfigError("no spaces around =", where=key or None, remedy=suggest(f"{key or 'key'}={value}"))


def _is_open(value: str) -> bool:
    """Say whether a list or group begins, without quotes, and does not end."""
    if not value or value[0] not in BRACKETS or any(mark in value for mark in "'\"\\"):
        return False
    return value.count(value[0]) > value.count(BRACKETS[value[0]])


def _explain_list(setting: str, rest: Sequence[str]) -> ConfigError:
    """Return the error of a list that the shell took apart, or that does not end."""
    closing = BRACKETS[setting.partition("=")[2][0]]
    ends = [place for place, word in enumerate(rest) if word.endswith(closing)]
    if ends:
        whole, problem = " ".join([setting, *rest[: ends[0] + 1]]), "a list with spaces needs quotes"
    else:
        whole, problem = f"{setting.rstrip(', ')}{closing}", f"{closing} is missing at the end"
    return ConfigError(problem, where=setting, remedy=suggest(whole))
