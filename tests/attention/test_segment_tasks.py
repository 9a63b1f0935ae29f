"""The tasks are the pattern: every pair that the definition allows, once, and no other."""

import torch
from batches import batches
from hypothesis import given
from hypothesis import strategies as st

from mate_cli.attention.base import AttentionPlan
from mate_cli.attention.patterns import Full, RowColumnHeads
from mate_cli.attention.segment_tasks import segment_tasks

PATTERNS = st.sampled_from([Full(4), RowColumnHeads(4), RowColumnHeads(4, 0.25), RowColumnHeads(4, 0.0)])


def seen(tasks, tokens):
    """How often each pair of packed tokens is asked for, Int [V, P, P]."""
    counts = torch.zeros(tasks.blocks, tokens, tokens, dtype=torch.int64)
    for task in range(len(tasks.queries)):

        def rows(start, count, task=task):
            begin = int(start[task])
            return tasks.rows[begin : begin + int(count[task])].long()

        queries = rows(tasks.query_start, tasks.queries)
        keys = torch.cat([rows(tasks.global_start, tasks.globals), rows(tasks.local_start, tasks.locals)])
        for query in queries.tolist():
            assert bool((keys % tasks.blocks == query % tasks.blocks).all())
            counts[query % tasks.blocks, query // tasks.blocks, keys // tasks.blocks] += 1
    return counts


@given(batches(), PATTERNS)
def test_tasks_are_the_definition(batch, pattern):
    plan = AttentionPlan(pattern, batch)
    tasks, real = segment_tasks(plan), (batch.attention_mask == 1).flatten()
    mask = pattern.mask(batch).expand(-1, 4, -1, -1)[:, :: tasks.heads].transpose(0, 1)
    dense = torch.stack([torch.block_diag(*block) for block in mask.long()])
    expected = dense[:, real][:, :, real]
    assert torch.equal(seen(tasks, int(real.sum())), expected)
    assert tasks.pairs == int(expected.sum()) * tasks.heads
