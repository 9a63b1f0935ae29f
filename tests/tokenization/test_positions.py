import torch
from hypothesis import given
from hypothesis import strategies as st

from mate_cli.tokenization.layout import cell_position_ids

ids = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=20)


@given(st.lists(ids, min_size=1, max_size=3), st.integers(1, 8))
def test_positions_count_from_the_first_token_of_the_cell(batch, most):
    length = min(map(len, batch))
    batch = [cells[:length] for cells in batch]
    expected = [[min(n - cells.index(cell), most - 1) for n, cell in enumerate(cells)] for cells in batch]
    rows, columns = torch.tensor(batch).unbind(-1)
    assert cell_position_ids(rows, columns, most).tolist() == expected


def test_an_empty_batch_has_no_positions():
    assert cell_position_ids(torch.zeros(0, 4).long(), torch.zeros(0, 4).long(), 8).shape == (0, 4)
