"""The triton backend without a GPU: its tiles, its refusals, its kernels in Python and compiled for an H100."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from batches import batches, one_table, pad
from hypothesis import given

from mate_cli.attention.backends.triton import Triton
from mate_cli.attention.backends.triton_tiles import cut_tiles
from mate_cli.attention.base import AttentionPlan
from mate_cli.attention.patterns import Full, RowColumnHeads, SameRowOrColumn
from mate_cli.attention.segment_tasks import segment_tasks
from mate_cli.errors import ConfigError

SIZE = 16


def run(*command, **environment):
    """A process of its own: Triton reads TRITON_INTERPRET once, when it is imported."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "TRITON_"))}
    return subprocess.run(
        [sys.executable, *command], env=inherited | environment, capture_output=True, text=True, check=False
    )


@pytest.mark.long
def test_the_kernels_in_python():
    pytest.importorskip("triton")
    tests = Path(__file__).with_name("triton_interpreted.py")
    done = run("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(tests), TRITON_INTERPRET="1")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert re.search(r"\d+ passed", done.stdout)


@pytest.mark.long
def test_other_backends_do_without_triton():
    done = run("-c", "import sys, mate_cli.attention.backends.triton as t; t.Triton(); print('triton' in sys.modules)")
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr


@pytest.mark.parametrize("pattern", [RowColumnHeads(4), RowColumnHeads(3, 0.34), Full(2)], ids=str)
@given(batch=batches())
def test_tiles_cover_every_task_once(pattern, batch):
    tasks = segment_tasks(AttentionPlan(pattern, batch))
    tiles = cut_tiles(tasks, SIZE).tiles
    queries, pairs = [], 0
    for first, end, _, num_globals, _, num_locals in tiles.tolist():
        own = range(first, min(end, first + SIZE))
        assert own
        queries += own
        pairs += len(own) * (num_globals + num_locals)
    assert bool(((tiles[:, 3] + tiles[:, 5]).diff() <= 0).all()), "the longest first"
    assert sorted(queries) == list(range(len(tasks.rows)))
    assert pairs * tasks.heads == tasks.pairs


def test_a_batch_of_padding_alone_has_no_tiles():
    batch = pad([one_table(np.random.default_rng(0), 2, 1, 1, 1)])
    empty = batch.__class__(**{**batch.tensors(), "attention_mask": torch.zeros_like(batch.attention_mask)})
    assert not len(cut_tiles(segment_tasks(AttentionPlan(Full(2), empty)), SIZE).tiles)


def test_refusals_name_the_remedy(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="attention=segments"):
        Triton().supports(Full(2))
    with pytest.raises(ConfigError, match="attention=sdpa"):
        Triton().supports(SameRowOrColumn(2))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (7, 5))
    with pytest.raises(ConfigError, match=r"compute capability 8\.0"):
        Triton().supports(Full(2))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    monkeypatch.setattr("mate_cli.attention.backends.triton.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="pip install triton"):
        Triton().supports(Full(2))


@pytest.mark.parametrize("options", [{"tile": 24}, {"tile": 8}, {"step": 100}])
def test_sizes_must_be_powers_of_two(options):
    with pytest.raises(ConfigError, match="powers of two"):
        Triton(**options)
