from __future__ import annotations

import math
from datetime import datetime, timezone

import pytest

from mate_cli.errors import ConfigError, RunError
from mate_cli.metrics.specs import MetricName, MetricSpec
from mate_cli.reports.compare.report import build_report, main_metric, reason_text
from mate_cli.reports.compare.tables import result_tables
from mate_cli.reports.format import count_text, duration_text
from mate_cli.runs.lock import acquire_lock, release_lock
from tests.reports.runs import build_demo, build_run


def test_tables_of_a_study(tmp_path):
    report = build_report([build_demo(tmp_path)])
    titles = [table.title for table in report.tables]
    assert titles == [
        *("Cell selection on hybridqa", "Question answering on hybridqa · dev", "Cell selection on hybridqa · test"),
        "Question answering on hybridqa · test",
    ]
    hits, answers, *tests = report.tables
    assert [column.full for column in hits.columns] == [f"dev/hits@{k}" for k in (1, 3, 5)]
    assert [table.is_test for table in tests] == [True, True]
    assert [(c.part, c.score) for c in answers.columns] == [
        (p, s) for p in ("table", "passage", "") for s in ("em", "f1")
    ]
    assert [row.repeats for row in hits.rows] == [3, 1, 3, 2]


def test_queries_have_tables_of_their_own_by_error_and_by_hardness(tmp_path):
    levels = {f"dev/exact_set_match/{level}": 0.3 for level in ("easy", "medium", "hard", "extra")}
    metrics = {"dev/exact_set_match": 0.4, "dev/column_error": 0.2, **levels}
    build_run(tmp_path / "a", metrics=metrics, dataset="spider")
    tables = build_report([tmp_path]).tables
    assert [table.title for table in tables] == ["Text to SQL on spider", "Text to SQL on spider · by hardness"]
    assert [[column.full for column in table.columns] for table in tables] == [
        ["dev/exact_set_match", "dev/column_error"],
        list(levels),
    ]


def test_the_baseline_is_a_row_of_its_own_and_never_the_best(tmp_path):
    build_run(tmp_path / "a", metrics={"dev/em": 0.1, "baseline/tfidf/dev/em": 0.9}, seed=1)
    build_run(tmp_path / "b", metrics={"dev/em": 0.2, "baseline/tfidf/dev/em": 0.9}, model="sat")
    (table,) = build_report([tmp_path]).tables
    assert [(row.label, row.cells[0].mean) for row in table.baselines] == [("tfidf baseline", 0.9)]
    assert [table.mark(0, row.cells[0]) == "best" for row in table.rows] == [True, False]
    assert [row.label for row in table.rows] == ["sat", "mate"]


def marks_of(folder):
    table = build_report([folder]).tables[0]
    return {table.mark(column, cell) for row in table.rows for column, cell in enumerate(row.cells)}


def test_nothing_is_marked_where_all_are_equal_and_ties_as_printed_are_all_best(tmp_path):
    build_run(tmp_path / "a", metrics={"dev/em": 0.50001})
    assert marks_of(tmp_path) == {""}
    build_run(tmp_path / "b", metrics={"dev/em": 0.50002}, model="sat")
    assert marks_of(tmp_path) == {""}
    build_run(tmp_path / "c", metrics={"dev/em": 0.3}, model="tapas")
    (table,) = build_report([tmp_path]).tables
    assert [table.mark(0, row.cells[0]) for row in table.rows] == ["best", "best", ""]


def test_of_losses_the_lowest_is_best_and_ranks_first(tmp_path):
    build_run(tmp_path / "a", metrics={"dev/loss": 3.0})
    build_run(tmp_path / "b", metrics={"dev/loss": 2.0}, model="sat")
    report = build_report([tmp_path], metric="dev/loss")
    assert [group.label for group in report.groups] == ["sat", "mate"]
    assert report.tables[0].mark(0, report.tables[0].rows[0].cells[0]) == "best"


@pytest.mark.parametrize("metric", [None, "test/em", "dev/em"])
def test_rows_are_ranked_by_dev_and_never_by_test(tmp_path, metric):
    for name, dev, test in (("a", 0.5, 0.9), ("b", 0.7, 0.1), ("c", 0.6, 0.8)):
        build_run(tmp_path / name, model=name, metrics={"dev/em": dev, "test/em": test})
    build_run(tmp_path / "d", model="d", metrics={"test/em": 0.95})
    report = build_report([tmp_path], metric=metric, published=False)
    assert [group.label for group in report.groups] == ["b", "c", "a", "d"]
    assert (report.metric, report.ranked_by) == (metric or "dev/em", "dev/em")
    dev, test = report.tables
    assert [[row.label for row in table.rows] for table in (dev, test)] == [["b", "c", "a"], ["b", "c", "a", "d"]]


def test_without_a_score_on_dev_rows_stand_as_found(tmp_path):
    for name, test in (("a", 0.1), ("b", 0.9)):
        build_run(tmp_path / name, model=name, metrics={"test/em": test})
    report = build_report([tmp_path])
    assert [group.label for group in report.groups] == ["a", "b"]
    assert (report.metric, report.ranked_by) == ("test/em", None)


def test_where_nobody_knows_what_is_better_nothing_is_best_and_tables_stay_narrow(tmp_path):
    for model in ("mate", "sat"):
        build_run(tmp_path / model, model=model, metrics={f"test/x{index}": len(model) for index in range(8)})
    tables = build_report([tmp_path]).tables
    assert [len(table.columns) for table in tables] == [6, 2]
    assert not any(table.mark(0, row.cells[0]) == "best" for table in tables for row in table.rows)


def test_nan_is_left_out_and_said(tmp_path):
    build_run(tmp_path / "a", seed=1, metrics={"dev/em": math.nan})
    build_run(tmp_path / "b", seed=2, metrics={"dev/em": 0.4})
    report = build_report([tmp_path])
    assert report.tables[0].rows[0].cells[0].mean == 0.4
    assert any("NaN" in note for note in report.notes)


def test_rows_of_datasets_never_meet(tmp_path):
    build_run(tmp_path / "a", dataset="hybridqa")
    build_run(tmp_path / "b", dataset="sqa")
    tables = build_report([tmp_path]).tables
    assert [(table.title, len(table.rows)) for table in tables] == [
        ("Cell selection on hybridqa", 1),
        ("Cell selection on sqa", 1),
        ("Cell selection on hybridqa · test", 1),
        ("Cell selection on sqa · test", 1),
    ]


def test_without_finished_runs_there_is_a_report_without_tables(tmp_path):
    build_run(tmp_path / "a", status="running")
    report = build_report([tmp_path])
    assert (report.tables, report.metric, len(report.unfinished)) == ((), None, 1)


def test_status_keeps_and_counts_those_runs(tmp_path):
    build_run(tmp_path / "a", status="interrupted", metrics={"dev/em": 0.3})
    assert build_report([tmp_path]).tables == ()
    assert build_report([tmp_path], status=["interrupted"]).tables[0].rows[0].cells[0].mean == 0.3
    with pytest.raises(RunError, match=r"1 run is finished.*status"):
        build_report([tmp_path], status=["finished"])


def test_wrong_choices_name_the_right_ones(tmp_path):
    build_run(tmp_path / "a", metrics={"dev/em": 0.3})
    with pytest.raises(ConfigError, match=r"metric test/em\. Did you mean dev/em"):
        build_report([tmp_path], metric="test/em")
    with pytest.raises(ConfigError, match="no such status: done"):
        build_report([tmp_path], status=["done"])
    with pytest.raises(ConfigError, match=r"by: no run has modle\. Did you mean model\?"):
        build_report([tmp_path], by=["modle"])
    with pytest.raises(ConfigError, match=r"by: no run has batch_size\. Did you mean trainer\.batch_size\?"):
        build_report([tmp_path], by=["batch_size"])


def test_a_silent_run_may_have_been_killed(tmp_path):
    acquire_lock(build_run(tmp_path / "a", status="running"))
    (run,) = build_report([tmp_path]).runs
    at = datetime.fromtimestamp(run.touched + 7200, timezone.utc)
    assert reason_text(run, at) == "no output for 2 h: it may have been killed"
    started = datetime.fromtimestamp(run.touched - 90, timezone.utc).isoformat()
    acquire_lock(build_run(tmp_path / "b", status="running", started="yesterday"))
    acquire_lock(build_run(tmp_path / "c", status="running", started=started))
    reasons = [
        reason_text(one, datetime.fromtimestamp(run.touched, timezone.utc)) for one in build_report([tmp_path]).runs
    ]
    assert reasons[1:] == ["still running", "running for 1 min 30 s"]
    for name in "abc":
        release_lock(tmp_path / name)
    assert reason_text(run, at) == "its process no longer exists: it was killed"


@pytest.mark.parametrize("parts", [("test", "em", "table"), ("dev", "hits@1", ""), ("", "loss", ""), ("a", "b", "c/d")])
def test_metric_names(parts):
    metric = MetricName.parse("/".join(filter(None, parts)))
    assert (metric.split, metric.score, metric.part) == parts


def test_fractions_are_told_from_other_numbers():
    fractions, others = ["dev/em", "test/hits@1", "dev/accuracy"], ["train/loss", "dev/grad_norm", "tokens_per_second"]
    assert [MetricName.parse(name).spec.is_share for name in fractions + others] == [True] * 3 + [False] * 3
    assert [MetricName.parse(name).spec.direction for name in fractions + others] == [1] * 3 + [-1, 0, 1]


def test_a_comparison_reads_the_declaration_of_a_users_metric_from_the_record(tmp_path):
    spec = MetricSpec("patience", "Patience", -1, importance=9)
    for model, value in (("mate", 0.5), ("sat", 0.25)):
        metrics = {"dev/patience": value, "dev/em": 0.1}
        build_run(tmp_path / model, model=model, metrics=metrics, specs={"patience": spec.to_json()})
    report = build_report([tmp_path])
    assert (report.metric, report.names["dev/patience"].title_with_unit) == ("dev/patience", "Dev Patience (%)")
    assert [group.label for group in report.groups] == ["sat", "mate"]


def test_the_main_metric_is_the_one_most_have():
    assert main_of(["dev/em", "test/em"], ["test/hits@1", "test/em", "train/loss"]) == "dev/em"
    assert main_of(["test/em"], ["test/hits@1", "test/em", "train/loss"]) == "test/em"
    assert main_of(["test/hits@1", "dev/hits@1"], ["dev/hits@1"]) == "dev/hits@1"
    assert main_of(["train/loss"], []) is None


def main_of(*names):
    return main_metric([map(MetricName.parse, of_configuration) for of_configuration in names])


def test_numbers_are_written_for_people():
    assert [duration_text(s) for s in (0.4, 59.6, 3599, 3661, 100000)] == [
        *("0 s", "1 min", "59 min 59 s", "1 h 1 min", "1 d 3 h")
    ]
    assert [count_text(n) for n in (12, 22_713_217, 1.31e9)] == ["12", "22.7M", "1.3B"]
    assert MetricName.parse("test/em").spec.text(0.6284) == "62.8"


def test_hits_by_place_of_the_answer_follow_the_totals(tmp_path):
    names = [
        f"{split}/hits@{k}{part}" for split in ("dev", "test") for k in (1, 3, 5) for part in ("", "/table", "/passage")
    ]
    build_run(tmp_path / "a", metrics=dict.fromkeys(names, 0.5))
    tables = build_report([tmp_path]).tables
    assert [(table.title.partition(" · ")[2], len(table.columns), table.one_split) for table in tables] == [
        ("", 3, False),
        ("dev, by place of the answer", 6, True),
        ("test", 3, False),
        ("test, by place of the answer", 6, True),
    ]


def test_what_is_within_the_error_of_the_best_is_marked_by_the_spread_of_the_best(tmp_path):
    many = {"data": {"dev": 10**9}}  # so that chance among questions explains nothing
    for seed, score in ((1, 0.60), (2, 0.64), (3, 0.68)):
        build_run(tmp_path / f"best{seed}", model="best", seed=seed, metrics={"dev/em": score, "dev/loss": 1.0}, **many)
        build_run(tmp_path / f"wide{seed}", model="wide", seed=seed, metrics={"dev/em": 3 * score - 1.35}, **many)
    build_run(tmp_path / "edge", model="edge", metrics={"dev/em": 0.62, "dev/loss": 1.5}, **many)
    build_run(tmp_path / "off", model="off", metrics={"dev/em": 0.6199}, **many)
    answers, other = build_report([tmp_path]).tables
    marks = {row.label: answers.mark(0, row.cells[0]) for row in answers.rows}
    assert marks == {"best": "best", "edge": "close", "off": "", "wide": ""}
    assert {answers.mark(c, cell) for row in answers.rows for c, cell in enumerate(row.cells)} == {"best", "close", ""}
    assert [other.mark(0, row.cells[0]) for row in other.rows] == ["best", ""]


def test_published_rows_stand_apart_and_are_never_the_best(tmp_path):
    build_run(tmp_path / "a", metrics={"dev/em": 0.2, "test/em": 0.1})
    build_run(tmp_path / "b", model="sat", metrics={"dev/em": 0.1})
    dev, test = build_report([tmp_path]).tables
    assert dev.mark(0, dev.rows[0].cells[0]) == "best"
    assert dev.published[0].label == "PointR + MATE"
    assert (dev.published[0].cells[0].center, dev.published[0].repeats) == (pytest.approx(0.634), None)
    assert [row.label for row in test.published] == [
        *("PointR + MATE", "PointR + TAPAS", "PointR + SAT", "PointR + Linformer", "PointR + TableETC"),
        *("Hybrider (large)", "Hybrider (base)", "Human", "Passage-Only", "Table-Only"),
    ]
    assert not any(table.published for table in build_report([tmp_path], published=False).tables)


def test_published_rows_belong_to_their_dataset(tmp_path):
    build_run(tmp_path / "a", dataset="sample", metrics={"dev/em": 0.2})
    report = build_report([tmp_path])
    assert (report.published, report.tables[0].published) == ((), ())
    assert not any("ublished" in note for note in report.notes)


def test_a_stage_whose_figures_its_pipeline_repeats_is_one_row(tmp_path):
    figures = {"dev/hits@1": 0.5, "dev/hits@3": 0.6}
    pipeline = build_run(tmp_path / "p", task="pointr", metrics=figures | {"dev/em": 0.3})
    build_run(pipeline / "cell_selection", metrics=figures)
    build_run(tmp_path / "alone", metrics=figures)
    hits = build_report([tmp_path]).tables[0]
    assert sorted(row.label for row in hits.rows) == ["mate", "mate · pointr"]
    other = build_run(tmp_path / "q", model="sat", task="pointr", metrics=figures)
    build_run(other / "cell_selection", model="sat", metrics={"dev/hits@1": 0.4})
    assert len(build_report([tmp_path]).tables[0].rows) == 4


def test_wide_tables_hold_both_splits_and_the_names_of_all_tables(tmp_path):
    report = build_report([build_demo(tmp_path)])
    hits, answers = result_tables(report.groups, wide=True)
    assert (answers.title, len(answers.columns)) == ("Question answering on hybridqa", 12)
    assert [column.split for column in answers.columns] == ["dev"] * 6 + ["test"] * 6
    labels = {group.label for group in report.groups}
    assert {row.label for table in (hits, answers) for row in table.rows} <= labels
