"""Errors are short: "<thing> <fault>. <remedy>."."""

import runpy

import pytest
from golden import ROOT

list_messages = runpy.run_path(str(ROOT / "tools" / "messages.py"))["list_messages"]

MAX_ERROR = 200
"""Characters, placeholders as they are written."""
SYNTHESIS = "mate_cli/data/synthesis/"
"""Texts there are questions of data sets."""


@pytest.fixture(scope="module")
def found():
    return [message for message in list_messages() if not message.place.startswith(SYNTHESIS)]


def test_errors_are_short(found):
    errors = [message for message in found if message.kind == "error"]
    assert len(errors) > 500
    assert not [message for message in errors if len(message.text) > MAX_ERROR]


def test_messages_are_listed(tmp_path):
    (tmp_path / "mate_cli").mkdir()
    source = "raise ConfigError('this is no folder', remedy='Give one that nobody uses')\n"
    (tmp_path / "mate_cli" / "some.py").write_text(source, encoding="utf-8")
    (message,) = list_messages(tmp_path / "mate_cli")
    assert message.text == "this is no folder. Give one that nobody uses."
