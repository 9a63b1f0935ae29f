"""What a run folder or an export from a stranger names to build: known parts, and nothing else is even begun."""

import random

import pytest
import yaml
from configurations import run_config
from finished_runs import SMALL, finished_run
from hostile import PARTS, attacks, hostile

from mate_cli.cli.app import main
from mate_cli.errors import CheckpointError, MateError, RunError, TrustError
from mate_cli.files.safe_load import read_yaml, to_yaml
from mate_cli.files.targets import check_targets
from mate_cli.runs.configuration import load_config

CONFIGURATIONS = 250


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return finished_run(tmp_path_factory.mktemp("stranger") / "run", ["task=table_qa", "encoding=table"])


def test_no_hostile_configuration_passes(tmp_path):
    config = run_config(SMALL).model_dump(mode="json")
    check_targets(config, "config.yaml", [])
    chance, every = random.Random(18), attacks(tmp_path / "mark")
    for number in range(CONFIGURATIONS):
        made = hostile(config, every[number % len(every)], chance)
        with pytest.raises(TrustError):
            check_targets(made, "config.yaml", ["my_module"])
        if number < len(every):
            (tmp_path / "config.yaml").write_text(to_yaml(made))
            with pytest.raises(TrustError):
                load_config(tmp_path, ["my_module"])
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize("name", [*PARTS, "stages", "system", "trainer"])
def test_every_part_is_looked_at(name):
    attack = {"_target_": "torch.utils.collect_env.run", "command": "true"}
    with pytest.raises(TrustError, match="collect_env"):
        check_targets({name: {"first": {"model": attack}} if name == "stages" else attack}, "config.yaml", [])


def test_a_part_is_made_of_its_own_packages():
    backend = {"_target_": "mate_cli.attention.backends.auto.Auto"}
    check_targets({"attention": backend, "optimizer": {"_target_": "torch.optim.SGD", "_partial_": True}}, "x")
    for wrong in ({"optimizer": backend}, {"system": backend}, {"attention": {"_target_": "torch.optim.SGD"}}):
        with pytest.raises(TrustError, match="is not a class of mate that"):
            check_targets(wrong, "x")


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(
    "target",
    [
        *("torch.utils.data.ConcatDataset", "torch.nn.Linear", "pathlib.Path", "subprocess.Popen"),
        "mate_cli.errors.MateError",
    ],
)
def test_no_part_is_made_of_classes_from_elsewhere(part, target):
    with pytest.raises(TrustError, match="is not a class of mate that"):
        check_targets({part: {"inner": [{"_target_": target}]}}, "x", [])


def test_a_trusted_module_brings_what_it_defines_and_not_what_it_imports():
    own = {"model": {"_target_": "hostile.attacks"}}
    with pytest.raises(TrustError, match=r"trust=MODULE\.$"):
        check_targets(own, "x", [])
    check_targets(own, "x", ["hostile"])
    for name in ("hostile.copy.deepcopy", "hostile.Path", "hostile.random.Random", "hostile_too.attacks"):
        with pytest.raises(TrustError):
            check_targets({"model": {"_target_": name}}, "x", ["hostile"])


PARTS = {"predict": "encoding", "evaluate": "attention", "export": "data", "train": "encoding"}


@pytest.mark.parametrize(
    ("command", "part"),
    [
        pytest.param(command, part, marks=[] if part == first else pytest.mark.long)
        for command, first in PARTS.items()
        for part in ("encoding", "attention", "data")
    ],
)
def test_commands_refuse_a_folder_that_would_run_code(command, part, run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    mark, file = tmp_path / "mark", run / "config.yaml"
    before = file.read_text()
    values = yaml.safe_load(before)
    values[part]["max_tokens"] = {"_target_": "torch.utils.collect_env.run", "command": f"touch {mark}"}
    file.write_text(to_yaml(values))
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    words = {
        "predict": [f"run={run}", "table=t.csv", "question=a"],
        "evaluate": [f"run={run}"],
        "export": [f"run={run}", "to=out"],
        "train": ["experiment=quickstart", f"stages.cell_selection.run={run}", "logger=none"],
    }
    try:
        assert main([command, *words[command]]) == 2
    finally:
        file.write_text(before)
    error = capsys.readouterr().err
    assert "torch.utils.collect_env.run is not a class of mate" in error or "cannot replace" in error
    assert not mark.exists()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: &x [1]\nb: *x\n", "aliases are not allowed"),
        ("[" * 3000 + "]" * 3000, "nested too deep"),
        ("a: !!timestamp x", "cannot be read"),
        ("a: 2001-01-01 \nb: !!binary aaaa", "of type bytes"),
        ("a: 1\na: 2", "found duplicate key a"),
        ("- 1", "is not a mapping"),
        ("a: " + "9" * 5000, "cannot be read"),
        ("a: !!python/object/apply:os.getcwd []", "could not determine a constructor"),
        ("\0", "control characters are not allowed"),
        ("\xff", "cannot be read"),
    ],
)
def test_damaged_yaml_is_one_error(tmp_path, text, problem):
    file = tmp_path / "config.yaml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(RunError, match=problem) as caught:
        read_yaml(file, RunError, "Mend it")
    assert "\n" not in str(caught.value)


def test_what_is_written_is_read_again(tmp_path):
    values = {"a": 1e-4, "b": "1e-4", "c": ["${x}", "${", "yes", None, True], "d": {"e": "ü\n'\""}}
    (tmp_path / "x.yaml").write_text(to_yaml(values), encoding="utf-8")
    assert read_yaml(tmp_path / "x.yaml", CheckpointError, "") == values
    with pytest.raises(MateError, match="no such file"):
        read_yaml(tmp_path / "y.yaml", RunError, "")
