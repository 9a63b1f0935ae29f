"""The configuration of finished runs."""

import pytest
from configurations import run_config

from mate_cli.errors import RunError, TrustError
from mate_cli.files.safe_load import to_yaml
from mate_cli.runs.configuration import load_config
from mate_cli.runs.folders import first_difference


def written(folder, **changed):
    """The values of a run as its folder holds them."""
    values = run_config(["experiment=quickstart_cells"]).model_dump(mode="json") | changed
    (folder / "config.yaml").write_text(to_yaml(values))
    return values


def test_a_run_is_resumed_with_its_callbacks(tmp_path):
    today = written(tmp_path)
    other = {**today, "callbacks": {"early_stopping": {"_target_": "pytorch_lightning.callbacks.EarlyStopping"}}}
    assert first_difference(tmp_path, other)[0] == "callbacks.early_stopping._target_"


@pytest.mark.parametrize("part", ["callbacks", "logger"])
def test_what_others_log_and_call_is_not_built_without_trust(tmp_path, part):
    written(tmp_path, **{part: {"mine": {"_target_": "os.system", "command": "true"}}})
    with pytest.raises(TrustError, match=f"os.system is not a class of mate that {part}"):
        load_config(tmp_path)


@pytest.mark.parametrize("part", ["optimizer", "scheduler"])
def test_an_optimizer_and_a_schedule_name_a_class(tmp_path, part):
    written(tmp_path, **{part: {}})
    with pytest.raises(RunError, match=f": {part}"):
        load_config(tmp_path)


@pytest.mark.parametrize("key", ["limit_train", "limit_dev", "max_steps"])
def test_a_number_that_no_counter_holds_is_no_setting(tmp_path, key):
    trainer = run_config(["experiment=quickstart_cells"]).trainer.model_dump() | {key: 2**63 - 1}
    written(tmp_path, trainer=trainer)
    with pytest.raises(RunError, match=f"trainer.{key}"):
        load_config(tmp_path)
