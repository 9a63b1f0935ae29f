"""The table of figures that a run prints at its end."""

import io

from rich.console import Console

from mate_cli.pipelines.run import results_table


def rows(metrics, counts=None):
    table = results_table(metrics, "title", counts)
    return [list(cells) for cells in zip(*(column._cells for column in table.columns), strict=True)]


def test_any_part_of_the_questions_has_a_row_and_lengths_come_last():
    metrics = {
        "dev/accuracy/over_1024_words": 0.1,
        "dev/accuracy": 0.5,
        "dev/accuracy/1-128_words": 0.7,
        "dev/accuracy/simple": 0.6,
        "test/accuracy": 0.4,
    }
    assert rows(metrics) == [
        ["dev", "Total", "50.0"],
        ["", "Simple", "60.0"],
        ["", "1-128 words", "70.0"],
        ["", "over 1024 words", "10.0"],
        ["test", "Total", "40.0"],
    ]


def test_known_scores_come_in_their_order_and_others_behind_them():
    metrics = {"dev/colour": 0.2, "dev/em": 0.3, "dev/hits@1": 0.4, "dev/em/table": 0.5}
    assert [column.header for column in results_table(metrics, "title").columns][2:] == ["Hits@1", "EM", "colour"]
    assert rows(metrics) == [["dev", "Total", "40.0", "30.0", "0.2"], ["", "In-Table", "-", "50.0", "-"]]


def test_baselines_stand_below_without_their_parts():
    metrics = {"baseline/tfidf/dev/em": 0.1, "baseline/tfidf/dev/em/table": 0.2, "dev/em": 0.3}
    assert rows(metrics) == [["dev", "Total", "30.0"], ["tfidf/dev", "Total", "10.0"]]


def test_the_number_of_questions_stands_behind_each_subset():
    metrics = {"dev/em": 0.3, "dev/hits@1": 0.2, "dev/em/table": 0.5}
    counts = {"dev/em": 1200, "dev/hits@1": 1100, "dev/em/table": 700}
    assert [row[1] for row in rows(metrics, counts)] == ["Total (1,100-1,200)", "In-Table (700)"]


def test_the_ends_of_names_are_never_cut():
    metrics = {f"baseline/frequent_column/{split}/em": 0.1 for split in ("dev", "test")} | {"dev/em": 0.2}
    metrics |= {f"dev/em/questions_of_{half}": 0.3 for half in ("spring", "autumn")}
    console = Console(file=io.StringIO(), width=40)
    console.print(results_table(metrics, "title"))
    shown = console.file.getvalue()
    assert all(f"frequent_column/{split}" in shown for split in ("dev", "test"))
    assert "…" not in shown
