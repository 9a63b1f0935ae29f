"""What may lie in the place of a run's last state; runs that meet such are in `test_resume.py`."""

import pytest
import torch

from mate_cli.errors import CheckpointError, RunError
from mate_cli.runs.checkpoints import last_step, read_state, wrap_resume_errors

WHOLE = {
    "global_step": 3,
    "state_dict": {"a": torch.zeros(2)},
    "loops": {},
    "callbacks": {},
    "optimizer_states": [{}],
    "lr_schedulers": [{}],
}
ODD = {
    "a list": [1],
    "a text": "x",
    "nothing": {},
    "a step in words": {**WHOLE, "global_step": "three"},
    "a negative step": {**WHOLE, "global_step": -1},
    "a step that is a truth": {**WHOLE, "global_step": True},
    "no weights": {**WHOLE, "state_dict": None},
    "no optimizer": {**WHOLE, "optimizer_states": []},
    "no schedule": {key: value for key, value in WHOLE.items() if key != "lr_schedulers"},
}


@pytest.mark.parametrize("step", [0, 1, 3])
def test_a_whole_one_is_read(tmp_path, step):
    torch.save({**WHOLE, "global_step": step}, tmp_path / "last.ckpt")
    assert last_step(tmp_path / "last.ckpt") == step
    assert last_step(None) is None


@pytest.mark.parametrize("name", ODD)
def test_an_odd_one_is_damaged(tmp_path, name):
    torch.save(ODD[name], tmp_path / "last.ckpt")
    with pytest.raises(CheckpointError, match=r"last\.ckpt: the checkpoint is damaged: .*Move it away to train"):
        read_state(tmp_path / "last.ckpt")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x80\x02}q\x00.", bytes(1000)])
def test_what_is_no_checkpoint_is_damaged(tmp_path, content):
    (tmp_path / "last.ckpt").write_bytes(content)
    with pytest.raises(CheckpointError, match="the checkpoint is damaged"):
        read_state(tmp_path / "last.ckpt")


def test_until_the_first_step_a_failure_is_a_misfit(tmp_path):
    with (
        pytest.raises(CheckpointError, match=r"last\.ckpt: it does not fit this run: it has no 'x'"),
        wrap_resume_errors(tmp_path / "last.ckpt", lambda: False),
    ):
        raise KeyError("x")
    for path, has_begun, error in (
        (tmp_path, True, KeyError("x")),
        (None, False, KeyError("x")),
        (tmp_path, False, RunError("the loss is nan")),
    ):
        with pytest.raises(type(error)), wrap_resume_errors(path, lambda has_begun=has_begun: has_begun):
            raise error
