"""Weights on disk."""

import os

import pytest
import torch

from mate_cli.errors import CheckpointError
from mate_cli.runs.checkpoints import load_module, save_module, sha256


def test_weights_can_be_read_back_and_by_whoever_may_read_other_new_files(tmp_path):
    module, other = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    save_module(module, tmp_path / "weights.safetensors")
    load_module(other, tmp_path / "weights.safetensors")
    assert torch.equal(module.weight, other.weight)
    save_module(other, tmp_path / "again.safetensors")
    assert sha256(tmp_path / "weights.safetensors") == sha256(tmp_path / "again.safetensors")
    (tmp_path / "again.safetensors").unlink()
    ordinary = tmp_path / "ordinary"
    ordinary.touch()
    assert (tmp_path / "weights.safetensors").stat().st_mode == ordinary.stat().st_mode
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ordinary", "weights.safetensors"]


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_weights_that_are_no_numbers_are_refused(tmp_path, value):
    module = torch.nn.Linear(3, 2)
    module.bias.data[1] = float(value)
    save_module(module, tmp_path / "weights.safetensors")
    with pytest.raises(CheckpointError, match=r"weights\.safetensors: bias has values that are NaN or infinite"):
        load_module(torch.nn.Linear(3, 2), tmp_path / "weights.safetensors")


def test_a_pipe_in_the_place_of_weights_is_no_reason_to_wait(tmp_path):
    os.mkfifo(tmp_path / "weights.safetensors")
    with pytest.raises(CheckpointError, match="weights cannot be read: it is not a regular file"):
        load_module(torch.nn.Linear(3, 2), tmp_path / "weights.safetensors")
