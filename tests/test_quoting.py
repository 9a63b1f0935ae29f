"""Any text comes back as typed from a shell, from Hydra's own parser, and from the configuration it is put into."""

from __future__ import annotations

import shlex

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from mate_cli.quoting import format_command, format_setting, is_written, quote_list, quote_text

PARSER = OverridesParser.create()
SPECIAL = [*"'\"\\${},:=[]()|#~+ \n\t\r\0", "${", "\\'", "???", "null", "é", "\U0001f642"]
TEXTS = (
    st.lists(st.sampled_from(SPECIAL) | st.text(max_size=3), max_size=12)
    .map("".join)
    .filter(lambda text: text != "???")  # OmegaConf's word for a value that is missing, quoted or not
)

KEYS = st.sampled_from(["question", "answer", "table"])


def configured(value: str) -> object:
    """What `key=value` puts into a configuration, read as the program reads it."""
    config = OmegaConf.create({"key": PARSER.parse_override(f"key={value}").value()})
    return OmegaConf.to_container(config, resolve=True)["key"]


@given(TEXTS)
@example("don\\'t")
@example("a\\b\\")
@example("\\${a}\\")
@example("")
def test_a_text_comes_back_as_typed(text):
    assert configured(quote_text(text)) == text
    assert is_written(quote_text(text))


@given(st.lists(TEXTS, max_size=4))
def test_so_does_a_list(texts):
    assert configured(quote_list(texts)) == texts


@given(TEXTS, TEXTS)
def test_a_sweep_takes_them_for_single_values(first, second):
    override = PARSER.parse_override(f"key={quote_text(first)},{quote_text(second)}")
    assert [configured(value) for value in override.sweep_string_iterator()] == [first, second]


@pytest.mark.parametrize("value", ["", "null", "???", "'a'", '"a, b"', "'it\\'s'", "''"])
def test_what_is_written_in_the_grammar(value):
    assert is_written(value)


@pytest.mark.parametrize(
    "value", ["a", "a, b", "${oc.env:HOME}", "'tis", "it's", "'tis what 'tis'", '"A" or "B"', "'a','b'", "'", "[a]"]
)
def test_what_is_not(value):
    assert not is_written(value)


@given(st.recursive(TEXTS, lambda entries: st.lists(entries, max_size=3) | st.dictionaries(KEYS, entries, max_size=3)))
@example("null")
@example("1e3")
@example('/it\'s "my" run, 100 % (a)/b')
@example(["/it's here", "a, b"])
@example({"question": "the 'best'"})
def test_a_setting_to_paste_comes_back_as_it_was(value):
    (word,) = shlex.split(format_setting("key", value))
    key, _, written = word.partition("=")
    assert (key, configured(written)) == ("key", value)


@given(st.lists(st.text(), max_size=4))
@example(["run='it\\'s'", "a\\'b", "it's $HOME"])
def test_a_command_to_paste_comes_apart_into_its_words(words):
    assert shlex.split(format_command(*words)) == words


@pytest.mark.parametrize(
    ("value", "typed"),
    [
        ("outputs/train/2026-01-02_10-00-00", "run=outputs/train/2026-01-02_10-00-00"),
        ("my runs/a", "'run=my runs/a'"),
        ("it's here", "\"run='it\\'s here'\""),
    ],
)
def test_it_has_no_more_quotes_than_it_needs(value, typed):
    assert format_setting("run", value) == typed
