"""Ways out of the folder of a run: only what is typed is trusted, whatever its own file says of trust."""

import json
import sys
from pathlib import Path

import pytest
from configurations import run_config
from finished_runs import SMALL
from hostile import PARTS
from hydra._internal import target_policy

from mate_cli.cli.app import main
from mate_cli.cli.config.resolve import resolve
from mate_cli.errors import RunError, TrustError
from mate_cli.files.safe_load import to_yaml
from mate_cli.files.sandbox import check_inside_run, default_cache, remove_paths, restrict_to_folder
from mate_cli.files.targets import check_targets
from mate_cli.pipelines.run_spec import load_spec

LIGHTNING = "pytorch_lightning"
SAVE = f"{LIGHTNING}.callbacks.ModelCheckpoint"
CSV = f"{LIGHTNING}.loggers.CSVLogger"
PROFILER = f"{LIGHTNING}.profilers.SimpleProfiler"
WANDB = "mate_cli.runs.loggers.wandb_logger"
REMOVED = [
    {"callbacks": {"x": {"_target_": SAVE, "dirpath": "/elsewhere"}}},
    {"callbacks": {"x": {"_target_": SAVE, "dirpath": "outputs/train/other"}}},
    {"callbacks": {"x": {"_target_": SAVE, "_args_": ["elsewhere"]}}},
    {"callbacks": {"x": {"_target_": SAVE, "filename": "../../other/last"}}},
    {"callbacks": {"x": {"_target_": SAVE, "dirpath": "~/x"}}},
    {"callbacks": {"x": {"_target_": SAVE, "filename": "{step:c}{step:c}/x"}}},  # ../x at 46
    {"callbacks": {"x": {"_target_": SAVE, "filename": "{epoch:/>2}x"}}},
    {"callbacks": {"x": {"_target_": SAVE, "filename": "{epoch:{0}}"}}},
    {"logger": {"x": {"_target_": CSV, "save_dir": "elsewhere"}}},
    {"logger": {"x": {"_target_": CSV, "version": "../../x"}}},
    {"logger": {"x": {"_target_": CSV, "save_dir": "http://a/b"}}},
    {"logger": {"x": {"_target_": f"{LIGHTNING}.loggers.WandbLogger", "offline": True}}},
    {"logger": {"x": {"_target_": f"{LIGHTNING}.loggers.CometLogger"}}},
    {"logger": {"x": {"_target_": f"{LIGHTNING}.loggers.MLFlowLogger"}}},
    {"logger": {"x": {"_target_": f"{LIGHTNING}.loggers.MLFlowLogger", "tracking_uri": "databricks"}}},
    {"trainer": {"options": {"profiler": {"_target_": PROFILER, "dirpath": "/elsewhere"}}}},
    {"trainer": {"options": {"profiler": {"_target_": PROFILER, "filename": "/elsewhere/x"}}}},
]


def plain(values):
    """A configuration as YAML without aliases."""
    return to_yaml(json.loads(json.dumps(values)))


@pytest.mark.parametrize("config", REMOVED)
def test_what_leads_out_is_removed_unless_paths_are_trusted(tmp_path, config):
    for made in (config, {"stages": {"first": config}}):
        inside, removed = remove_paths(made, tmp_path)
        assert removed
        assert remove_paths(inside, tmp_path) == (inside, [])
        assert inside != made
        assert restrict_to_folder(made, tmp_path, ["another"], "config.yaml") == inside
        assert restrict_to_folder(made, tmp_path, ["paths"], "config.yaml") == made


@pytest.mark.parametrize(
    ("config", "inside"),
    [
        ({"paths": {"cache": "/x"}}, {"paths": {"cache": "~/.cache/mate"}}),
        ({"data": {"root": "/x", "download": "auto"}}, {"data": {"root": "/x", "download": False}}),
        ({"data": {"cache": "/x"}}, {"data": {"cache": "~/.cache/mate"}}),
        (
            {"stages": {"a": {"paths": {"outputs": "/x"}, "origin": {"shared": True}}}},
            {"stages": {"a": {"paths": {"outputs": "FOLDER"}, "origin": {"shared": True}}}},
        ),
        (
            {"logger": {"wandb": {"_target_": WANDB, "mode": "online"}}},
            {"logger": {"wandb": {"_target_": WANDB, "mode": "offline"}}},
        ),
    ],
)
def test_what_can_stay_inside_does(tmp_path, monkeypatch, config, inside):
    monkeypatch.delenv("MATE_CACHE", raising=False)
    assert restrict_to_folder(config, tmp_path, [], "config.yaml") == json.loads(
        json.dumps(inside).replace("FOLDER", str(tmp_path))
    )


def test_names_and_formats_of_numbers_are_kept(tmp_path):
    names = {"_target_": SAVE, "filename": "{epoch:02d}-{dev/f1:.3f}", "monitor": "dev/f1"}
    config = {"callbacks": {"x": names}, "logger": {"csv": {"_target_": CSV, "name": "csv"}}}
    assert remove_paths(config, tmp_path) == (config, [])


def test_a_link_that_leads_out_is_refused(tmp_path):
    (tmp_path / "kept").symlink_to(tmp_path.parent)
    with pytest.raises(RunError, match="kept: is a link that leads out of this folder"):
        check_inside_run(tmp_path)


def test_files_that_lie_elsewhere_too_are_refused(tmp_path):
    (tmp_path / "notes.md").write_text("mine")
    (tmp_path / "run" / "csv").mkdir(parents=True)
    (tmp_path / "run" / "csv" / "hparams.yaml").hardlink_to(tmp_path / "notes.md")
    with pytest.raises(RunError, match=r"hparams\.yaml: is a hard link"):
        check_inside_run(tmp_path / "run")


@pytest.mark.parametrize("place", ["run", "."])
def test_settings_of_wandb_that_come_with_a_run_are_refused(tmp_path, monkeypatch, capsys, place):
    file = tmp_path / "project" / place / "wandb" / "settings"
    file.parent.mkdir(parents=True)
    file.write_text("[default]\nbase_url = http://127.0.0.1:1\n")
    (tmp_path / "project" / "run").mkdir(exist_ok=True)
    monkeypatch.chdir(tmp_path / "project")
    (tmp_path / "project" / "run" / "config.yaml").write_text(
        plain(resolve(["experiment=quickstart_cells", *SMALL]).document(Path("run")))
    )
    monkeypatch.chdir(tmp_path)
    assert main(["run", "project/run"]) == 2
    assert "wandb/settings: could name another server of W&B. Remove it." in capsys.readouterr().err


def test_trust_that_a_folder_claims_for_its_stages_is_not_believed(tmp_path, monkeypatch):
    mark, inner = tmp_path / "mark", tmp_path / "run" / "first"
    spec = resolve(["experiment=quickstart_cells", *SMALL])
    inner.mkdir(parents=True)
    values = run_config(SMALL).model_dump(mode="json")
    values["data"] = {"_target_": "helper.Harm"}
    (inner / "config.yaml").write_text(to_yaml(values))
    (tmp_path / "run" / "helper.py").write_text(f"open({str(mark)!r}, 'w')\nclass Harm: pass\n")
    document = spec.document(Path())
    document["stages"] = {
        "first": {"after": "weights", "run": str(inner), "origin": {**document["origin"], "shared": False}}
    }
    document["stages"]["first"]["origin"]["trust"] = document["origin"]["trust"] = ["helper"]
    document["trust"] = ["helper"]
    file = tmp_path / "run" / "config.yaml"
    file.write_text(plain(document))
    monkeypatch.chdir(file.parent)
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(TrustError, match=r"helper\.Harm is not a class of mate"):
        load_spec(file)
    assert not mark.exists()
    assert load_spec(file, ["helper"]).stages[0].data == values["data"]
    assert mark.exists()


def test_own_processes_are_told_all_that_was_typed(tmp_path):
    words = [f"+callbacks.x._target_={SAVE}", f"+callbacks.x.dirpath={tmp_path}/kept", "logger.wandb.mode=online"]
    spec = resolve(["experiment=quickstart_cells", *SMALL, *words, f"paths.cache={tmp_path}/cache"])
    trusted = spec.required_trust()
    assert trusted == ["paths"]
    file = tmp_path / "run" / "config.yaml"
    file.parent.mkdir()
    file.write_text(to_yaml(spec.document(Path())))
    assert load_spec(file, trusted).values() == spec.values()
    config = load_spec(file).last
    assert "dirpath" not in config.callbacks["x"]
    assert (config.logger["wandb"]["mode"], config.paths.cache) == ("offline", default_cache())


@pytest.mark.parametrize("name", ["../other", "/elsewhere", "a/../../b"])
def test_names_of_stages_and_experiments_stay_inside(tmp_path, name):
    document = resolve(["experiment=quickstart_cells", *SMALL]).document(Path())
    stage = {**document, "after": "weights", "origin": {**document["origin"], "shared": True}}
    for stages in ({name: stage}, {"first": {**stage, "origin": {**stage["origin"], "experiment": name}}}):
        (tmp_path / "config.yaml").write_text(plain({**document, "stages": stages}))
        with pytest.raises(TrustError, match="is not the name of a folder"):
            load_spec(tmp_path / "config.yaml")


@pytest.mark.parametrize("value", [5, "x", ["x"]])
def test_hashes_of_files_that_are_none_are_one_line(tmp_path, value):
    document = resolve(["experiment=quickstart_cells", *SMALL]).document(Path())
    document["origin"]["conf"] = value
    (tmp_path / "config.yaml").write_text(plain(document))
    with pytest.raises(RunError, match="it does not fit this version of mate"):
        load_spec(tmp_path / "config.yaml")


@pytest.mark.parametrize("part", [*PARTS, "callbacks", "logger", "trainer", "system"])
def test_what_hydra_blocks_is_refused_by_ours(part):
    names = {name for value in vars(target_policy).values() if isinstance(value, frozenset) for name in value}
    assert len(names) > 100
    for name in names:
        with pytest.raises(TrustError):
            check_targets({part: {"x": {"_target_": name}}}, "config.yaml", [])


def test_a_default_run_needs_no_trust():
    assert resolve(["experiment=quickstart_cells"]).required_trust(Path()) == []
    assert Path(resolve(["experiment=quickstart_cells"]).last.paths.outputs) == Path("outputs")
