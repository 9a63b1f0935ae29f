"""What optimizer steps of a run are made of: the gradient of all micro-batches, clipped, at the scheduled rate."""

import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from mate_cli.cli.app import main

TINY = [
    *("experiment=quickstart_cells", "logger=none", "hardware.threads=1", "encoding.max_tokens=64"),
    *("trainer.limit_train=24", "trainer.limit_dev=2", "trainer.batch_size=8", "trainer.max_steps=5"),
    *("optimizer.lr=0.01", "scheduler=linear", "scheduler.warmup=0.4"),
]


@pytest.fixture(scope="module")
def steps(tmp_path_factory):
    """Return the gradient and the learning rate of each step of a run with these settings."""

    def train(*words):
        found = []

        def note(optimizer, *_):
            gradients = [p.grad.flatten() for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
            found.append((torch.cat(gradients).clone(), optimizer.param_groups[0]["lr"]))

        hook = register_optimizer_step_post_hook(note)
        try:
            assert main(["train", *TINY, f"paths.outputs={tmp_path_factory.mktemp('run')}", *words]) == 0
        finally:
            hook.remove()
        return found

    return train


def test_micro_batches_add_up_to_the_same_gradients_clipped_once(steps):
    whole, parts = (steps(f"hardware.micro_batch={size}", "trainer.gradient_clip=0.05") for size in (8, 2))
    for (gradient, _), (expected, _) in zip(parts, whole, strict=True):
        assert (gradient - expected).norm() < 1e-4 * expected.norm()
        assert gradient.norm().item() == pytest.approx(0.05, rel=1e-4)
    assert [rate / 0.01 for _, rate in parts] == pytest.approx([1 / 3, 2 / 3, 1, 2 / 3, 1 / 3])
