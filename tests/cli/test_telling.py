"""Runs of equal settings are called alike, however these were typed."""

import pytest

from mate_cli.cli.config import telling as module
from mate_cli.cli.config.plan import compose_plan
from mate_cli.cli.config.telling import telling
from mate_cli.errors import ConfigError
from mate_cli.runs.names import configuration_name

CELLS = "experiment=quickstart_cells"


def called(*words: str) -> str:
    plan = telling(compose_plan([CELLS, *words]))
    assert plan.overrides == [CELLS, *words], "what was typed stays known"
    return configuration_name(plan.names.experiment, plan.settings)


@pytest.mark.parametrize(
    ("typed", "same"),
    [
        (["optimizer.lr=1e-4"], ["optimizer.lr=0.0001"]),
        pytest.param(["model=mate"], [], marks=pytest.mark.long),
        pytest.param(["optimizer.lr=1e-3"], ["seed=4"], marks=pytest.mark.long),
        pytest.param(["model=tapas"], ["model=tapas", "optimizer.lr=0.001"], marks=pytest.mark.long),
        pytest.param(["trainer.val_every=3"], ["trainer.val_every=3.0"], marks=pytest.mark.long),
        (["trainer.limit_dev=9", "trainer.limit_test=9"], ["trainer.limit_dev=9"]),
        pytest.param(["optimizer.lr=1e-4", "optimizer.lr=1e-3"], [], marks=pytest.mark.long),
        (["model=linformer", "encoding.max_tokens=9", "model.length=9"], ["model=linformer", "encoding.max_tokens=9"]),
    ],
)
def test_equal_settings_have_one_name(typed, same):
    assert called(*typed) == called(*same)


def test_other_settings_have_another():
    names = [called(), called("optimizer.lr=1e-4"), called("model=tapas"), called("model=tapas", "optimizer.lr=1e-4")]
    assert len(set(names)) == 4
    assert names[1] == "quickstart_cells · optimizer.lr=0.0001"


def test_values_that_are_no_defaults_are_known_without_composing_the_rest(monkeypatch):
    words = ["trainer.limit_dev=9", "optimizer.lr=0.0001", "task.keep=3", "seed=2"]
    plan = compose_plan([CELLS, *words])
    monkeypatch.setattr(module, "compose_plan", lambda *_: pytest.fail("a word is left out to see what it does"))
    assert telling(plan).settings == [CELLS, *words]


def test_a_stage_is_told_apart_by_what_it_takes():
    plan = telling(compose_plan(["experiment=quickstart", "model=mate", "stages.cell_selection.trainer.max_epochs=2"]))
    assert plan.settings == ["experiment=quickstart", "stages.cell_selection.trainer.max_epochs=2"]


def test_a_name_is_of_the_folder_and_of_nothing_else():
    plan = compose_plan([CELLS, "name=first_try"])
    assert (plan.name, plan.overrides) == ("first_try", [CELLS])
    assert plan.values() == compose_plan([CELLS]).values()
    with pytest.raises(ConfigError, match="name"):
        compose_plan([CELLS, "name=a/b"])
