"""Several runs as one: the mean of their scores, and what all of them cost."""

import json
from pathlib import Path

import pytest
from finished_runs import finished_run, here

from mate_cli.cli.app import main
from mate_cli.errors import ConfigError
from mate_cli.lit_modules.cell_selection import CellRanking, CellSelection
from mate_cli.lit_modules.span_reading import SpanPrediction, SpanReading
from mate_cli.pipelines.evaluation.ensemble import evaluate_together
from mate_cli.pipelines.systems.pointr import PointR

CELLS = ((0, 0), (0, 1), (1, 0))


def test_cells_are_ranked_by_the_mean_of_their_probabilities():
    task = CellSelection.__new__(CellSelection)
    object.__setattr__(task, "__dict__", {"keep": 2})
    first = [CellRanking("a", CELLS[:2], (0.5, 0.4)), CellRanking("b", CELLS[:1], (0.9,))]
    second = [CellRanking("a", (CELLS[1], CELLS[2]), (0.6, 0.3))]
    joined = {ranking.example_id: ranking for ranking in task.join_members([first, second])}
    assert joined["a"].cells == (CELLS[1], CELLS[0]), "two are kept"
    assert joined["a"].probabilities == pytest.approx((0.5, 0.25))
    assert joined["b"].probabilities == pytest.approx((0.45,))


def test_spans_are_chosen_by_the_mean_of_their_probabilities():
    task = SpanReading.__new__(SpanReading)
    members = [[SpanPrediction("a", 3, 4, share, nothing)] for share, nothing in ((0.3, 0.2), (0.4, 0.0))]
    (found,) = task.join_members([*members, [SpanPrediction("a", 7, 7, 0.6)]])
    assert (found.start, found.end, found.probability) == (3, 4, pytest.approx(0.7 / 3))
    assert found.no_answer == pytest.approx(0.2 / 3)


def test_systems_know_the_mean_of_what_was_learnt():
    from mate_cli.pipelines.evaluation.ensemble import with_mean

    assert with_mean([PointR(cells=3, weight=0.2), PointR(cells=3, weight=0.4)]).parameters == {
        "weight": pytest.approx(0.3)
    }
    assert with_mean([PointR(), PointR()]).parameters == {}
    with pytest.raises(ConfigError, match="these runs answer in different forms"):
        with_mean([PointR(cells=3, weight=0.2), PointR()])


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    speed = {"throughput": {"examples_per_second": 10.0}, "wall_seconds": 60.0}
    words = ["trainer.limit_dev=12"]
    first = finished_run(root / "one", words, **speed)
    second = finished_run(root / "two", [*words, "model.row_head_ratio=0.0"], **speed | {"seed": 2})
    return root, [str(first), str(second)]


def test_the_record_has_the_cost_of_all(runs, capsys):
    root, members = runs
    folder = evaluate_together(members, "dev", here(root))
    record = json.loads((folder.path / "record.json").read_text())
    assert (record["command"], record["status"], record["parameters"]) == ("evaluate", "finished", 2468)
    assert record["throughput"] == {"examples_per_second": 5.0}
    assert record["facts"] == {"ensemble": "2 runs, seeds 1, 2"}
    assert record["wall_seconds"] >= 120
    assert len(json.loads((folder.path / "predictions" / "dev.json").read_text())) == 12
    assert "2 runs as one: 2,468 parameters" in capsys.readouterr().out
    assert main(["compare", f"runs=[{folder.path},{members[0]}]", "html=null"]) == 0


def test_a_run_twice_is_itself(runs):
    root, members = runs
    folder = evaluate_together([members[0]] * 2, "dev", here(root))
    both = json.loads((folder.path / "record.json").read_text())["metrics"]
    assert main(["evaluate", f"run={members[0]}", "split=dev", "hardware.threads=1", f"paths.cache={root}"]) == 0
    alone = json.loads((root / "one" / "evaluation" / "dev.json").read_text())
    assert both == {name: alone[name] for name in both}
    assert both["dev/hits@1"] == alone["dev/hits@1"]


@pytest.mark.long
def test_each_member_may_rank_rows_by_a_run_of_its_own(runs):
    root, rankers = runs
    cut = ["trainer.limit_dev=12", "encoding.best_rows=2"]
    members = [
        str(finished_run(root / f"cut{seed}", [*cut, f"encoding.ranked_by={ranker}"], seed=seed))
        for seed, ranker in enumerate(rankers)
    ]
    folder = evaluate_together(members, "dev", here(root))
    rows = [row for row in json.loads((folder.path / "predictions" / "dev.json").read_text()) if "cells" in row]
    assert max(len({cell[0] for cell in row["cells"]}) for row in rows) > 2, "both read two rows of their own"


def test_networks_that_read_tables_differently_rank_cells_together(runs):
    root, members = runs
    lexical = ["encoding=lexical", "model=lexical", "init=random", "init.tokenizer=sample", "trainer.limit_dev=12"]
    other = finished_run(root / "lexical", lexical, model="lexical")
    folder = evaluate_together([members[0], str(other)], "dev", here(root))
    assert json.loads((folder.path / "record.json").read_text())["model"] == "mate + lexical"
    predictions = {}
    for name, path in {"joint": folder.path, "mate": members[0], "lexical": other}.items():
        if name != "joint":
            assert main(["evaluate", f"run={path}", "split=dev", "hardware.threads=1", f"paths.cache={root}"]) == 0
        rows = json.loads((Path(path) / "predictions" / "dev.json").read_text())
        predictions[name] = {row["question_id"]: {(r, c): p for r, c, p in row["cells"]} for row in rows}
    for question, cells in predictions["joint"].items():
        (row, column), share = next(iter(cells.items()))
        own = [predictions[name][question].get((row, column), 0) for name in ("mate", "lexical")]
        assert share == pytest.approx(sum(own) / 2, abs=1e-4)


def test_runs_that_do_not_belong_together_are_refused(runs, capsys):
    root, members = runs
    other = finished_run(root / "other", [], task="entailment")
    assert main(["evaluate", f"run={members[0]},{other}", "ensemble=true", "hardware.threads=1"]) == 2
    assert "different tasks or datasets" in capsys.readouterr().err
