"""An experiment of the user's own wins over the scale and its recipes; what is typed wins over it."""

from __future__ import annotations

import pytest
from forked_commands import finish, start

from mate_cli.cli.app import main
from mate_cli.cli.config.reference import explain_keys
from mate_cli.cli.config.resolve import resolve
from mate_cli.cli.config_dir import list_options
from mate_cli.runs.configuration import RunConfig

SCALES = list_options("scale")
FIRST_TRY = "defaults: [wtq_mate]\noptimizer: {lr: 3e-5}\nencoding: {max_tokens: 300}\ntrainer: {max_epochs: 7}"
CHAIN = "defaults:\n  - hybridqa_pointr\n  - override /scale: small\n  - override /model: tapas\noptimizer: {lr: 3e-5}"


@pytest.fixture
def experiment(tmp_path, monkeypatch):
    """Write an experiment of the user's own `./conf`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf" / "experiment").mkdir(parents=True)

    def write(name: str, text: str) -> None:
        (tmp_path / "conf" / "experiment" / f"{name}.yaml").write_text(f"# @package _global_\n{text}\n")

    return write


def configs(*words: str):
    """Return the configuration of each stage that is trained."""
    return {stage.name: RunConfig.model_validate(stage.model_dump()) for stage in resolve(words).stages}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("scale", SCALES)
def test_values_win_over_each_scale_and_what_is_typed_wins_over_them(experiment, scale):
    experiment("first_try", FIRST_TRY)
    config = configs("experiment=first_try", f"scale={scale}", "trainer.max_epochs=2")[""]
    assert (config.optimizer["lr"], config.encoding["max_tokens"], config.trainer.max_epochs) == (3e-5, 300, 2)
    shipped = configs("experiment=wtq_mate", f"scale={scale}")[""]
    assert (config.model["size"], config.init) == (shipped.model["size"], shipped.init)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("scale", SCALES)
def test_any_group_can_be_chosen_and_the_scale(experiment, scale):
    groups = {"scale": scale, "model": "tapas", "init": "bert"}
    lines = "".join(f"\n  - override /{group}: {option}" for group, option in groups.items())
    experiment("other_groups", f"defaults:\n  - wtq_mate{lines}")
    for other in (scale, SCALES[0]):
        typed = resolve(["experiment=wtq_mate", f"scale={other}", "model=tapas", "init=bert"])
        assert resolve(["experiment=other_groups", f"scale={other}"]).values() == typed.values()
    assert resolve(["experiment=other_groups"]).last.names.model == "tapas"


def test_one_extends_another_of_the_users(experiment):
    experiment("first_try", FIRST_TRY)
    experiment("second_try", "defaults:\n  - first_try\n  - override /scale: small\noptimizer: {lr: 2e-5}")
    config = configs("experiment=second_try")[""]
    assert (config.optimizer["lr"], config.encoding["max_tokens"], config.model["size"]) == (2e-5, 300, "minilm:2")


def test_debug_still_shortens_it(experiment):
    experiment("first_try", FIRST_TRY.replace("{max_epochs: 7}", "{max_steps: 50}"))
    assert configs("experiment=first_try", "debug=fast")[""].trainer.max_steps == 2


def test_a_shipped_experiment_that_extends_a_replaced_one_keeps_its_own_choices(experiment):
    experiment("wtq_mate", "defaults:\n  - sqa_mate\n  - override /data: wtq\n  - override /model: mate")
    assert resolve(["experiment=wtq_tapas"]).names.model == "tapas"


@pytest.mark.long
def test_in_stages_it_holds_as_if_it_was_typed(experiment):
    experiment("chain", CHAIN)
    typed = configs("experiment=hybridqa_pointr", "scale=small", "model=tapas", "optimizer.lr=3e-5")
    assert configs("experiment=chain") == typed
    assert configs("experiment=chain", "optimizer.lr=1e-4") == configs(
        "experiment=hybridqa_pointr", "scale=small", "model=tapas", "optimizer.lr=1e-4"
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("scale", SCALES)
def test_overrides_of_its_stages_hold_at_each_scale(experiment, scale):
    stages = "stages: {selecting: {experiment: hybridqa_mate, overrides: [model=sat, optimizer.lr=3e-5]}}"
    experiment("chain", f"defaults:\n  - override /model: tapas\n{stages}\nseed: 5")
    config = configs("experiment=chain", f"scale={scale}")["selecting"]
    assert (config.model["_target_"].split(".")[-2], config.optimizer["lr"], config.seed) == ("sat", 3e-5, 5)
    experiment("first_try", "defaults: [hybridqa_mate]\noptimizer: {lr: 3e-5}")
    experiment("chain", "stages: {selecting: {experiment: first_try}}")
    assert configs("experiment=chain", f"scale={scale}")["selecting"].optimizer["lr"] == 3e-5


def test_a_run_is_not_called_by_what_its_file_sets(experiment):
    experiment("chain", CHAIN)
    assert resolve(["experiment=chain"]).settings == []
    assert resolve(["experiment=chain", "optimizer.lr=1e-4"]).settings == ["optimizer.lr=0.0001"]


@pytest.mark.parametrize("written", ["optimizer:\n  lr: 3e-5", "optimizer: {lr: 3e-5}"])
def test_the_order_is_explained_with_the_file_that_wins(experiment, written):
    experiment("first_try", f"defaults:\n  - wtq_mate\n{written}")
    (lr,) = explain_keys("train", "optimizer.lr", ["experiment=first_try", "scale=small", "optimizer.lr=1"])
    assert [setting.where for setting in lr.settings] == [
        *("conf/optimizer/bert_adamw.yaml", "conf/experiment/base/bert.yaml"),
        *("conf/experiment/base/fine_tuning.yaml", "conf/experiment/wtq_mate.yaml"),
        *("conf/recipe/task/minilm/table_qa.yaml", "conf/experiment/first_try.yaml (yours)", "typed"),
    ]
    assert lr.value == "1"


@pytest.mark.long
def test_a_folder_that_is_typed_holds_experiments_too(experiment, tmp_path, monkeypatch, capsys):
    experiment("first_try", FIRST_TRY)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    words = ["experiment=first_try", "scale=small", "--package", "optimizer.lr"]
    assert main(["train", "--config-dir", "../conf", "--cfg", "job", *words]) == 0
    assert capsys.readouterr().out == "3e-05\n"
    for words in (["explain", "optimizer.lr"], ["train", "--help", "optimizer.lr"]):
        assert main([*words, "experiment=first_try", "--config-dir", "../conf"]) == 0
        assert "optimizer.lr = 3e-05\n" in capsys.readouterr().out
        assert main([*words, "experiment=first_tri", "--config-dir", "../conf"]) == 2
        assert "Did you mean first_try?" in capsys.readouterr().err


def test_other_commands_compose_it_so_too(experiment, capsys):
    experiment("first_try", FIRST_TRY)
    words = ["experiment=first_try", "scale=small", "--package", "optimizer.lr"]
    assert main(["inspect", "--cfg", "job", *words]) == 0
    assert capsys.readouterr().out == "3e-05\n"


@pytest.mark.long
@pytest.mark.parametrize("words", ["--info defaults experiment=first_try", "experiment=first_try --info"])
def test_its_list_of_defaults_is_shown(experiment, words):
    experiment("first_try", "defaults:\n  - wtq_mate\n  - override /scale: small\noptimizer: {lr: 3e-5}")
    assert "| experiment/first_try " in finish(start("train", *words.split()))


def test_a_link_above_its_runs_is_refused_also_below_a_folder(experiment, tmp_path, capsys):
    (tmp_path / "conf" / "experiment" / "lab").mkdir()
    experiment("lab/first_try", "defaults: [/experiment/quickstart_cells]")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outputs" / "train").symlink_to(tmp_path / "elsewhere")
    assert main(["train", "--dry", "debug=fast", "experiment=lab/first_try", "name=a"]) == 2
    assert "outputs/train: is a link that leads out of this folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "command", "said"),
    [
        (
            "defaults: [hybridqa_pointr]\noptimizer: {lrr: 3e-5}",
            "train --cfg job",
            "optimizer.lrr: no stage has this key",
        ),
        ("defaults: [wtq_mate]\ncallbacks: null", "train --cfg job", "callbacks: must be a group of keys"),
        ("defaults: [wtq_mate]", "evaluate run=x", "experiment: mate evaluate does not use this group."),
        (None, "train --dry", "mine.yml: is not read. Rename it to mine.yaml."),
    ],
)
def test_what_is_wrong_in_a_file_or_with_it_is_named(experiment, content, command, said, tmp_path, capsys):
    experiment("mine", content or "")
    if content is None:
        (tmp_path / "conf/experiment/mine.yaml").rename(tmp_path / "conf/experiment/mine.yml")
    assert main([*command.split(), "experiment=mine"]) == 2
    assert said in capsys.readouterr().err


def test_the_options_of_a_users_class_are_explained_and_checked_before_anything_is_written(
    experiment, tmp_path, capsys
):
    (tmp_path / "banded.py").write_text(
        "from typing import Annotated\nfrom pydantic import Field\nfrom mate_cli.models.tapas import Tapas\n"
        'class Banded(Tapas):\n    """A network.\n\n    Args:\n        bands: number of bands.\n    """\n'
        "    def __init__(self, *parts, bands: Annotated[int, Field(gt=0)] = 2, **options) -> None: ...\n"
    )
    (tmp_path / "conf" / "model").mkdir()
    (tmp_path / "conf" / "model" / "banded.yaml").write_text("defaults: [tapas]\n_target_: banded.Banded\nbands: 2\n")
    assert main(["explain", "model.bands", "model=banded"]) == 0
    explained = capsys.readouterr().out
    assert "number of bands" in explained
    assert "greater than 0" in explained
    assert main(["train", "experiment=quickstart_cells", "model=banded", "model.bands=0", "logger=none"]) == 2
    assert "model.bands: must be greater than 0 (got 0)" in capsys.readouterr().err
    assert not (tmp_path / "outputs").exists()
