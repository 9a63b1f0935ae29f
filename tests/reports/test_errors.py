import io
import json

import pytest
from answered import write_predictions
from runs import build_run

from mate_cli.reports.compare.report import build_report
from mate_cli.reports.format import NOTHING
from mate_cli.reports.sections.errors import count_wrong_answers, errors_section, errors_view
from mate_cli.reports.terminal import print_report
from mate_cli.terminal.console import Console

ROWS = [
    {"pred": "Oslo", "answer": ["Oslo"], "cells": [[0, 0]], "answer_cells": [[0, 0]], "scores": {"em": 1.0}},
    {"pred": "three", "answer": ["3"], "cells": [[0, 0]], "answer_cells": [[0, 0]], "scores": {"em": 0.0}},
    {"pred": "Oslo city", "answer": ["Oslo"], "cells": [[0, 1, 0.5]], "answer_cells": [[0, 0]], "scores": {"em": 0.0}},
    {"pred": "Ann", "answer": ["Bob"], "cells": [[2, 1]], "answer_cells": [[0, 0]], "scores": {"em": 0.0}},
    {"pred": "Ann", "answer": ["Bob"], "cells": "x", "answer_cells": [[0], [None, 1]], "scores": {"hits@1": 0.0}},
    {"pred": "Ann"},
]


def write_answers(folder, rows=ROWS):
    rows = [{"question_id": f"q{place}", "question": "?", **row} for place, row in enumerate(rows)]
    write_predictions(folder, json.dumps(rows), "test")


@pytest.fixture
def root(tmp_path):
    for seed in (1, 2):
        write_answers(build_run(tmp_path / f"s{seed}", task="pointr", seed=seed, metrics={"test/em": 0.25}))
    write_answers(build_run(tmp_path / "cells", metrics={"test/hits@1": 0.25}), ROWS[4:])
    return tmp_path


def test_wrong_texts_are_sorted_for_each_configuration(root):
    (counts,) = count_wrong_answers(build_report([root], metric="test/em").groups, "test").values()
    assert (counts.questions, counts.wrong) == (8, 6), "both seeds; cells are no texts"
    assert counts.places == {"right_cell": 2, "wrong_column": 2, "wrong_row": 2}
    section = errors_section(build_report([root], metric="test/em"), wide=False)
    assert section.hint == "test"
    (view,) = section.views
    shares = {column.title: [row.cells[place].text for row in view.rows] for place, column in enumerate(view.columns)}
    assert shares["Wrong"] == ["6", NOTHING]
    assert shares["near misses"] == ["66.7", "55"]
    assert "> 80" in [cell.text for cell in view.rows[-1].cells], "the paper's share"
    assert errors_section(build_report([root / "cells"]), wide=False) is None


def test_they_fit_eighty_columns(root):
    console = Console(file=io.StringIO(), width=80)
    print_report(build_report([root], metric="test/em"), console)
    lines = console.file.getvalue().splitlines()
    assert [line.rstrip() for line in lines].count("Wrong answers") == 1, "in one part"
    assert max(map(len, lines)) <= 80


def test_a_file_of_predictions_is_sorted(root):
    view = errors_view(root / "s1" / "predictions" / "test.json")
    assert view.title == "3 wrong answers of 4, in percent"
    assert ["near misses", "66.7", "55"] in [[row.label, *(cell.text for cell in row.cells)] for row in view.rows]
    assert not any(
        errors_view(root / place / "predictions" / f"{name}.json")
        for place, name in (("s1", "none"), ("cells", "test"))
    )
