from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mate_cli.data.loading.table_data_module import batches_of_rank
from mate_cli.lit_modules.base import dist, gather_predictions


@dataclass(frozen=True)
class Guess:
    example_id: str


@given(st.integers(1, 30), st.integers(1, 5), st.integers(1, 6))
def test_shares_together_are_what_one_process_would_predict(examples, size, processes):
    batches = [list(range(start, min(start + size, examples))) for start in range(0, examples, size)]
    shares = [batches_of_rank(batches, rank, processes) for rank in range(processes)]
    assert len({len(one) for one in shares}) == 1  # no process waits for another that has nothing left
    guesses = [[[Guess(str(index)) for index in batch] for batch in one] for one in shares]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dist, "is_initialized", lambda: True)
        patch.setattr(dist, "get_world_size", lambda: processes)
        patch.setattr(dist, "all_gather_object", lambda found, own: found.__setitem__(slice(None), guesses))
        found = gather_predictions(guesses[0])
    assert found == [Guess(str(index)) for index in range(examples)]
