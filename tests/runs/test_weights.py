"""Weights on disk."""

import torch

from mate_cli.runs.weights import load_module, save_module


def test_weights_can_be_read_back_and_by_whoever_may_read_other_new_files(tmp_path):
    module, other = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    save_module(module, tmp_path / "weights.safetensors")
    load_module(other, tmp_path / "weights.safetensors")
    assert torch.equal(module.weight, other.weight)
    ordinary = tmp_path / "ordinary"
    ordinary.touch()
    assert (tmp_path / "weights.safetensors").stat().st_mode == ordinary.stat().st_mode
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ordinary", "weights.safetensors"]
