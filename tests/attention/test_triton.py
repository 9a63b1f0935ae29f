"""The triton backend without a GPU: its tiles, its refusals, its kernels in Python and compiled for an H100."""

import os
import re
import subprocess
import sys
from itertools import pairwise
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

SIZES = (16, 64)


def tables_of(tiling):
    """The tiles of each size."""
    return [tiling.tiles[first:end] for first, end in pairwise((0, *tiling.ends))]


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
    tiling = cut_tiles(tasks, SIZES)
    queries, pairs = [], 0
    for size, table in zip(SIZES, tables_of(tiling), strict=True):
        for first, end, _, num_globals, _, num_locals, plane in table.tolist():
            own = range(first, min(end, first + size))
            assert own
            assert plane == 0
            queries += own
            pairs += len(own) * (num_globals + num_locals)
        lengths = table[:, 3] + table[:, 5]
        assert bool((lengths.diff() <= 0).all())
    assert sorted(queries) == list(range(len(tasks.rows)))
    assert pairs * tasks.heads == tasks.pairs


def test_short_tasks_get_small_tiles_and_long_key_lists_the_large_ones():
    batch = pad([one_table(np.random.default_rng(0), 8, 300, 4, 2)])
    small, large = tables_of(cut_tiles(segment_tasks(AttentionPlan(RowColumnHeads(2), batch)), SIZES))
    assert int((small[:, 1] - small[:, 0]).max()) <= 16
    keys = large[:, 3] + large[:, 5]
    assert int(keys[0]) == batch.input_ids.numel() > 1024
    assert small[:, 3].unique().tolist() == [8]


@pytest.mark.parametrize("pattern", [RowColumnHeads(4), Full(2)], ids=str)
@given(batch=batches())
def test_long_lists_of_partners_are_cut_into_parts(pattern, batch):
    tasks = segment_tasks(AttentionPlan(pattern, batch))

    def partners(tile):
        _, _, global_start, num_globals, local_start, num_locals, _ = tile
        return [*range(global_start, global_start + num_globals), *range(local_start, local_start + num_locals)]

    whole, parted = {}, {}
    for found, part in ((whole, 10**6), (parted, 5)):
        tiling = cut_tiles(tasks, SIZES, part)
        for size, table in zip(SIZES, tables_of(tiling), strict=True):
            for tile in sorted(table.tolist(), key=lambda one: (one[0], one[6])):
                for row in range(tile[0], min(tile[1], tile[0] + size)):
                    found.setdefault(row, []).append((tile[6], partners(tile)))
        assert tiling.planes == max([1, *(len(parts) for parts in found.values())]) <= 4
    for row, parts in parted.items():
        assert [plane for plane, _ in sorted(parts)] == list(range(len(parts)))
        assert [one for _, seen in sorted(parts) for one in seen] == whole[row][0][1]
        assert all(seen for _, seen in parts) or not whole[row][0][1]
        assert len(parts) > 1 or len(whole[row][0][1]) <= 5


def test_a_batch_of_padding_alone_has_no_tiles():
    batch = pad([one_table(np.random.default_rng(0), 2, 1, 1, 1)])
    empty = batch.__class__(**{**batch.tensors(), "attention_mask": torch.zeros_like(batch.attention_mask)})
    assert cut_tiles(segment_tasks(AttentionPlan(Full(2), empty)), SIZES).ends == (0, 0)


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


@pytest.mark.parametrize("options", [{"tiles": [24]}, {"tiles": [8]}, {"step": 100}, {"tiles": []}])
def test_sizes_must_be_powers_of_two(options):
    with pytest.raises(ConfigError, match="powers of two"):
        Triton(**options)
