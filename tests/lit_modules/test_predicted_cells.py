"""The cells that token probabilities select, and what a file of predictions says of them, equal the reference."""

import ast
import csv
import io
import json

import torch
from golden import tapas

from mate_cli.lit_modules.table_qa import likely_cells
from tests.batches import batch_from

GOLDEN = json.loads(tapas("g9_metrics.json").read_text())


def test_written_predictions_name_the_same_cells():
    given = GOLDEN["written_predictions_input"]
    ids = ([given[name]] for name in ("row_ids", "column_ids", "segment_ids"))
    batch = batch_from(*ids, [[1] * len(given["row_ids"])])
    ((cells, means),) = likely_cells(torch.tensor([given["probabilities"]]), batch, 0.5)
    (row,) = csv.DictReader(io.StringIO(GOLDEN["written_predictions_tsv"]), delimiter="\t")
    assert [str(cell) for cell in cells] == ast.literal_eval(row["answer_coordinates"])
    tokens = ast.literal_eval(row["token_probabilities"])
    wanted = [[share for column, line, share in tokens if (line, column) == cell] for cell in cells]
    torch.testing.assert_close(torch.tensor(means), torch.tensor([sum(w) / len(w) for w in wanted]), check_dtype=False)
