"""Runs of equal settings are called alike, however these were typed."""

import pytest

from mate_cli.cli.config.resolve import resolve
from mate_cli.errors import ConfigError
from mate_cli.runs.identity import configuration_name

CELLS = "experiment=quickstart_cells"


def called(*words: str) -> str:
    plan = resolve([CELLS, *words])
    assert plan.overrides == [CELLS, *words], "what was typed stays known"
    return configuration_name(plan.names.experiment, plan.settings)


@pytest.mark.parametrize(
    ("typed", "same"),
    [
        (["optimizer.lr=1e-4"], ["optimizer.lr=0.0001"]),
        pytest.param(["model=mate"], [], marks=pytest.mark.long),
        pytest.param(["model=tapas", "seed=4"], ["model=tapas", "optimizer.lr=0.001"], marks=pytest.mark.long),
        (["trainer.limit_dev=9", "trainer.limit_test=9"], ["trainer.limit_dev=9"]),
        pytest.param(["optimizer.lr=1e-4", "optimizer.lr=1e-3"], [], marks=pytest.mark.long),
        (["model=linformer", "encoding.max_tokens=9", "model.length=9"], ["model=linformer", "encoding.max_tokens=9"]),
    ],
)
def test_equal_settings_have_one_name(typed, same):
    assert called(*typed) == called(*same)


def test_several_choices_of_a_group_are_named():
    both = called("callbacks=[early_stopping, weight_averaging]")
    assert both == "quickstart_cells · callbacks=[early_stopping,weight_averaging]"
    assert called("callbacks=[weight_averaging]") == "quickstart_cells · callbacks=[weight_averaging]"
    assert called("callbacks=[early_stopping]", "callbacks=none") == called()


def test_other_settings_have_another():
    names = [called(), called("optimizer.lr=1e-4"), called("model=tapas"), called("model=tapas", "optimizer.lr=1e-4")]
    assert len(set(names)) == 4
    assert names[1] == "quickstart_cells · optimizer.lr=0.0001"


def test_a_stage_is_told_apart_by_what_it_takes():
    typed = ["model=mate", "stages.cell_selection.trainer.max_epochs=2", "optimizer.lr=0.5"]
    assert resolve(["experiment=quickstart", *typed]).settings == [
        "optimizer.lr=0.5",
        "stages.cell_selection.trainer.max_epochs=2",
    ]


def test_stages_that_are_left_out_or_replaced_set_a_run_apart():
    words = ["experiment=tabfact_mate_cs", "stages.cs=null", "stages.masked_lm.seed=4", "model.size=tiny"]
    assert resolve(words).settings == ["stages.cs=null", "model.size=tiny"]


def test_a_name_is_of_the_folder_and_of_nothing_else():
    plan = resolve([CELLS, "name=first_try"])
    assert (plan.name, plan.overrides) == ("first_try", [CELLS])
    assert plan.values() == resolve([CELLS]).values()
    with pytest.raises(ConfigError, match="name"):
        resolve([CELLS, "name=a/b"])
