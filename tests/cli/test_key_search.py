"""`mate explain` of keys that the composition lacks."""

from __future__ import annotations

import pytest

from mate_cli.cli.app import main
from mate_cli.cli.commands import explain


def explained(capsys, *words: str) -> str:
    assert main(["explain", *words]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("key", ["model.radius", "radius"])
def test_a_key_of_another_choice_is_found(key, capsys):
    out = explained(capsys, key)
    assert "model.radius is a key of model=etc" in out
    assert "mate train model=etc model.radius=84" in out
    assert "conf/model/etc.yaml" in out


@pytest.mark.sampled(2)
@pytest.mark.parametrize("line", [line.split() for line in explain.HELP.splitlines() if line.startswith("  mate ")])
def test_the_examples_of_the_help_can_be_typed(line, capsys):
    assert main(line[1:]) == 0


def test_what_is_shown_to_type_can_be_typed(capsys):
    (line,) = [line for line in explained(capsys, "encoding.candidate_tokens").splitlines() if "  type " in line]
    words = line.split()[2:]
    assert words[:2] == ["train", "encoding=hopping"] or words[1] == "encoding=hopping"
    assert main(["train", *words[1:], "--cfg", "job", "--package", "encoding"]) == 0


@pytest.mark.parametrize("words", [["learning_rate"], ["learning", "rate"], ["learning-rate"]])
def test_a_key_is_found_by_what_is_said_of_it(words, capsys):
    assert "optimizer.lr" in explained(capsys, *words)
    assert main(["train", "--help", "learning_rate"]) == 0
    assert "optimizer.lr" in capsys.readouterr().out


def test_names_of_choices_and_groups_are_no_keys(capsys):
    assert "experiment=tabfact_mate  TabFact" in explained(capsys, "tabfact_mate")
    assert "mate list experiment" in explained(capsys, "experiment")


def test_of_a_chain_the_stages_that_have_it_are_shown(capsys):
    out = explained(capsys, "encoding.candidate_tokens", "experiment=hybridqa_hybrider")
    assert [line for line in out.splitlines() if line.startswith("stage")] == ["stage ranking", "stage hopping"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["model.radiu"], "Did you mean model.radius?"),
        (["qwertz"], "qwertz: unknown key."),
        (["model.radius=3"], "Type mate explain model.radius."),
        (["_"], "unknown key"),
    ],
)
def test_what_nobody_has_is_refused(words, said, capsys):
    assert main(["explain", *words]) == 2
    assert said in capsys.readouterr().err
