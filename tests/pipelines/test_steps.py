"""What optimizer steps of a run are made of: all micro-batches of the same examples, clipped, at the scheduled rate."""

import json
import os
import signal

import pytest
import torch
from finished_runs import only_run
from torch.optim.optimizer import register_optimizer_step_post_hook

from mate_cli.cli.app import main
from mate_cli.lit_modules.lit_task import LitTask

TINY = [
    *("experiment=quickstart_cells", "logger=none", "hardware.threads=1", "encoding.max_tokens=64"),
    *(
        *("trainer.limit_train=24", "trainer.limit_dev=2", "trainer.val_every=1", "trainer.batch_size=8"),
        "trainer.max_steps=5",
    ),
    *("optimizer.lr=0.01", "scheduler=linear", "scheduler.warmup=0.4", "trainer.gradient_clip=0.05"),
]


@pytest.fixture
def train(tmp_path, monkeypatch):
    """Return what trains in `tmp_path`; it returns the gradient, rate and examples of each step, up to a signal."""
    learn = LitTask.training_step

    def run(outputs, *words, interrupt_at=None):
        steps, seen = [], []

        def learn_noted(module, batch, index):
            seen.extend(batch.example_ids)
            if index == interrupt_at:
                os.kill(os.getpid(), signal.SIGINT)
            return learn(module, batch, index)

        def note(optimizer, *_):
            gradients = [p.grad.flatten() for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
            steps.append((torch.cat(gradients).clone(), optimizer.param_groups[0]["lr"], sorted(seen)))
            seen.clear()

        monkeypatch.setattr(LitTask, "training_step", learn_noted)
        hook = register_optimizer_step_post_hook(note)
        try:
            status = main(["train", *TINY, f"paths.outputs={tmp_path / outputs}", *words])
        finally:
            hook.remove()
        assert status == (0 if interrupt_at is None else 130)
        return steps

    return run


@pytest.mark.long
def test_steps_depend_neither_on_micro_batches_nor_on_a_resume_with_others(train, tmp_path):
    whole = train("whole", "hardware.micro_batch=8")
    before = train("parts", "hardware.micro_batch=4", interrupt_at=4)
    parts = [*before, *train("parts", "hardware.micro_batch=2", "resume=last")]
    assert (len(before), len(parts)) == (3, 5)
    assert len({name for _, _, names in whole[:3] for name in names}) == 24
    for (gradient, _, names), (expected, _, expected_names) in zip(parts, whole, strict=True):
        assert names == expected_names
        assert (gradient - expected).norm() < 1e-3 * expected.norm()
        assert gradient.norm().item() == pytest.approx(0.05, rel=1e-4)
    for outputs in ("whole", "parts"):
        rows = map(json.loads, (only_run(tmp_path / outputs) / "metrics.jsonl").read_text().splitlines())
        assert [row["step"] for row in rows if "dev/hits@1" in row] == [3, 5]
    assert [rate / 0.01 for _, rate, _ in parts] == pytest.approx([1 / 3, 2 / 3, 1, 2 / 3, 1 / 3])
