"""Flags are told from overrides."""

import pytest

from mate_cli.cli.words import Override, split_flags


@pytest.mark.parametrize(
    ("words", "flags", "overrides"),
    [
        ("-m seed=1,2 -cd mine a=b", {"--multirun": "", "--config-dir": "mine"}, ["seed=1,2", "a=b"]),
        ("--cfg job -p=a.b", {"--cfg": "job", "--package": "a.b"}, []),
        ("--config-dir=x --resolve seed=1", {"--config-dir": "x", "--resolve": ""}, ["seed=1"]),
        ("-c", {"--cfg": ""}, []),
        ("a=b --info", {"--info": ""}, ["a=b"]),
    ],
)
def test_flags_and_overrides(words, flags, overrides):
    assert split_flags(words.split()) == (flags, overrides)


@pytest.mark.parametrize("text", ["a=b", "++a.b=c=d", "~a", "~a=1", "+model@x=y", "", "=", "+~a"])
def test_an_override_is_taken_apart_and_put_together_again(text):
    assert str(Override.parse(text)) == text
