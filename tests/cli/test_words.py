"""What Hydra's sweeper makes of the words of a sweep is, in each job, what was typed."""

from __future__ import annotations

import shlex

import pytest
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given
from hypothesis import strategies as st

from mate_cli.cli.config.quoting import quoted
from mate_cli.cli.config.words import Word, for_sweeper, of_job, parameters_for_sweeper
from mate_cli.cli.flags import split_flags

PARSER = OverridesParser.create()
NAMES = st.from_regex(r"[a-z_][a-z0-9_-]{0,5}", fullmatch=True)
KEYS = st.lists(NAMES, min_size=1, max_size=4).map(".".join).filter(lambda key: not Word("", key, None).is_below("row"))
CHOICES = st.sampled_from(
    ["model", "task", "recipe/task", "model@other", "recipe/data@a.b", "experiment", "hydra/help"]
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("'\"\\${},:=[]()~+ "), max_size=8)
PLAIN = st.sampled_from(
    ["", "null", "1", "-2", "1e-4", "inf", "true", "abc", "a b", "a/b.c", "${a.b}", "x:y", "\\,", "0x1"]
)
LEAVES = PLAIN.filter(bool) | TEXTS.map(quoted)
LISTS = st.lists(LEAVES, max_size=3).map(lambda values: f"[{','.join(values)}]")
GROUPS = st.dictionaries(NAMES, LEAVES | LISTS, max_size=3).map(
    lambda pairs: "{" + ",".join(f"{key}:{value}" for key, value in pairs.items()) + "}"
)
VALUES = PLAIN | LEAVES | LISTS | GROUPS
SET = st.builds(Word, st.sampled_from(["", "+", "++"]), KEYS, VALUES)
CHOSEN = st.builds(Word, st.sampled_from(["", "+"]), CHOICES, NAMES)
DELETED = st.builds(Word, st.just("~"), KEYS | CHOICES, st.none() | NAMES | TEXTS.map(quoted)).filter(
    lambda w: not w.is_below("hydra")
)
WORDS = st.lists(SET | CHOSEN | DELETED, max_size=6, unique_by=lambda word: word.key).map(lambda ws: [*map(str, ws)])


def jobs(shown: list[str], typed: list[str]) -> list[list[str]]:
    """The words of each job that Hydra makes of what it is shown."""
    (batch,) = BasicSweeper.split_arguments(PARSER.parse_overrides(shown), None)
    return [of_job(job, typed) for job in batch]


def meaning(word: str) -> tuple[object, ...]:
    """What Hydra reads in an override."""
    read = PARSER.parse_override(word)
    return read.type, read.key_or_group, read.package, str(read.value())


@given(st.text("+~ab.=/@ ", max_size=8))
def test_a_word_is_taken_apart_and_put_together_again(text):
    assert str(Word.parse(text)) == text


@given(WORDS)
@example(["+a='b c'", "~model", "++x.y=[1,2]", "resume=null"])
@example(["~recipe/task", "~model@other=x", "~a='b c'"])
def test_a_job_has_what_was_typed(words):
    (job,) = jobs(for_sweeper(words), words)
    assert list(map(meaning, job)) == list(map(meaning, words))


@given(WORDS)
def test_hydra_is_shown_nothing_that_it_could_miss(words):
    for word in map(PARSER.parse_override, for_sweeper(words)):
        asks = Word.parse(word.input_line)
        assert word.is_force_add() or asks.group or asks.is_below("hydra", "experiment", "sweep")


@given(
    st.lists(
        st.lists(st.builds(Word, st.just(""), KEYS, NAMES | TEXTS.map(quoted)), min_size=1), min_size=2, max_size=3
    )
)
def test_each_job_has_a_row(rows):
    lines = [shlex.join(map(str, row)) for row in rows]
    parameters = parameters_for_sweeper({"row": ",".join(map(_literal, lines)), "seed": "1"})
    found = jobs([f"{key}={value}" for key, value in parameters.items()], [])
    assert found == [[*map(str, row), "seed=1"] for row in rows]


def _literal(text: str) -> str:
    """A text in the grammar of overrides; what is in a row is resolved in the job, not before."""
    from hydra.core.override_parser.types import Quote, QuotedString

    return QuotedString(text, Quote.double).with_quotes()


def test_parameters_of_a_file_are_shown_like_what_is_typed():
    shown = parameters_for_sweeper(
        {"task.keep": "5,10", "++a.b": 1, "model": "mate,sat", "c": None, "d": [1, 2], "e": True}
    )
    assert list(shown) == ["++task.keep", "++a.b", "model", "++c", "++d", "++e"]
    words = [f"{key}={value}" for key, value in shown.items()]
    assert jobs(words, ["++a.b="])[0] == ["task.keep=5", "++a.b=1", "model=mate", "c=null", "d=[1,2]", "e=True"]


@pytest.mark.parametrize(
    ("words", "flags", "overrides"),
    [
        ("-m seed=1,2 -cd mine a=b", {"--multirun": "", "--config-dir": "mine"}, ["seed=1,2", "a=b"]),
        ("--cfg job -p=a.b", {"--cfg": "job", "--package": "a.b"}, []),
        ("--config-dir=x --resolve seed=1", {"--config-dir": "x", "--resolve": ""}, ["seed=1"]),
        ("-c", {"--cfg": ""}, []),
    ],
)
def test_flags_are_told_from_overrides(words, flags, overrides):
    assert split_flags(words.split()) == (flags, overrides)
