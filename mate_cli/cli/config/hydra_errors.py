"""Convert errors of Hydra and OmegaConf to `ConfigError`, with a hint for the user."""

import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import (
    ConfigCompositionException,
    HydraException,
    InstantiationException,
    MissingConfigException,
    OverrideParseException,
)
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import InterpolationResolutionError, OmegaConfBaseException, UnsupportedInterpolationType
from yaml import YAMLError  # type: ignore[import-untyped]

from mate_cli.cli.config.hydra_setup import has_key, known_keys
from mate_cli.cli.config.messages import suggest_name, translate_key
from mate_cli.cli.config_dir import config_dir, find_config, list_options, read_config, user_config_dir
from mate_cli.cli.help import groups_of, nearest, nearest_choice
from mate_cli.cli.overrides import EXTENSIBLE_SECTIONS, Override
from mate_cli.errors import ConfigError, known_cause
from mate_cli.quoting import quote_for_shell, write_value
from mate_cli.runs.identity import flat_keys

FUNCTIONS = "The functions of a sweep are choice(1,2), range(1,5), glob(ma*), interval(1,5), sort(...), shuffle(...)"
"""Hint for a value that looks like an unknown sweep function."""
INTERPOLATION_HINT = "Write a key as ${seed}, the day as ${now:%Y-%m-%d}, a variable as ${oc.env:NAME,default}"
"""Hint for an interpolation that cannot be resolved."""
MAX_LIST = 130
"""Maximum characters of a list of options in an error message. A longer list is replaced by `mate list GROUP`."""
PLUGIN_PACKAGES = {
    "hydra/launcher": {
        **{"basic": "", "joblib": "hydra-joblib-launcher", "ray": "hydra-ray-launcher"},
        **dict.fromkeys(("submitit_local", "submitit_slurm"), "hydra-submitit-launcher"),
    },
    "hydra/sweeper": {"basic": "", "optuna": "optuna"},
}
"""PyPI package of each Hydra launcher and sweeper. Empty if it is part of Hydra."""
OVERRIDE_FORM = "an override has the form key=value, with dots between the parts of the key"
SPELLINGS: tuple[tuple[str, str | Callable[[re.Match[str]], str], str], ...] = (
    (r"""(?<=[{,])\s*(['"])(.*?)\1\s*(?=:)""", lambda match: escape_key(match[2]), "keys have no quotes"),
    (r"""^([^=]+)\+=['"]?(\[.*?\])['"]?$""", r"\1=\2", "lists are replaced as a whole"),
    (r"^([^=]+)\+=", r"\1=", "a value is replaced as a whole"),
    (r"^([^=\[]+)\[(\d+)\]", r"\1.\2", OVERRIDE_FORM),
    (r"\.{2,}(?=[^=]*=)", ".", OVERRIDE_FORM),
    (r"^([+~]*[\w./@-]*\w)\W*=+", r"\1=", OVERRIDE_FORM),
    (r"(?<==),+|,[, ]*(?=,|$)", "", "has a comma too many"),
    (r"=\{([^:{}]*)\}$", r"=\1", "needs no braces"),
)
"""Common syntax errors in overrides: pattern, replacement that Hydra can parse, and error message."""
TRAINER = "mate explain trainer lists its keys; other keywords of pl.Trainer are +trainer.options.NAME=..."
UNKNOWN_CLASS_HINT = "It was made by another version of mate, or by code outside the Python path"
"""Hint for a `_target_` that does not exist."""
FLAGS_APART = "The jobs of a sweep: -m --dry; the configuration of one of them: --cfg job without -m"
HYDRA_ERROR_PATTERNS = (
    (r"Error locating target '([^']+)'", "{}", "no such class here", UNKNOWN_CLASS_HINT),
    (r"Could not override 'experiment/(\w+)@", "override {}", "needs a slash", "Write override /{}: NAME"),
    (r"Could not override '([^']+)'\.(?: No match|\nDid you)", "{}", "mate {command} does not use this group", None),
    (r"invalid literal for int\(\) with base 10: '([^']+)'", "{}", "lists are replaced as a whole", "Type key=[a,b]"),
    (r"An item is already at '([^']*)'", "{}", "this key exists already", "Leave out the +"),
    (r"Config group override must be (.*)", "", "a group needs the name of an option", "Name one or leave it out"),
    (r"Only one of (--run, --multirun, --cfg)", "{}", "exclude each other", FLAGS_APART),
    (r"The value of '([^']+)' is (.*) and not (.*)\.$", "~{0}={2}", "its value is {1}", None),
    (r"Could not delete (?:from config\. )?'([^']+)'", "~{}", "no such key to delete", None),
)
"""Errors of Hydra that differ only by message: message pattern, then location, problem and hint of `ConfigError`."""
UNKNOWN = re.compile(r"(?:Could not override|config group) '([^']+)'")
SEVERAL_VALUES_PATTERN = re.compile(r"(?:Ambiguous value for argument|Sweep parameters) '([^']+)'")


@contextmanager
def wrap_hydra_errors(config_name: str, arguments: Sequence[str], file: str | None = None) -> Iterator[None]:
    """Convert errors of Hydra, OmegaConf and YAML inside the context to `ConfigError`.

    Args:
        config_name: command, which is also the name of its primary configuration.
        arguments: command-line arguments of the command.
        file: path of the command's module. Errors that its code raises are bugs and are not converted, except errors of
            composition. None if the errors come from composition only.

    Raises:
        ConfigError: the configuration or an override is invalid. The error names the key and a similar valid name.
    """
    try:
        yield
    except (HydraException, OmegaConfBaseException, YAMLError, ValueError) as error:
        if user_error := known_cause(error):
            raise user_error from error
        if _is_internal_error(error, file):
            raise
        raise explain(error, config_name, arguments) from error


def _is_internal_error(error: Exception, file: str | None) -> bool:
    """Return whether an error is a bug in code, such as a read of a missing key.

    Other errors are mistakes of the user. A plain `ValueError` is a bug unless Hydra or OmegaConf raise it, as for
    flags that exclude each other.

    Args:
        error: error to check.
        file: path of the command's module. An error is a bug if this module is in the traceback.
    """
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    if type(error) is ValueError:
        return not re.search("hydra/_internal|omegaconf/", Path(files[-1]).as_posix())
    composing = isinstance(error, (ConfigCompositionException, OverrideParseException, YAMLError, UnicodeDecodeError))
    elsewhere = isinstance(error, InstantiationException) and "locating target" in str(error)
    return not (composing or elsewhere) and file in files


def explain(error: Exception, config_name: str, arguments: Sequence[str]) -> ConfigError:
    """Convert an error of Hydra, OmegaConf or YAML to a `ConfigError` with a hint.

    Args:
        error: error to convert.
        config_name: command, which is also the name of its primary configuration.
        arguments: command-line arguments of the command.
    """
    if isinstance(error, OverrideParseException):
        return _unreadable(error.override)
    if isinstance(error, MissingConfigException):
        return _unknown_option_error(error)
    if isinstance(error, YAMLError):
        mark = getattr(error, "problem_mark", None)
        problem = _first_line(str(getattr(error, "problem", None) or error))
        return ConfigError(f"not valid YAML: {problem}", where=f"{mark.name}, line {mark.line + 1}" if mark else None)
    # A `UnicodeDecodeError` does not name the file, so search for the file.
    if isinstance(error, UnicodeDecodeError):
        files = sorted((user_config_dir() or config_dir()).rglob("*.yaml"))
        file = next((file for file in files if "\ufffd" in file.read_text(encoding="utf-8", errors="replace")), None)
        return ConfigError("is not in UTF-8", where=str(file) if file else None, remedy="Save it as UTF-8")
    message = str(error) or str(error.__cause__)
    for pattern, *texts in HYDRA_ERROR_PATTERNS:
        if match := re.search(pattern, message):
            location, fault, hint = (text and text.format(*match.groups(), command=config_name) for text in texts)
            return ConfigError(str(fault), where=location, remedy=hint)
    if unknown := UNKNOWN.search(message):
        return _unknown_key(unknown[1], config_name, arguments)
    if ambiguous := SEVERAL_VALUES_PATTERN.search(message):
        return several_values(ambiguous[1], config_name)
    cause = error.__cause__ if isinstance(error.__cause__, OmegaConfBaseException) else error
    return omegaconf_error(cause) if isinstance(cause, OmegaConfBaseException) else ConfigError(_first_line(message))


def omegaconf_error(error: OmegaConfBaseException) -> ConfigError:
    """Convert an OmegaConf error about a value to a `ConfigError`.

    Such an error is an interpolation that cannot be resolved.
    """
    problem = _first_line(str(error.msg or error))
    problem = re.sub(r"^\w+ raised while resolving interpolation: ", "", problem).strip("\"'")
    if problem == "HydraConfig was not set":
        example = "Use keys of the configuration, as in ${seed}, or ${now:%H-%M}"
        return ConfigError("${hydra:...} is not known here", where=error.full_key or None, remedy=example)
    hint = INTERPOLATION_HINT if type(error) in (InterpolationResolutionError, UnsupportedInterpolationType) else None
    return ConfigError(problem[:1].lower() + problem[1:], where=error.full_key or None, remedy=hint)


def nearest_key(key: str, config: DictConfig, groups: Sequence[str] = ()) -> str | None:
    """Return the valid key that is most similar to a mistyped key, or None.

    Keys of other programs are translated (see `translate_key`). A key without a section is searched in all sections, a
    key with a section in the section of the most similar name.

    Args:
        key: mistyped key.
        config: configuration with the valid keys.
        groups: config groups, whose names are valid at the top level too.
    """
    if (alias := translate_key(key)) and re.split(r"[.= ]", alias.lstrip("+"))[0] in (*config, *groups, "mate"):
        return alias
    section, _, name = key.rpartition(".")
    node = OmegaConf.select(config, section, throw_on_missing=False) if section else config
    if not isinstance(node, DictConfig):
        fixed = nearest_key(section, config, groups)
        # The section may exist but be empty in this configuration.
        if fixed in (None, section):
            return None
        return nearest_key(f"{fixed}.{name}", config, groups) or fixed
    homes = [] if section else [str(group) for group, part in config.items_ex(resolve=False) if has_key(part, name)]
    if homes:
        return f"{homes[0]}.{name}"
    names = [*map(str, node), *(groups if not section else ())]
    question = nearest(name, names, prefix=f"{section}." if section else "")
    return question.removeprefix("Did you mean ").removesuffix("?") if question else None


def _unreadable(override: str) -> ConfigError:
    """Return the `ConfigError` for an override that Hydra cannot parse.

    The hint is a corrected override.
    """
    key, equals, value = override.partition("=")
    if not equals and not override.startswith("~"):
        return ConfigError("not of the form key=value", where=override)
    corrected = override
    for pattern, replacement, problem in SPELLINGS:
        corrected = re.sub(pattern, replacement, corrected)
        with suppress(HydraException):
            if corrected != override and OverridesParser.create().parse_override(corrected):
                return ConfigError(problem, where=override, remedy=f"Type {quote_for_shell(corrected)}")
    example = quote_for_shell(f"{key}={write_value(value)}")
    hint = f"Put special characters in quotes inside quotes: {example}"
    if re.fullmatch(r"\w+\(.*\)", value):
        hint = f"{FUNCTIONS}. A text: {example}"
    return ConfigError("this value cannot be read", where=override, remedy=hint)


def escape_key(text: str) -> str:
    """Escape a text as a mapping key in Hydra's grammar, which does not allow quoted keys.

    The separator " ·" is removed.
    """
    return re.sub(r"[=:,(){}\[\]]", r"\\\g<0>", text.replace(" ·", ""))


def _unknown_option_error(error: MissingConfigException) -> ConfigError:
    group, _, name = str(error.missing_cfg_file).rpartition("/")
    parent = re.match(r"In '([^']+)'", str(error))
    prefix, _, base = group.rpartition("/")
    source = f" (in conf/{parent[1]}.yaml)" if parent and "/" in parent[1] and prefix != "hydra" else ""
    if prefix and list_options(base):
        hint = f"Write override /{base}: {name}"
        return ConfigError(f"unknown group {group}", where=parent[1] if parent else group, remedy=hint)
    if prefix == "hydra" and (package := PLUGIN_PACKAGES.get(group, {}).get(name)):
        return ConfigError("is not installed", where=f"{group}={name}{source}", remedy=f"Type pip install {package}")
    if group == "experiment" and name in list_options("sweep"):
        return ConfigError("is a sweep", where=f"{group}={name}{source}", remedy=f"Type mate train -m sweep={name}")
    if (file := (user_config_dir() or config_dir()) / group / f"{name}.yml").is_file():
        return ConfigError("is not read", where=str(file), remedy=f"Rename it to {name}.yaml")
    options = [*PLUGIN_PACKAGES.get(group, ())] or list_options(group)
    text = f"Options: {', '.join(options)}" if options else f"There are no files in conf/{group}"
    if len(text) > MAX_LIST:
        text = f"mate list {group} shows all {len(options)}"
    suggestion = nearest_choice(group, name)
    hint = " ".join(filter(None, [f"Did you mean {suggestion}?" if suggestion else None, text]))
    return ConfigError("no such option", where=f"{group}={name}{source}", remedy=hint)


def _unknown_key(key: str, config_name: str, arguments: Sequence[str]) -> ConfigError:
    group, _, name = key.partition(".")
    config = known_keys(config_name, arguments)
    files = {choice: flat_keys(read_config(find_config(f"{group}/{choice}"))) for choice in list_options(group)}
    if owners := [choice for choice, keys in files.items() if any(f"{key}.".startswith(f"{name}.") for key in keys)]:
        if group not in groups_of(config_name):
            return ConfigError(f"mate {config_name} does not use this group", where=key)
        options = [override for override in map(Override.parse, arguments) if override.group == group]
        option = str(options[0]) if options else f"this {group}"
        return ConfigError(f"{option} has no such key", where=key, remedy=f"It is a key of {group}={', '.join(owners)}")
    if key.startswith(EXTENSIBLE_SECTIONS) and isinstance(config.get(group), DictConfig):
        parts = config[group].items_ex(resolve=False)
        suggestion = next((f"{group}.{part}.{name}" for part, node in parts if has_key(node, name)), None)
        hint = f"Did you mean {suggestion}?" if suggestion else f"To add it, write +{key}=..."
        return ConfigError("is not part of this configuration", where=key, remedy=hint)
    if near_key := nearest_key(key, config, groups_of(config_name)):
        value = next((argument.partition("=")[2] for argument in arguments if argument.partition("=")[0] == key), "")
        return ConfigError("unknown key", where=key, remedy=suggest_name(near_key, value))
    topic = group if isinstance(config.get(group), DictConfig) else key.rpartition(".")[2]
    search = f"Search for it: mate {config_name} --help {topic}"
    return ConfigError("unknown key", where=key, remedy=TRAINER if group == "trainer" else search)


def several_values(override: str, command: str = "train") -> ConfigError:
    """Return the `ConfigError` for several values, such as `seed=1,2`, in a run without `-m`."""
    key, _, value = override.partition("=")
    a_list = "" if "(" in value else f", or write '{key}=[{value}]' for a list"
    hint = f"Add -m to run each{a_list}" if command == "train" else "Name one"
    return ConfigError("has several values", where=override, remedy=hint)


def _first_line(message: str) -> str:
    return next((line.strip() for line in message.splitlines() if line.strip()), "the configuration cannot be read")
