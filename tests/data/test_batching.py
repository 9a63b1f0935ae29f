import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mate_cli.data.loading.batching import LengthGroupedBatches, PlacedBatches, Schedule, plan_schedule
from mate_cli.errors import ConfigError

SIZES = st.sampled_from([(4, 1), (4, 2), (4, 4), (6, 3)])


@given(st.lists(st.integers(1, 600), min_size=6, max_size=200), SIZES, st.integers(1, 4), st.integers(0, 3))
def test_every_epoch_shows_every_example_once_in_its_complete_steps(lengths, sizes, epochs, seed):
    per_epoch = len(lengths) // sizes[0]
    sampler = LengthGroupedBatches(lengths, Schedule(*sizes, epochs * per_epoch), seed)
    batches = list(sampler)
    assert len(batches) == len(sampler)
    assert {len(batch) for batch in batches} == {sizes[1]}
    drawn = np.array(batches).reshape(epochs, -1)
    assert all(len(set(epoch)) == per_epoch * sizes[0] for epoch in drawn.tolist())


def test_epochs_differ_in_order_and_steps_do_not_rise_in_length():
    lengths = list(range(512))
    steps = np.array(list(LengthGroupedBatches(lengths, Schedule(8, 8, 128), seed=3))).reshape(2, 64, 8)
    assert [sorted(epoch) for epoch in steps.reshape(2, -1).tolist()] == [lengths] * 2
    assert {frozenset(step) for step in steps[0].tolist()} != {frozenset(step) for step in steps[1].tolist()}
    means = steps.mean(-1)
    for window in means.reshape(-1, 16):
        assert 0 < (np.diff(window) > 0).sum() < 15


def test_the_last_incomplete_step_leaves_out_other_examples_in_each_epoch():
    steps = np.array(list(LengthGroupedBatches([5] * 10, Schedule(8, 8, 8), seed=1)))
    left_out = {frozenset(range(10)) - frozenset(step) for step in steps.tolist()}
    assert {len(some) for some in left_out} == {2}
    assert len(left_out) > 4


@pytest.mark.parametrize(("micro_batch", "ranks"), [(32, 1), (16, 1), (16, 2), (8, 1), (4, 2), (1, 4)])
def test_the_examples_of_a_step_depend_on_neither_micro_batches_nor_ranks(micro_batch, ranks):
    lengths = np.random.default_rng(0).integers(50, 2000, 300)

    def steps(schedule, first=0):
        shares = [
            np.array(list(LengthGroupedBatches(lengths, schedule, 1, rank, first * schedule.accumulate)))
            for rank in range(schedule.ranks)
        ]
        return np.sort(np.hstack([share.reshape(-1, 32 // schedule.ranks) for share in shares])).tolist()

    whole, schedule = steps(Schedule(32, 32, 20)), Schedule(32, micro_batch, 20, ranks)
    assert steps(schedule) == whole
    assert steps(schedule, first=13) == whole[13:]  # as a run that is resumed on another machine


def test_no_two_draws_of_a_run_have_the_same_number():
    draws = [draw for batch in PlacedBatches([5] * 50, Schedule(8, 4, 30), seed=1) for draw in batch]
    assert len({number for _, number in draws}) == len(draws) == 240
    plain = LengthGroupedBatches([5] * 50, Schedule(8, 4, 30), seed=1)
    assert [example for example, _ in draws] == [example for batch in plain for example in batch]


@given(st.lists(st.integers(1, 600), min_size=6, max_size=60), SIZES, st.integers(1, 50), st.data())
def test_resuming_yields_the_rest_of_the_same_order(lengths, sizes, steps, data):
    schedule = Schedule(*sizes, steps)
    whole = list(LengthGroupedBatches(lengths, schedule, seed=1))
    start = data.draw(st.integers(0, len(whole)))
    assert list(LengthGroupedBatches(lengths, schedule, seed=1, start=start)) == whole[start:]


def test_batches_hold_examples_of_similar_length():
    lengths = [(index * 37) % 500 + 1 for index in range(640)]
    batches = list(LengthGroupedBatches(lengths, Schedule(8, 8, 80), seed=1))
    padded = sum(8 * max(lengths[index] for index in batch) for batch in batches)
    assert padded < 1.15 * sum(lengths)


def test_another_seed_begins_with_other_examples():
    firsts = [list(LengthGroupedBatches([5] * 640, Schedule(4, 4, 160), seed))[:16] for seed in (1, 2)]
    assert len({frozenset(index for batch in batches for index in batch) for batches in firsts}) == 2


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"max_epochs": 2, "max_steps": None}, Schedule(32, 8, 6)),
        ({"max_epochs": None, "max_steps": 7}, Schedule(32, 8, 7)),
        ({"max_epochs": 2, "max_steps": 5}, Schedule(32, 8, 5)),
        ({"max_epochs": 0.01, "max_steps": None}, Schedule(32, 8, 1)),
    ],
)
def test_the_smaller_limit_counts(limits, expected):
    assert plan_schedule(100, batch_size=32, micro_batch=10, **limits) == expected


def test_moving_machines_keeps_the_batch_size():
    for micro_batch in range(1, 40):
        schedule = plan_schedule(100, batch_size=24, micro_batch=micro_batch, max_epochs=1, max_steps=None)
        assert schedule.micro_batch * schedule.accumulate == 24
        assert schedule.micro_batch <= micro_batch


def test_too_little_data_names_the_remedy():
    with pytest.raises(
        ConfigError, match=r"10 usable examples, fewer than trainer.batch_size=32.*batch_size=10 or less"
    ):
        plan_schedule(10, batch_size=32, micro_batch=8, max_epochs=1, max_steps=None)
    with pytest.raises(ConfigError, match="the length of training is not limited"):
        plan_schedule(100, batch_size=32, micro_batch=8, max_epochs=None, max_steps=None)


@given(
    st.lists(st.integers(1, 600), min_size=8, max_size=60), st.sampled_from([1, 2, 4]), st.integers(1, 40), st.data()
)
def test_processes_share_the_very_batches_of_every_step(lengths, ranks, steps, data):
    alone = list(LengthGroupedBatches(lengths, Schedule(8, 2, steps), seed=1))
    schedule = Schedule(8, 2, steps, ranks)
    first = data.draw(st.integers(0, steps)) * schedule.accumulate
    shares = [LengthGroupedBatches(lengths, schedule, 1, rank, first) for rank in range(ranks)]
    assert {len(sampler) for sampler in shares} == {schedule.total_batches}
    in_turn = [batch for batches in zip(*shares, strict=True) for batch in batches]
    assert in_turn == alone[first * ranks :]


@pytest.mark.parametrize("ranks", [2, 4])
def test_processes_get_about_as_many_tokens_in_every_step(ranks):
    lengths = np.random.default_rng(0).integers(20, 384, 1600)

    def waiting(micro_batch: int) -> float:
        """The longest share of each step by the mean one, over all steps."""
        schedule = Schedule(16, micro_batch, 96, ranks)
        samplers = [LengthGroupedBatches(lengths.tolist(), schedule, 1, rank) for rank in range(ranks)]
        padded = np.array([[micro_batch * max(lengths[batch]) for batch in sampler] for sampler in samplers])
        shares = padded.reshape(ranks, 96, schedule.accumulate).sum(2)
        return shares.max(0).sum() / shares.mean(0).sum()

    once = 16 // ranks
    assert waiting(once // 2) < 1 + (waiting(once) - 1) / 2
    assert waiting(1) < 1.08


@pytest.mark.parametrize(("ranks", "micro_batch"), [(1, 8), (2, 8), (4, 8), (8, 4), (3, 8), (32, 1)])
def test_processes_do_not_change_the_batch(ranks, micro_batch):
    size = 24 if ranks == 3 else 32
    schedule = plan_schedule(100, batch_size=size, micro_batch=8, max_epochs=None, max_steps=1, ranks=ranks)
    assert schedule.micro_batch == micro_batch
    assert schedule.micro_batch * schedule.accumulate * ranks == size


def test_unequal_shares_are_refused():
    with pytest.raises(ConfigError, match=r"devices: .*32 cannot .* 3 processes.*one of 1, 2, or set .*batch_size=33"):
        plan_schedule(100, batch_size=32, micro_batch=8, max_epochs=1, max_steps=None, ranks=3)
