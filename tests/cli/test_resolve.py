"""What is typed after `mate train`, and the stages that are composed of it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from mate_cli.cli.app import main
from mate_cli.cli.commands import explain
from mate_cli.cli.commands.train import config_text
from mate_cli.cli.config.resolve import resolve
from mate_cli.cli.config_dir import config_dir, typed_config_dir
from mate_cli.errors import ConfigError, RunError
from mate_cli.files.safe_load import to_yaml
from mate_cli.runs.configuration import read_settings
from mate_cli.runs.identity import flat_keys

CS = "experiment=tabfact_mate_cs"
QUICK = "experiment=quickstart"


def values(*words: str) -> dict[str, dict]:
    """The leaves of each stage of a plan."""
    return {stage.name: flat_keys(stage.model_dump()) for stage in resolve(words).stages}


def each(key: str, *words: str) -> list[object]:
    """A key's value in each stage; None where a stage lacks it."""
    return [stage.get(key) for stage in values(*words).values()]


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """Write files of the user's own `./conf`."""

    def write(name: str, text: str, folder: str = "conf") -> None:
        file = tmp_path / folder / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"# @package _global_\n{text}\n")

    monkeypatch.chdir(tmp_path)
    return write


@pytest.fixture
def finished(tmp_path):
    """Leave a folder as a run would."""

    def leave(*words: str, status: str = "finished", name: str = "run", **record: object) -> Path:
        plan = resolve(words)
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.yaml").write_text(to_yaml(plan.values()))
        known = {"command": "train", "overrides": [], "seed": 1, "status": status, **vars(plan.names), **record}
        (folder / "record.json").write_text(json.dumps(known))
        return folder

    return leave


def test_a_plain_run_is_one_stage_without_a_name():
    plan = resolve(["experiment=quickstart_cells", "seed=7", "~optimizer.weight_decay", "+optimizer.extra=2"])
    (stage,) = plan.stages
    assert (stage.name, stage.seed, plan.upstream_stages, plan.system, plan.override_stages) == ("", 7, (), None, {})
    assert ("weight_decay" in stage.optimizer, stage.optimizer["extra"]) == (False, 2)
    assert plan.values() == stage.model_dump()


def test_what_is_typed_holds_for_every_stage_that_has_the_key():
    words = [QUICK, "task.keep=5", "optimizer.lr=0.5", "debug=fast", "model=tapas", "task.max_span_length=7"]
    plan = resolve(words)
    cells, reader = (flat_keys(stage.model_dump()) for stage in plan.stages)
    assert (cells["task.keep"], reader["task.max_span_length"]) == (5, 7)
    assert "task.keep" not in reader
    assert "task.max_span_length" not in cells
    assert cells["optimizer.lr"] == reader["optimizer.lr"] == 0.5
    assert cells["trainer.max_steps"] == reader["trainer.max_steps"] == 2
    assert [stage.names.model for stage in plan.stages] == ["tapas", "mate"]
    both, first, last = ("cell_selection", "span_reading"), ("cell_selection",), ("span_reading",)
    assert plan.override_stages == {
        "task.keep=5": first,
        "optimizer.lr=0.5": both,
        "debug=fast": both,
        "model=tapas": first,
        "task.max_span_length=7": last,
    }


@pytest.mark.long
def test_files_that_hydra_is_told_to_look_for_serve_every_stage(tmp_path):
    (tmp_path / "optimizer").mkdir()
    (tmp_path / "optimizer" / "mine.yaml").write_text("defaults: [adamw]\nweight_decay: 0.125\n")
    search = f"hydra.searchpath=[file://{tmp_path}]"
    assert each("optimizer.weight_decay", "experiment=hybridqa_pointr", search, "optimizer=mine") == [0.125, 0.125]
    plan = resolve(["experiment=hybridqa_mate", "model=dot", "scale=small", search, "optimizer=mine"])
    assert plan.stages[0].optimizer["weight_decay"] == 0.125
    assert search not in [word for stage in plan.stages for word in stage.overrides]


@pytest.mark.long
def test_what_is_typed_for_one_stage_wins_over_what_is_typed_for_all():
    words = [QUICK, "stages.span_reading.optimizer.lr=0.25", "optimizer.lr=0.5", "stages.span_reading.model=mate"]
    assert each("optimizer.lr", *words) == [0.5, 0.25]
    # A key of the network that the stage selects.
    assert each("model.row_head_ratio", *words, "model.row_head_ratio=0.25")[1] == 0.25
    assert each("model.row_head_ratio", "experiment=hybridqa_pointr", "model.row_head_ratio=0.3") == [0.3, None]


@pytest.mark.long
def test_additions_and_deletions_reach_the_stages_that_have_the_section():
    some = ["~optimizer.clip_value", "stages.span_reading.optimizer=bert_adamw"]
    assert resolve([QUICK, *some]).override_stages == {"~optimizer.clip_value": ("span_reading",)}
    assert each("optimizer.weight_decay", QUICK, "~stages.span_reading.optimizer.weight_decay") == [0.01, None]
    assert each("optimizer.extra", QUICK, "+optimizer.extra=2") == [2, 2]
    assert each("optimizer.lr", QUICK, "++optimizer.lr=0.5") == [0.5, 0.5]
    assert each("optimizer.extra", QUICK, "++stages.span_reading.optimizer.extra=3") == [None, 3]


@pytest.mark.long
def test_choices_and_what_a_stage_keeps():
    plan = resolve([CS, "data=wikisql", "scale=small"])
    assert [stage.names.dataset for stage in plan.stages] == ["corpus", "statements", "wikisql"]
    taken = plan.override_stages
    assert (taken["data=wikisql"], taken["scale=small"]) == (("entailment",), ("masked_lm", "cs", "entailment"))
    kept = resolve([CS, "stages.cs.keeps=[]", "data=wikisql"]).stages
    assert [stage.names.dataset for stage in kept] == ["corpus", "wikisql", "wikisql"]


@pytest.mark.long
def test_a_stage_is_left_out_or_composed_otherwise():
    assert list(values(CS, "~stages.cs")) == ["masked_lm", "entailment"]
    assert each("seed", QUICK, "stages.span_reading.overrides=['seed=5']") == [1, 5]
    assert resolve([QUICK, "stages.cell_selection.experiment=hybridqa_sat"]).names.model == "sat"


WRONG = {
    f"{QUICK} task.keepp=5": "task.keepp: ... (cell_selection, span_reading). ... task.keep=5?",
    f"{QUICK} ~task.keepp": "~task.keep?",
    f"{QUICK} qqq=1": "qqq: no stage has this key",
    f"{QUICK} +qqq=1": "stages.cell_selection: qqq: unknown key",
    f"{QUICK} +optimizer.lr=1": "stages.cell_selection.optimizer.lr: this key exists already",
    f"{QUICK} stages.span_reading.optimizer.lrr=1": "stages.span_reading.optimizer.lrr: unknown key",
    f"{QUICK} stages.spam_reading.seed=2": "stages.spam_reading: ... span_reading?",
    "stages.reading.run=x": "stages.reading: no such stage. This experiment has none",
    f"{QUICK} model=mtae": "model=mtae: ... mate?",
    f"{QUICK} system=pontr": "system=pontr: ... pointr?",
    f"{QUICK} trainer.max_steps=-1": "stages.cell_selection: trainer.max_steps: must be greater than 0 (got -1)",
    f"{QUICK} seed=1,2": "seed=1,2: ... Add -m",
    "experiment=quickstart_cells +encoding.ranker=x": "encoding.ranker: is derived from other keys. Leave it out.",
    f"{QUICK} stages.span_reading.after=x": "stages.span_reading.after: must be 'weights', 'predictions' or 'rows'",
    f"{QUICK} stages.span_reading.after=weights": "stages.span_reading.after: ... no stage follows",
    f"{CS} stages.cs.after=predictions": "stages.cs.after: ... no system combines them",
    f"{CS} stages.cs.keepz=[data]": "stages.cs.keepz: unknown key",
    f"{QUICK} stages.span_reading.experiment=null": "stages.span_reading.experiment: must be text (got None)",
    f"{QUICK} stages.span_reading.experiment=hybridqa_raeder": "hybridqa_reader?",
    f"{QUICK} stages.span_reading.experiment=quickstart": "stages.span_reading.experiment: has stages itself",
    f"{QUICK} stages.cell_selection=null stages.span_reading=null": "stages: all stages are left out",
    f"{QUICK} stages.span_reading.keeps=[task] stages.cell_selection.keeps=[task] task=masked_lm": (
        "task=masked_lm: ... cell_selection, span_reading each"
    ),
    f"{CS} stages.cs.model.size=mini": "stages.cs.model.size=mini: ... Write stages.masked_lm.model.size=mini",
    f"{CS} stages.entailment.init=bert": "stages.entailment.init=bert: entailment starts from the weights of masked_lm",
    f"{CS} stages.cs.overrides=['init.tokenizer=x']": "stages.cs.init.tokenizer=x: cs starts from the weights",
    f"{QUICK} resume=${{nothing}}": "'nothing' not found",
    f"{QUICK} task.keep=${{nothing}}": "stages.cell_selection: task.keep: ... 'nothing' not found",
}
"""Overrides that cannot be trained, and parts of the error."""


@pytest.mark.sampled(6)
@pytest.mark.parametrize("line", WRONG)
def test_what_cannot_be_trained_is_one_clear_error(line, capsys):
    assert main(["train", *line.split()]) == 2
    out, err = capsys.readouterr()
    assert out.count("\n") <= 1, "nothing but the name of the run"
    assert (err[:7], err.count("\n")) == ("error: ", 1)
    assert [part for part in WRONG[line].split(" ... ") if part not in err] == [], err


def test_runs_are_called_by_what_they_were_composed_from():
    plain = resolve(["experiment=quickstart_cells"]).names
    assert (plain.experiment, plain.dataset, plain.init, plain.task) == (
        *("quickstart_cells", "sample", "random", "cell_selection"),
    )
    chain = resolve([CS, "scale=small"])
    assert [stage.names.init for stage in chain.stages] == ["minilm", "minilm + masked_lm", "minilm + masked_lm + cs"]
    assert (chain.names.experiment, chain.names.init) == ("tabfact_mate_cs", "minilm + masked_lm + cs")
    assert (chain.names.task, chain.names.dataset) == ("entailment", "tabfact")
    pointr = resolve(["experiment=hybridqa_pointr", "model=sat"]).names
    assert (pointr.experiment, pointr.task, pointr.model) == ("hybridqa_pointr", "pointr", "sat")
    assert resolve(["experiment=hybridqa_hybrider"]).names.model == "hybrider"


def test_a_later_stage_has_the_shape_and_word_pieces_of_the_weights():
    first, second, last = (stage for stage in resolve([CS, "scale=small"]).stages)
    assert [config.model["size"] for config in (first, second, last)] == ["minilm:2"] * 3
    assert (second.init["kind"], second.init["checkpoint"], second.tokenizer) == ("path", "stages.masked_lm", "minilm")
    assert last.init["checkpoint"] == "stages.cs"


def test_the_configuration_of_a_run_holds_what_its_stages_run_with_and_nothing_else():
    plan = resolve([QUICK, "optimizer.lr=0.5"])
    saved = plan.values()
    assert set(saved) == {"system", "hardware", "logger", "paths", "seed", "deterministic", "stages"}
    for stage in plan.stages:
        assert saved["stages"][stage.name] == {"after": "predictions", **stage.model_dump()}
    chain = resolve([CS])
    assert chain.values() == {
        **chain.last.model_dump(),
        "stages": {stage.name: {"after": "weights", **stage.model_dump()} for stage in chain.stages[:-1]},
    }


def test_a_finished_run_stands_in_for_a_stage(finished):
    run = finished("experiment=pretrain_mate", "scale=small", "model.size=tiny", name="it's [mine], really")
    quoted = f"""stages.masked_lm.run="{run}\""""
    plan = resolve([CS, quoted, "scale=small", "seed=3", "stages.cs.trainer.max_steps=9"])
    _, second, last = plan.stages
    assert plan.values()["stages"]["masked_lm"] == {"after": "weights", "run": str(run)}
    assert [stage.seed for stage in plan.stages] == [3, 3, 3]
    assert plan.override_stages["seed=3"] == ("cs", "entailment")
    assert (second.model["size"], last.model["size"]) == ("tiny", "tiny")
    assert last.names.init == "minilm + masked_lm + cs"


def test_the_newest_finished_run_of_an_experiment_stands_in(finished, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for day, status in ((1, "finished"), (2, "finished"), (3, "failed")):
        run = finished("experiment=pretrain_mate", "scale=small", status=status)
        run.rename(tmp_path / f"outputs-{day}")
    words = [CS, "stages.masked_lm.run=pretrain_mate", "scale=small"]
    with pytest.raises(RunError, match=r"stages.masked_lm.run: there is no finished run of pretrain_mate"):
        resolve(words)
    parent = tmp_path / "outputs" / "train" / "pretrain_mate"
    parent.mkdir(parents=True)
    (tmp_path / "outputs-3").rename(parent / "3")
    with pytest.raises(RunError, match=r"no finished run of pretrain_mate. Train it first: mate train"):
        resolve(words)
    for day in (1, 2):
        (tmp_path / f"outputs-{day}").rename(parent / str(day))
    assert resolve(words).stages[0].run == "outputs/train/pretrain_mate/2"


def test_what_stands_in_tells_a_system_apart(finished):
    run = finished("experiment=hybridqa_tapas", init="bert")
    names = resolve(["experiment=hybridqa_pointr", f"stages.cell_selection.run={run}"]).names
    assert (names.model, names.init, names.experiment) == ("tapas", "bert", "hybridqa_pointr")


def test_a_run_that_cannot_stand_in_is_refused(finished):
    failed = finished("experiment=pretrain_mate", status="failed", name="failed")
    with pytest.raises(RunError, match=r"stages.masked_lm.run: a failed run of masked_lm cannot replace"):
        resolve([CS, f"stages.masked_lm.run={failed}"])
    with pytest.raises(
        RunError, match=r"stages.cs.run: a failed run of masked_lm .* Give a finished run of entailment"
    ):
        resolve([CS, f"stages.cs.run={failed}"])
    with pytest.raises(RunError, match=r"stages.cs.run: this is not a run folder"):
        resolve([CS, "stages.cs.run=nowhere"])
    own = finished("experiment=tabfact_mate", name="own")
    with pytest.raises(ConfigError, match=r"stages.entailment.run: the last stage must be trained by this run"):
        resolve([CS, f"stages.entailment.run={own}"])
    with pytest.raises(ConfigError, match=r"stages.cs.trainer.max_steps=9: a finished run replaces"):
        resolve([CS, f"stages.cs.run={own}", "stages.cs.trainer.max_steps=9"])


@pytest.mark.long
def test_what_is_typed_for_all_is_refused_where_finished_runs_stand_in_for_all_that_have_it(finished):
    selector, reader = finished("experiment=hybridqa_mate"), finished("experiment=hybridqa_reader", name="reader")
    words = ["experiment=hybridqa_pointr", f"stages.cell_selection.run={selector}"]
    for word in ("model=tapas", "task.keep=3"):
        with pytest.raises(ConfigError, match=rf"{word}: finished runs replace all stages .*\(cell_selection\)"):
            resolve([*words, word])
    assert resolve([*words, "data.root=x", "seed=3"]).override_stages["data.root=x"] == ("span_reading",)
    words.append(f"stages.span_reading.run={reader}")
    with pytest.raises(ConfigError, match=r"data.root=x: .*\(cell_selection, span_reading\). Leave it out"):
        resolve([*words, "data.root=x"])
    assert len(resolve([*words, "seed=3", "hardware.threads=1", "paths.outputs=x"]).stages) == 2


def test_a_damaged_configuration_is_one_clear_error(finished):
    run = finished("experiment=pretrain_mate")
    for text in ("", "{", "- a", "\0", "seed: 1", "seed: ${x}"):
        (run / "config.yaml").write_text(text)
        with pytest.raises(RunError) as caught:
            resolve([CS, "stages.entailment=null", f"stages.masked_lm.run={run}"])
        assert str(run) in str(caught.value)


@pytest.mark.long
def test_weights_decide_what_is_typed_for_all_only_where_it_is_trained(finished):
    assert each("model.size", CS, "model.size=mini", "init=bert") == ["mini"] * 3
    run = finished("experiment=pretrain_mate", "model.size=tiny")
    taken = f"stages.masked_lm.run={run}"
    for word in ("model.size=mini", "init=bert"):
        with pytest.raises(ConfigError, match=f"{word}: cs starts from the weights of masked_lm. Leave it out."):
            resolve([CS, taken, word])
    assert each("model.size", CS, taken, "stages.cs.model.size=tiny", "stages.cs.init.heads=false") == ["tiny"] * 3


@pytest.mark.parametrize("experiment", ["experiment=quickstart_cells", QUICK])
@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("resume=null", None),
        ("resume='a folder/it\\'s \"mine\", no=2'", 'a folder/it\'s "mine", no=2'),
        ("resume=${paths.outputs}/x", "outputs/x"),
        ("++resume=last", "last"),
    ],
)
def test_the_run_to_resume(experiment, word, expected):
    spec = resolve([experiment, "resume=first", word])
    assert (spec.resume, spec.overrides) == (expected, [experiment])


def test_what_would_be_trained_is_shown(capsys):
    words = [QUICK, "optimizer.lr=0.5"]
    assert main(["train", *words, "--cfg", "job"]) == 0
    plan, text = resolve(words), capsys.readouterr().out
    whole = yaml.safe_load(text)
    assert whole == yaml.safe_load(to_yaml(plan.values()))
    assert main(["train", *words, "--cfg=job", "-p", "stages.cell_selection.init"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == whole["stages"]["cell_selection"]["init"]
    assert (config_text(plan), config_text(plan, "_global_"), config_text(plan, "seed")) == (text, text, "1\n")
    assert config_text(plan, "stages.cell_selection.trainer.max_steps") == "None\n"
    with pytest.raises(ConfigError, match=r"--package stages.cz: no such part of the configuration"):
        config_text(plan, "stages.cz")


def test_the_users_own_configurations_are_found(mine):
    mine("experiment/mine", "defaults: [quickstart]\nstages: {span_reading: {overrides: [seed=9]}}")
    mine("experiment/other", "trainer: {max_steps: 3}", folder="it's, [else]where")
    assert each("seed", "experiment=mine") == [1, 9]
    with typed_config_dir("it's, [else]where"):
        assert resolve(["experiment=other"]).last.trainer.max_steps == 3
    assert main(["train", "experiment=other", "--cfg", "job", "--config-dir", "it's, [else]where"]) == 0
    with pytest.raises(ConfigError, match=r"--config-dir nowhere: no such folder"), typed_config_dir("nowhere"):
        pass


@pytest.mark.long
def test_the_users_own_files_win_over_those_of_the_package(mine):
    shipped = (config_dir() / "model" / "mate.yaml").read_text(encoding="utf-8")
    mine("model/mate", "")
    mine("experiment/quickstart_cells", "trainer:\n  max_steps: 3")
    Path("conf/model/mate.yaml").write_text(re.sub(r"(?m)^size: .*", "size: tiny", shipped))
    config = resolve(["experiment=quickstart_cells"]).last
    assert (config.model["size"], config.trainer.max_steps) == ("tiny", 3)
    told = explain.text("train", "trainer.max_steps", ["experiment=quickstart_cells"])
    assert "conf/experiment/quickstart_cells.yaml (yours)  3" in told


def test_what_a_shipped_experiment_sets_beside_stages_is_refused(mine):
    mine("experiment/mine", "defaults: [quickstart_cells]\nstages: {one: {experiment: quickstart_cells}}")
    with pytest.raises(ConfigError, match=r"experiment=mine: data is set outside the stages, .*overrides, or type"):
        resolve(["experiment=mine"])


SIZES = {"paper": "large", "minilm": "minilm", "small": "minilm:2"}
EPOCHS = {"paper": (None, 1e-5), "minilm": (3, 1e-4), "small": (1, 1e-4)}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("scale", ["paper", pytest.param("minilm", marks=pytest.mark.long), "small"])
def test_a_scale_brings_the_numbers_that_fit_it(scale):
    (stage,) = values("experiment=hybridqa_mate", f"scale={scale}").values()
    assert stage["model.size"] == SIZES[scale]
    assert (stage["trainer.max_epochs"], stage["optimizer.lr"]) == EPOCHS[scale]
    typed = values("experiment=hybridqa_mate", f"scale={scale}", "optimizer.lr=0.5", "task=span_reading")[""]
    assert typed["optimizer.lr"] == 0.5


def test_recipes_follow_what_each_stage_is():
    assert each("model.lexical_features", "experiment=hybridqa_pointr", "scale=small") == [True, False]
    assert each("trainer.max_steps", CS, "scale=small")[1] == 500  # statements bring their own
    assert values("experiment=pretrain_linformer", "scale=small")[""]["encoding.max_tokens"] == 512


def test_other_weights_keep_the_numbers_of_the_scale():
    words = ["experiment=hybridqa_mate", "scale=minilm"]
    own, other = (values(*words, *more)[""] for more in ([], ["init=path", "init.checkpoint=a"]))
    changed = {key for key in {*own, *other} if own.get(key) != other.get(key)}
    assert {key.partition(".")[0] for key in changed} == {"init"}


def test_a_mistake_in_a_recipe_is_refused(mine, capsys):
    mine("recipe/task/paper/cell_selection", "optimizer: {lr: 0.5}")
    assert values("experiment=hybridqa_mate")[""]["optimizer.lr"] == 0.5
    mine("recipe/task/paper/cell_selection", "optimizer: {lrr: 0.5}")
    Path("x").mkdir()
    assert main(["train", "experiment=hybridqa_mate", "data.root=x"]) == 2
    assert "optimizer.lrr: unknown key. Did you mean optimizer.lr?" in capsys.readouterr().err
    mine("recipe/task/paper/cell_selection", "trianer: {max_steps: 2}")
    assert main(["train", "experiment=hybridqa_mate"]) == 2
    assert "trianer: unknown key. Did you mean trainer?" in capsys.readouterr().err


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two stages of a weight chain, two steps each."""
    folder = tmp_path_factory.mktemp("trained")
    stages = "stages={first:{experiment:quickstart_cells,after:weights},second:{experiment:quickstart_cells}}"
    words = [
        stages,
        "debug=fast",
        "logger=none",
        f"paths.outputs={folder}",
        f"paths.cache={folder}",
        "hardware.threads=1",
    ]
    words = [*words, "stages.second.seed=2", "stages.first.optimizer.lr=0.01"]
    assert main(["train", *words]) == 0
    (file,) = folder.glob("train/*/*/config.yaml")
    return file.parent, resolve(words)


@pytest.mark.long
def test_every_stage_was_trained_as_the_run_says(trained):
    run, plan = trained
    saved = read_settings(run)
    node = saved["stages"]["first"]
    assert read_settings(run / "first") == {key: value for key, value in node.items() if key != "after"}
    resolved = yaml.safe_load(to_yaml(plan.values()))
    for values in (saved, node, resolved, resolved["stages"]["first"]):
        del values["hardware"]  # the run says which it was
    assert saved == resolved
    assert (node["seed"], saved["seed"], saved["init"]["checkpoint"]) == (1, 2, "stages.first")
    assert json.loads((run / "record.json").read_text())["init"] == "random + first"


@pytest.mark.long
def test_a_stage_that_was_trained_stands_in_for_another(trained):
    run, _ = trained
    stages = "stages={before:{experiment:quickstart_cells,after:weights},second:{experiment:quickstart_cells}}"
    plan = resolve([stages, f"stages.before.run={run / 'first'}"])
    assert plan.last.names.init == "random + before"
    assert plan.values()["stages"]["before"] == {"after": "weights", "run": str(run / "first")}


@pytest.mark.long
@pytest.mark.parametrize(
    "system", [*(pytest.param(odd, marks=pytest.mark.long) for odd in (None, {})), 3, {"_target_": "mate_cli.no.Such"}]
)
def test_a_system_that_its_run_does_not_name_is_one_clear_error(system, finished, capsys):
    run = finished(QUICK, stages={"cell_selection": "x", "span_reading": "y"})
    saved = yaml.safe_load((run / "config.yaml").read_text())
    (run / "config.yaml").write_text(yaml.safe_dump({**saved, "system": system}))
    (run / "x.jsonl").write_text("{}\n")
    for words in (["evaluate", f"run={run}"], ["predict", f"run={run}", f"input={run / 'x.jsonl'}"]):
        assert main(words) == 2
        err = capsys.readouterr().err
        assert err.startswith(f"error: {run / 'config.yaml'}: ")


def test_several_stages_cannot_be_inspected(capsys):
    assert main(["inspect", QUICK]) == 2
    assert capsys.readouterr().err == (
        "error: stages: this experiment has several stages, each with its own encoding. "
        "Use experiment=quickstart_cells or experiment=quickstart_reader.\n"
    )
