"""The loss of an optimizer step and its gradient do not depend on micro-batches and ranks, for any task."""

from dataclasses import replace

import pytest
import torch
from configurations import run_config
from hydra.utils import instantiate
from small_releases import SAMPLES

from mate_cli.lit_modules import lit_task
from mate_cli.lit_modules.base import add_up
from mate_cli.lit_modules.lit_task import CountedSteps
from mate_cli.pipelines.assembly import assemble

SMALL = ["init=random", "model.size=tiny", "init.tokenizer=sample", "encoding.max_tokens=128", "hardware=cpu"]
CORPUS = ["data.sources=[sample]", "data.exclude=[sample/dev,sample/test]", "hardware.workers=0"]
TASKS = {
    "quickstart_cells": [],
    "quickstart_reader": [],
    "quickstart_dot": ["model.keep=40"],
    "wtq_mate": ["wtq"],
    "wikisql_supervised_mate": ["wikisql"],
    "tabfact_mate": ["tabfact"],
    "squad_reader": ["squad"],
    "spider_sql": ["spider"],
    "hotpotqa_xh": ["hotpotqa"],
    "tabfact_xh": ["tabfact"],
    "hybridqa_xh": ["sample"],
    "logiqa_deeper": ["reclor"],
    "pretrain_mate": CORPUS,
}
LONG, SLOW = pytest.mark.long, ("quickstart_cells", "quickstart_reader", "logiqa_deeper", "wikisql_supervised_mate")
"""Tasks whose loss is a mean over examples alone, as that of others that stay in `make test`."""
SIZE = 8


def build(name, tmp_path):
    """Return a task in eval mode, thus without dropout, and its encodings and loader options."""
    words = [f"experiment={name}", f"paths.cache={tmp_path}", *SMALL]
    more = TASKS[name]
    if more and more[0] in SAMPLES:
        sample = SAMPLES[more[0]]
        words += [f"data.root={sample.write(tmp_path / 'data')}", *(f"data.{k}={v}" for k, v in sample.options.items())]
    else:
        words += ["data=sample"] if more == ["sample"] else more
    config = run_config(words)
    parts = assemble(config, instantiate(config.data))
    if name == "pretrain_mate":
        return parts, parts.data.stream.some(SIZE)
    if name == "spider_sql":  # as in a run: without DT-Fixup's factors its deep layers amplify rounding
        parts.initializer.prepare(parts.task.encoder, parts.data.every_batch(), parts.report, lambda find: find())
    encodings = parts.data.encodings("train", training=True)
    found = [encodings[place % len(encodings)] for place in range(SIZE)]
    # What may be unknown of an example is not known of some, more of them in one part of the step.
    if name in ("tabfact_mate", "hotpotqa_xh"):
        found = [replace(one, class_ids=None) if place in (0, 1, 2, 5) else one for place, one in enumerate(found)]
    if name == "tabfact_xh":
        found = [replace(one, label_ids=one.input_ids * 0 + (place in (0, 1, 6))) for place, one in enumerate(found)]
    return parts, found


def step_of(parts, found, micro_batch, ranks, monkeypatch):
    """Return the loss of a step, as Lightning averages it, and its gradient; the ranks take their turns."""
    cuts = range(0, SIZE, micro_batch)
    batches = [parts.data.loading.batch(found[start : start + micro_batch]) for start in cuts]
    shares = [batches[rank::ranks] for rank in range(ranks)]
    reached: list = []  # what each rank would send the others
    with monkeypatch.context() as patch:
        patch.setattr(lit_task, "add_up", lambda sums: reached.append(sums) or add_up(sums))
        for share in shares:
            next(iter(CountedSteps(share, parts.task, len(share))))
        totals = {name: sum(sums[name] for sums in reached).tolist() for name in reached[0]}
        patch.setattr(lit_task, "add_up", lambda sums: totals)
        parts.task.zero_grad()
        losses = [
            parts.task.loss(batch) / len(batches)
            for share in shares
            for batch in CountedSteps(share, parts.task, len(share))
        ]
    torch.stack(losses).sum().backward()
    gradients = [one.grad.flatten() for one in parts.task.parameters() if one.grad is not None]
    return sum(losses).item(), torch.cat(gradients)


@pytest.mark.parametrize("name", [pytest.param(name, marks=LONG if name in SLOW else []) for name in TASKS])
def test_a_step_is_the_same_for_any_micro_batch_and_any_number_of_ranks(name, tmp_path, monkeypatch):
    parts, found = build(name, tmp_path)
    parts.task.eval()
    whole = parts.task.loss(parts.data.loading.batch(found)).item()
    expected, gradients = step_of(parts, found, SIZE, 1, monkeypatch)
    assert expected == pytest.approx(whole, rel=1e-6)
    assert expected > 0
    for micro_batch, ranks in ((4, 1), (2, 2), (1, 1)):
        loss, found_gradients = step_of(parts, found, micro_batch, ranks, monkeypatch)
        assert loss == pytest.approx(expected, abs=1e-5)
        assert (found_gradients - gradients).norm() < 1e-4 * gradients.norm()


def test_a_filler_has_no_loss_and_does_not_count(tmp_path, monkeypatch):
    parts, found = build("tabfact_mate", tmp_path)
    parts.task.eval()
    batch = parts.data.loading.batch(found[:4])
    steps = CountedSteps([batch, replace(batch, is_filler=True)], parts.task, 2)
    losses = [parts.task.loss(one).item() / 2 for one in steps]
    assert losses == [pytest.approx(parts.task.loss(batch).item()), 0]
