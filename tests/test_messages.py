"""Texts on the screen are short, and in plain English: "<thing> <fault>. <remedy>."."""

import re
import runpy

import pytest
from golden import ROOT

list_messages = runpy.run_path(str(ROOT / "tools" / "messages.py"))["list_messages"]

MAX_ERROR = 200
"""Characters, placeholders as they are written."""
BANNED = (
    r"(?<![Tt]here) (is|are) no (?!longer )",
    r" is called ",
    r"\bno \w+ is called",
    r"\b[Nn]obody\b",
    r"\bone's own\b",
    r"\bof one's\b",
    r"teach(es)? nothing",
    r"\btold\b",
    r"\bby hand\b",
    r"\bfor want of\b",
    r"hands? on ",
    r"stands? (in for|beside)",
    r"\b(is|are) (not )?learnt\b",
    r"says? nothing",
    r"\bas asked\b",
    r"\blooked at\b",
    r"\bnothing is\b",
)
"""Phrases that are not plain English on a screen."""
SYNTHESIS = "mate_cli/data/synthesis/"
"""Texts there are questions of data sets."""


@pytest.fixture(scope="module")
def found():
    return [message for message in list_messages() if not message.place.startswith(SYNTHESIS)]


def test_errors_are_short(found):
    errors = [message for message in found if message.kind == "error"]
    assert len(errors) > 500
    assert not [message for message in errors if len(message.text) > MAX_ERROR]


@pytest.mark.parametrize("phrase", BANNED)
def test_messages_are_plain(found, phrase):
    assert not [message for message in found if re.search(phrase, re.sub(r"\{[^{}]*\}", "{}", message.text))]


@pytest.mark.parametrize("phrase", BANNED)
def test_comments_of_the_configuration_are_plain(phrase):
    comments = [
        f"{file.name}: {line.partition('#')[2]}"
        for file in sorted((ROOT / "conf").rglob("*.yaml"))
        for line in file.read_text(encoding="utf-8").splitlines()
    ]
    assert not [comment for comment in comments if re.search(phrase, comment)]


def test_phrases_are_found(tmp_path):
    (tmp_path / "mate_cli").mkdir()
    source = "raise ConfigError('this is no folder', remedy='Give one that nobody uses')\n"
    (tmp_path / "mate_cli" / "some.py").write_text(source, encoding="utf-8")
    (message,) = list_messages(tmp_path / "mate_cli")
    assert message.text == "this is no folder. Give one that nobody uses."
    assert [phrase for phrase in BANNED if re.search(phrase, message.text)] == [BANNED[0], BANNED[3]]
