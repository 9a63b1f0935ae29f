"""Batches with their plans travel from loading processes as one buffer: few open files, and the same values."""

import pickle
import subprocess
import sys
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import numpy as np
import pytest
import torch
from batches import batches, one_table, pad
from hypothesis import given

from mate_cli.attention.backends.native import Native
from mate_cli.attention.backends.segments import Segments
from mate_cli.attention.backends.triton import Triton
from mate_cli.attention.base import Planner
from mate_cli.attention.patterns import Full, RowColumnHeads
from mate_cli.tokenization.tensor_buffer import map_tensors, pack_tensors

BACKENDS = [Segments(), Triton(), Native()]


def planned(batch, backend):
    return Planner(((RowColumnHeads(4), backend), (Full(4), Segments())))(batch)


def tensors_of(batch):
    found = list(batch.tensors().values())
    map_tensors(tuple(batch.prepared.values()), found.append)
    return found


def assert_equal(got, expected):
    assert list(got.prepared) == list(expected.prepared)
    assert got.example_ids == expected.example_ids
    for a, b in zip(tensors_of(got), tensors_of(expected), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert a.is_contiguous()
        assert torch.equal(a, b)


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda one: type(one).__name__)
@given(batch=batches())
def test_a_batch_comes_out_as_it_went_in(backend, batch):
    batch = planned(batch, backend)
    arrived = pickle.loads(pickle.dumps(batch))
    assert_equal(arrived, batch)
    assert_equal(arrived._moved(torch.clone), batch)


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda one: type(one).__name__)
def test_a_batch_is_one_open_file_and_one_copy(backend):
    batch = planned(pad([one_table(np.random.default_rng(0), 9, 40, 5, 12)] * 4), backend)
    pickle.loads(bytes(ForkingPickler.dumps(torch.zeros(1))))  # the first tensor of all opens what sends the others
    before = open_files()
    arrived = pickle.loads(bytes(ForkingPickler.dumps(batch)))
    assert open_files() - before <= 4  # a few more where a thread has not closed its own yet
    copies = []
    arrived._moved(lambda buffer: copies.append(buffer) or buffer.clone())
    (buffer,) = copies
    assert buffer.data_ptr() == min(one.data_ptr() for one in tensors_of(arrived) if one.numel())
    assert all(one.data_ptr() % 64 == 0 for one in tensors_of(arrived) if one.numel())


def test_what_is_changed_after_the_journey_is_packed_again():
    batch = pickle.loads(pickle.dumps(planned(pad([one_table(np.random.default_rng(0), 3, 2, 2, 2)]), Segments())))
    kept = batch.keep(torch.tensor([[0, 2]]))
    assert_equal(pickle.loads(pickle.dumps(kept)), kept)
    part = pack_tensors((batch.input_ids[:, :2],))
    assert part.data.numel() == 64
    assert torch.equal(part.unpack()[0], batch.input_ids[:, :2])


LOADED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
from pathlib import Path
from mate_cli.attention.backends.segments import Segments
from mate_cli.attention.base import Planner
from mate_cli.attention.patterns import RowColumnHeads
from mate_cli.attention.segment_tasks import CALL_COST
from mate_cli.benchmark.cases import draw_table
from mate_cli.data.loading.table_data_module import Batches, LoaderOptions, TableDataModule

loading = LoaderOptions(16, 2, 1, True, 512, Path(), Planner(((RowColumnHeads(12), Segments()),)))
data = TableDataModule(None, None, loading, None, None)
encodings = [draw_table("hybridqa_like", 2048, seed) for seed in range(16)]
for batch in data._batches(Batches(encodings, loading), [list(range(16))] * 6):
    print(*batch.input_ids.shape, len(batch.prepared[RowColumnHeads(12), ("segment_tables", CALL_COST)].classes))
"""


@pytest.mark.long
def test_two_loading_processes_need_few_open_files():
    """896 tensors a batch, six batches, two processes, 256 open files."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, timeout=300, check=False, cwd=Path.cwd()
    )
    lines = done.stdout.splitlines()
    assert (done.returncode, len(lines)) == (0, 6), done.stderr
    batch, tokens, classes = map(int, lines[0].split())
    assert (batch, tokens) == (16, 2048)
    assert classes > 100
