"""Without network: where the hub's cache is, and how it is filled from another machine."""

from __future__ import annotations

import pytest
from huggingface_hub import constants

from mate_cli.cli.app import main
from mate_cli.files import hub


@pytest.fixture
def offline(monkeypatch, tmp_path):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    hub.is_reachable.cache_clear()
    yield tmp_path / "hub"
    hub.is_reachable.cache_clear()


def test_the_remedy_says_what_to_fetch_and_where_it_goes(offline):
    problem, remedy = hub.missing_model("google/tapas-large@no_reset")
    assert "not reachable" in problem
    assert "hf download google/tapas-large --revision no_reset" in remedy
    assert "models--google--tapas-large" in remedy
    assert str(offline) in remedy
    assert "neither a folder" in hub.missing_model("./some/folder/x")[0]


def test_a_model_that_the_hub_does_not_have_is_told_from_one_that_is_not_reached(monkeypatch):
    monkeypatch.setattr(hub, "is_reachable", lambda: True)
    problem, remedy = hub.missing_model("nobody/nothing")
    assert "not on the Hugging Face hub" in problem
    assert "hf download" not in remedy


@pytest.mark.parametrize(
    "words",
    [
        ["evaluate", "checkpoint=nobody/nothing", "data=sample"],
        ["train", "experiment=quickstart_cells", "logger=none", "init.tokenizer=nobody/nothing"],
        ["data", "check", "data=hub", "data.name=nobody/nothing"],
    ],
)
def test_commands_show_it(words, offline, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    assert "hf download" in capsys.readouterr().err
