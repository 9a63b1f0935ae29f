"""`mate list`: a line about each choice, from the first sentence of its file."""

from __future__ import annotations

import pytest

from mate_cli.cli.app import main
from mate_cli.cli.commands.list import kinds
from mate_cli.cli.config_dir import list_options
from mate_cli.cli.help import group_names, read_summary

GROUPS = [group for group in group_names() if group != "benchmark"]


def shown(capsys, *words: str) -> list[str]:
    assert main(["list", *words]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("group", GROUPS)
def test_every_choice_has_a_line_of_its_own_that_fits(group, capsys):
    lines = shown(capsys, group)
    assert max(map(len, lines)) <= 80
    for name in list_options(group):
        (line,) = [line for line in lines if line.split()[:1] == [name]]
        text = line.split(maxsplit=1)[1]
        assert len(text) > 3
        assert not text.endswith("..."), f"the first sentence of conf/{group}/{name}.yaml is too long"
        assert text[0].isupper() or not text[0].isalpha()


@pytest.mark.parametrize("group", ["experiment", "sweep"])
def test_what_reproduces_papers_stands_below_them(group, capsys):
    lines = shown(capsys, group)
    papers = [line for line in lines[:-2] if not line.startswith(" ")]
    assert {"MATE", "DoT", "Transformer-XH", "DT-Fixup"} <= set(papers)
    assert all(read_summary(group, name).paper for name in list_options(group))
    assert next(line for line in lines[lines.index("DoT") + 1 :]).split()[0].endswith(("_dot", "_baselines"))


def test_kinds_and_their_numbers_and_a_kind_has_several_names(capsys):
    lines = shown(capsys)
    assert [line.split()[0] for line in lines[:-2]] == kinds()
    assert next(line.split() for line in lines if "experiments" in line)[1] == str(len(list_options("experiment")))
    assert shown(capsys, "model") == shown(capsys, "networks") == shown(capsys, "Models")


def test_words_narrow_a_list(capsys):
    names = [line.split()[0] for line in shown(capsys, "experiments", "tabfact", "tapas") if line.startswith("  ")]
    assert names == ["tabfact_tapas", "tabfact_tapas_cs"]


def test_sections_of_a_comparison(capsys):
    lines = shown(capsys, "sections")
    assert lines[0].startswith("  results ")
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines if line.endswith("...")]


def test_files_of_ones_own_are_marked(tmp_path, monkeypatch, capsys):
    (tmp_path / "conf" / "experiment").mkdir(parents=True)
    (tmp_path / "conf" / "experiment" / "mine.yaml").write_text(
        f"# @package _global_\n# mate train experiment=mine\n# [Mine] {'Long words ' * 20}. More.\ndefaults: []\n"
    )
    (tmp_path / "conf" / "experiment" / "of_no_paper.yaml").write_text("# Of no paper.\n")
    (tmp_path / "conf" / "model").mkdir()
    (tmp_path / "conf" / "model" / "mate.yaml").write_text("size: tiny\n")
    (tmp_path / "conf" / "model" / "odd.yaml").write_bytes(b"\xff# no text\n")
    monkeypatch.chdir(tmp_path)
    lines = shown(capsys, "experiments")
    (mine,) = [line for line in lines if line.startswith("  mine ")]
    assert mine.endswith("... (yours)")
    assert max(map(len, lines)) <= 80
    assert lines[lines.index(mine) - 1] == "Mine"
    assert lines[lines.index("  of_no_paper                 Of no paper (yours)") - 1] == "Your own"
    assert "Your own" not in shown(capsys, "experiments", "of_no_paper")
    models = shown(capsys, "models")
    assert "Your own" not in models
    assert [line.split()[0] for line in models if line.endswith("(yours)")] == ["mate", "odd"]
    monkeypatch.chdir("/")
    assert any(line.startswith("  mine ") for line in shown(capsys, "experiments", "--config-dir", f"{tmp_path}/conf"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["experimnt"], "Did you mean mate list experiments?"),
        (["qqq"], "The categories are analyses, attention,"),
        (["tabfact_mate"], "Type mate list experiments tabfact_mate."),
        (["models", "matte"], "no models with matte. Did you mean mate?"),
        (["models", "--all"], "--all: unknown flag. Type mate list --help."),
        (["models", "--config-dir", "nowhere"], "--config-dir nowhere: no such folder."),
    ],
)
def test_words_that_mean_nothing(words, said, capsys):
    assert main(["list", *words]) == 2
    assert said in capsys.readouterr().err
