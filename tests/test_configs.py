"""Configuration and code stay in step: every file composes, passes the check, and every class can be chosen."""

from __future__ import annotations

import inspect
import shutil

import pytest
import yaml
from configurations import choosable_classes, composed, files, negative_numbers, problem, targets
from hydra.utils import get_class

from mate_cli.cli.config.validate import validate
from mate_cli.cli.config_dir import config_dir, list_options

ROOT = config_dir()
EXPERIMENTS = [f"experiment/{name}.yaml" for name in list_options("experiment")]


@pytest.mark.sampled(16)
@pytest.mark.parametrize("file", files(ROOT))
@pytest.mark.parametrize("everywhere", [False, pytest.param(True, marks=pytest.mark.long)], ids=["once", "everywhere"])
def test_file(file, everywhere):
    assert problem(ROOT, file, everywhere=everywhere) is None


@pytest.mark.sampled(9)
@pytest.mark.parametrize("file", EXPERIMENTS)
def test_the_small_scale_and_the_debug_presets_fit_every_experiment(file):
    name = file.removeprefix("experiment/").removesuffix(".yaml")
    config = composed(ROOT, "train", [f"experiment={name}", "scale=small", "debug=fast"])
    kind = "random" if name == "hybridqa_lexical" else "minilm"  # it has no words that MiniLM could know
    assert (config.init.kind, config.init.checkpoint) == (kind, None)
    assert not config.init.tokenizer.startswith("google/")  # nothing to download
    assert config.trainer.limit_train == 8
    validate(config, "train")


@pytest.mark.sampled(12)
@pytest.mark.parametrize("file", EXPERIMENTS)
def test_a_negative_number_is_refused_wherever_it_stands(file):
    keys, refused = negative_numbers(composed(ROOT, "train", [file.removesuffix(".yaml").replace("/", "=")]))
    assert len(keys) > 10
    assert {key for key in keys if not any(f"{one}.".startswith(f"{key}.") for one in refused)} == set()


@pytest.mark.parametrize("file", sorted((ROOT / "task").glob("*.yaml")), ids=lambda file: file.stem)
def test_a_task_has_the_same_defaults_in_its_file_and_in_its_class(file):
    written = yaml.safe_load(file.read_text(encoding="utf-8"))
    parameters = inspect.signature(get_class(written.pop("_target_"))).parameters
    assert written == {name: parameters[name].default for name in written}


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
    assert set(BREAKS) <= set(files(root))
    assert problem(root, "debug/fast.yaml") is None
    for file, (_, expected) in BREAKS.items():
        assert expected in (problem(root, file) or ""), file
