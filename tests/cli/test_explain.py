"""What is said of a key: its meaning, its bounds, and who sets it."""

from __future__ import annotations

import shlex

import pytest
import yaml

from mate_cli.cli.app import main
from mate_cli.cli.config.reference import Setting, explain_keys, read_keys, type_text
from mate_cli.cli.config.resolve import resolve
from mate_cli.errors import ConfigError
from mate_cli.pipelines.run_spec import prepare_run


def test_everybody_who_sets_a_key_is_named_in_order():
    (found,) = explain_keys("train", "trainer.val_every", ["experiment=wtq_mate", "scale=small", "trainer.val_every=3"])
    assert found.meaning == "epochs between validations; 0.25 validates four times per epoch"
    assert (found.bounds, found.value) == ("a number greater than 0", "3")
    assert found.settings == (
        Setting("conf/trainer/default.yaml", "1.0", found.meaning),
        Setting("conf/experiment/base/fine_tuning.yaml", "4.0", "about 100 validations in all; not published"),
        Setting("conf/experiment/base/table_qa.yaml", "20.0", "about 100 validations in all; not published"),
        Setting("conf/recipe/task/minilm/table_qa.yaml", "0.5"),
        Setting("typed", "3"),
    )


def test_a_class_says_what_its_part_may_be():
    (found,) = explain_keys("train", "task.aggregation", ["task=table_qa"])
    assert found.bounds == "none, supervised or weak"
    (found,) = explain_keys("train", "optimizer.lr", [])
    assert found.bounds == "a number greater than 0"
    assert found.meaning, "where the file says nothing, the class does"


def test_a_section_is_explained_key_by_key_and_a_name_alone_is_found():
    sections = {found.key: found for found in explain_keys("train", "trainer", [])}
    assert [key for key, found in sections.items() if not found.meaning or not found.bounds] == []
    (alone,) = explain_keys("train", "val_every", [])
    assert alone == sections["trainer.val_every"]
    (rank, *_) = explain_keys("train", "lora", [])
    assert rank.key.startswith("model.lora."), "an exact name in a section comes before a like one, such as logger"
    with pytest.raises(ConfigError, match=r"Did you mean trainer\.val_every\?"):
        explain_keys("train", "trainer.val_evry", [])


def test_comments_stand_behind_values(tmp_path):
    file = tmp_path / "x.yaml"
    file.write_text("# Of all.\na: 1  # one\nb:\n  c: 'x # y'  # text\n  d: [1, 2]\ne: x#y\nhydra:\n  f: 1\n")
    assert read_keys(file) == {
        "a": ("1", "one"),
        "b": ("", ""),
        "b.c": ("'x # y'", "text"),
        "b.d": ("[1, 2]", ""),
        "e": ("x#y", ""),
    }


def test_bounds_are_said_in_words():
    assert type_text(int | None) == "an integer or null"
    assert type_text(dict[str, int]) == "a group of keys"
    assert type_text(None) == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["explain", "trainer"], "null: max_steps alone ends the run (a number greater than 0 or null)"),
        (["predict", "--help", "limits.rows"], "an integer greater than 0"),
        (["explain", "model.size", "experiment=quickstart", "stages.cell_selection.model.size=mini"], "typed mini"),
    ],
)
def test_bounds_and_stages_are_said(words, said, capsys):
    assert main(words) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert said in text
    assert text.count("stage ") == 2 * ("typed" in said)


def test_a_group_of_another_command_is_named(capsys):
    assert main(["explain", "benchmark.lengths", "benchmark=attention"]) == 2
    assert capsys.readouterr().err == "error: benchmark: mate train does not use this group.\n"


@pytest.mark.parametrize("words", [["explain", "seed"], ["train", "--help", "seed"], ["train", "--help=seed"]])
def test_it_is_printed_in_three_ways(words, capsys):
    assert main(words) == 0
    assert capsys.readouterr().out.splitlines() == [
        *("seed = 1", "  seed of weights, order of examples and dropout"),
        *("  may be  an integer at least 0 and less than 4294967296", "  set by  conf/train.yaml  1"),
    ]


@pytest.mark.long
def test_a_key_of_one_stage_and_the_file_that_sets_it(capsys):
    key = "stages.cell_selection.trainer.max_steps"
    assert main(["explain", key, "experiment=hybridqa_best"]) == 0
    first, value, *_, last = capsys.readouterr().out.splitlines()
    assert (first, value) == ("stage cell_selection", "trainer.max_steps = 1200")
    assert last.split() == ["experiment=hybridqa_best", "1200", "stages.cell_selection.overrides"]
    assert main(["explain", key, "experiment=hybridqa_best", f"{key}=7"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["typed", "7"]


@pytest.mark.parametrize("stage", ["", "stages.span_reading."])
def test_the_values_of_a_run_are_explained_by_its_overrides(stage, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    experiment = "experiment=quickstart" if stage else "experiment=quickstart_cells"
    lr = f"{stage}optimizer.lr=5e-4"
    run, _ = prepare_run(resolve([experiment, lr, f"paths.outputs={tmp_path}", "model=tapas", "name=mine"]))
    assert main(["explain", str(run.path), f"{stage}optimizer.lr", f"{stage}model.size"]) == 0
    *lines, command = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[:2]] == [[f"{stage}optimizer.lr", "=", "0.0005"], ["set", "by", lr]]
    assert lines[3].split() == ["set", "by", "model=tapas"]
    assert main(shlex.split(command.partition("mate ")[2])) == 0
    assert "typed" in capsys.readouterr().out
    assert main(["explain", str(run.path)]) == 0
    assert f"{stage}optimizer.lr = 0.0005" in capsys.readouterr().out
    assert main(["explain", str(run.path), "sed"]) == 2
    assert "Did you mean seed?" in capsys.readouterr().err


LOAD = "open('imported', 'w').close()\n"
FOREIGN = {
    "a class": ["model._target_=foreign_net.Net"],
    "a path": ["hydra.searchpath=[pkg://x]"],
    "an option outside of conf": ["model=../../../../{folder}/foreign"],
    "trust": ["experiment=quickstart", "trust=foreign_net", "stages.cell_selection.run={folder}"],
    "many digits": [f"seed={'1' * 5000}"],
    "many brackets": [f"x={'[' * 3000}"],
    "a long name": [f"stages.cell_selection.run={'a' * 400}"],
    "a variable": ["optimizer.lr='${{oc.env:NOPE}}'"],
    "lines": ["seed=\x1b[31m7\nerror: no"],
    "no list": "abc",
    "numbers": [1],
    "nothing": None,
}


@pytest.mark.parametrize("case", FOREIGN)
def test_nothing_of_a_foreign_run_is_composed_or_imported(case, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "foreign_net.py").write_text(LOAD)
    (tmp_path / "foreign.yaml").write_text("_target_: foreign_net.Net\n")
    found = FOREIGN[case]
    overrides = [one.format(folder=tmp_path) if isinstance(one, str) else one for one in found or []]
    values = {"seed": 7, "stages": [1], "origin": {"overrides": found if isinstance(found, str) else overrides}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(values if found else {"seed": 7}))
    code = main(["explain", str(tmp_path), "seed"])
    out, err = capsys.readouterr()
    assert (code, len(err.splitlines())) in ((0, 0), (2, 1))
    assert code == 0 or f"{tmp_path}/config.yaml: " in err
    assert code == 2 or (out.startswith("seed = 7\n") and len(out.splitlines()) == 3)
    assert not (tmp_path / "imported").exists()


def test_a_long_argument_is_no_run(capsys):
    assert main(["explain", "seed", f"name={'a' * 300}"]) == 0
    for words in (["explain", "a" * 300], ["train", f"model={'a' * 300}"], ["train", f"experiment={'a' * 300}"]):
        assert main(words) == 2
        assert "Use a shorter name" in capsys.readouterr().err
