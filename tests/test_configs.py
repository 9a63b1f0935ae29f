"""Configuration and code stay in step: every file composes, passes the check, and every class can be chosen."""

from __future__ import annotations

import itertools
import shutil

import pytest
from configurations import choosable_classes, composed, files, problem, targets

from mate_cli.cli.config_dir import config_dir
from mate_cli.cli.validate import validate

ROOT = config_dir()
EXPERIMENTS = [file for file in files(ROOT) if file.startswith("experiment/")]
RECIPES = [path.relative_to(ROOT).as_posix() for path in (ROOT / "recipe").rglob("*.yaml")]


@pytest.mark.parametrize("file", files(ROOT))
def test_file(file):
    assert problem(ROOT, file) is None


@pytest.mark.parametrize("file", EXPERIMENTS)
def test_experiment_says_how_it_is_run(file):
    head = (ROOT / file).read_text(encoding="utf-8").splitlines()[:2]
    name = file.removeprefix("experiment/").removesuffix(".yaml")
    assert head == ["# @package _global_", f"# mate train experiment={name}"]


@pytest.mark.parametrize("file", EXPERIMENTS)
@pytest.mark.parametrize("preset", ["fast", "overfit"])
def test_debug_presets_fit_every_experiment(file, preset):
    name = file.removeprefix("experiment/").removesuffix(".yaml")
    config = composed(ROOT, "train", [f"experiment={name}", f"debug={preset}"])
    assert config.trainer.limit_train in (8, 16)


@pytest.mark.parametrize("file", EXPERIMENTS)
def test_the_small_scale_fits_every_experiment(file):
    name = file.removeprefix("experiment/").removesuffix(".yaml")
    config = composed(ROOT, "train", [f"experiment={name}", "scale=small"])
    assert config.init.kind == "minilm"
    if name != "hybridqa_lexical":  # it has no words that MiniLM could know
        validate(config, "train")


def test_every_recipe_is_used():
    used = set()
    for file, scale in itertools.product(EXPERIMENTS, ("minilm", "small")):
        name = file.removeprefix("experiment/").removesuffix(".yaml")
        choices = composed(ROOT, "train", [f"experiment={name}", f"scale={scale}"], hydra=True).hydra.runtime.choices
        used |= {f"recipe/{kind}/{scale}/{choices[kind]}.yaml" for kind in ("model", "task", "data")}
    assert set(RECIPES) <= used
    assert not (ROOT / "recipe" / "task" / "paper").exists()  # an experiment says its paper's numbers itself


def test_stages_name_experiments_that_exist():
    stages = [
        stage.experiment
        for file in EXPERIMENTS
        for stage in (composed(ROOT, "train", [file.removesuffix(".yaml").replace("/", "=")]).stages or {}).values()
    ]
    assert {f"experiment/{stage}.yaml" for stage in stages} <= set(EXPERIMENTS)


def test_every_class_can_be_chosen():
    classes = choosable_classes()
    assert len(classes) >= 10
    assert sorted(set(classes) - targets(ROOT)) == []


BREAKS = {
    "trainer/bad_key.yaml": ("# @package trainer\nmax_stepz: 3\n", "trainer.max_stepz: unknown key"),
    "scheduler/bad_target.yaml": ("_target_: mate_cli.no.Such\n", "scheduler._target_: there is no mate_cli.no.Such"),
    "paths/left_open.yaml": ("outputs: ???\ncache: c\nshared: s\ndata: d\n", "paths.outputs: needs a value"),
    "extra/orphan.yaml": ("a: 1\n", "orphan"),
    "debug/bad_value.yaml": (
        "# @package _global_\ntrainer:\n  log_every: often\n",
        "trainer.log_every: must be an int",
    ),
    "optimizer/bad_argument.yaml": (
        "_target_: mate_cli.lit_modules.optimization.adamw.AdamW\nlearning_rate: 1.0\n",
        "optimizer.learning_rate: unknown key",
    ),
}
"""A file that breaks the tree, and what the check must say of it."""


def test_the_check_finds_what_is_broken(tmp_path):
    root = tmp_path / "conf"
    shutil.copytree(ROOT, root)
    for file, (text, _) in BREAKS.items():
        (root / file).parent.mkdir(exist_ok=True)
        (root / file).write_text(text)
    found = {file: problem(root, file) for file in files(root)}
    assert {file for file, said in found.items() if said} == set(BREAKS)
    for file, (_, expected) in BREAKS.items():
        assert expected in found[file]
