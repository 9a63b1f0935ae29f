from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mate_cli.reports.compare.grouping import group_runs
from mate_cli.reports.compare.questions import disagreements, load_questions, question_scores
from mate_cli.reports.runs.load import load_runs
from tests.reports.answered import answer_questions, question_row, write_predictions, write_rows
from tests.reports.runs import build_run

METRIC = "dev/hits@1"


def build_groups(root, **rows_by_name):
    """One configuration per name such as `mate_1`: model and seed."""
    for name, rows in rows_by_name.items():
        model, _, seed = name.partition("_")
        write_rows(build_run(root / name, model=model, seed=int(seed or 1), steps=1, metrics={}), rows)
    return group_runs(load_runs([root]).runs)


def rows_of(*hits, **scores):
    return [question_row(number, hits=hit, **scores) for number, hit in enumerate(hits)]


def test_a_run_s_predictions_are_read(tmp_path):
    answer_questions(build_run(tmp_path / "run"), count=3)
    questions = load_questions(load_runs([tmp_path]).runs[0], "dev")
    question, made = next(iter(questions.items()))
    assert (question.question_id, question.text) == ("q000", "Which place has number 0?")
    assert (question.answers, question.source) == (("place 0",), "table")
    assert made.text == ("place 0" if made.scores == {"hits@1": 1.0} else "place 1")
    assert load_questions(load_runs([tmp_path]).runs[0], "test") == {}


@pytest.mark.parametrize(
    "content",
    [b"", b"[{", b"3", b"{}", b"[1, null, []]", b'[{"pred": "x"}]', b"\xff\xfe", b"[" * 100_000],
    ids=["empty", "cut", "number", "object", "strangers", "nameless", "binary", "deep"],
)
def test_damaged_predictions_are_none(tmp_path, content):
    build_run(tmp_path / "run")
    (tmp_path / "run" / "predictions").mkdir()
    (tmp_path / "run" / "predictions" / "dev.json").write_bytes(content)
    assert load_questions(load_runs([tmp_path]).runs[0], "dev") == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KEYS = ("question_id", "pred", "question", "answer", "source", "table_id", "table_cells", "scores", "cells")
ROWS = st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(KEYS, JSON)), max_size=3)


@given(rows=ROWS)
def test_any_row_is_borne(tmp_path_factory, rows):
    root = tmp_path_factory.mktemp("any")
    run = build_run(root / "run", steps=1)
    write_predictions(run, json.dumps(rows))
    groups = group_runs(load_runs([root]).runs)
    assert not disagreements(groups, METRIC)
    assert all(not question_scores(group, METRIC) for group in groups)


def test_older_rows_have_no_scores(tmp_path):
    write_predictions(build_run(tmp_path / "run"), '[{"question_id": "a", "pred": "x"}]')
    (group,) = group_runs(load_runs([tmp_path]).runs)
    assert len(load_questions(group.runs[0], "dev")) == 1
    assert question_scores(group, METRIC) == {}


def test_a_changed_file_is_read_again(tmp_path):
    run = build_run(tmp_path / "run")
    write_rows(run, rows_of(1.0))
    (before,) = group_runs(load_runs([tmp_path]).runs)
    assert list(question_scores(before, METRIC).values()) == [1.0]
    write_rows(run, rows_of(0.0, 0.0))
    (after,) = group_runs(load_runs([tmp_path]).runs)
    assert list(question_scores(after, METRIC).values()) == [0.0, 0.0]


def test_seeds_are_averaged_over_the_questions_they_share(tmp_path):
    (group,) = build_groups(tmp_path, mate_1=rows_of(1.0, 0.0, 1.0), mate_2=rows_of(1.0, 1.0))
    assert list(question_scores(group, METRIC).values()) == [1.0, 0.5]


def test_only_seeds_that_count_and_have_scores_are_used(tmp_path):
    build_groups(tmp_path, mate_1=rows_of(1.0, 0.0))
    build_run(tmp_path / "mate_2", seed=2)
    write_rows(build_run(tmp_path / "mate_3", seed=3, status="failed"), rows_of(0.0, 0.0))
    (group,) = group_runs(load_runs([tmp_path]).runs)
    assert list(question_scores(group, METRIC).values()) == [1.0, 0.0]


@pytest.mark.parametrize(
    ("metric", "expected"),
    [("dev/hits@1", [1.0, 0.0, 0.0]), ("dev/hits@1/table", [1.0, 0.0]), ("dev/hits@1/passage", [0.0])],
)
def test_a_part_keeps_its_questions(tmp_path, metric, expected):
    (group,) = build_groups(tmp_path, mate=rows_of(1.0, 0.0, 0.0))
    assert list(question_scores(group, metric).values()) == expected


def test_disagreements_tell_different_stories_first(tmp_path):
    groups = build_groups(tmp_path, mate=rows_of(1.0, 1.0, 1.0, 0.0, 1.0), tapas=rows_of(0.0, 0.0, 0.0, 1.0, 1.0))
    found = disagreements(groups, METRIC)
    assert [one.question.question_id for one in found] == ["q000", "q003", "q001", "q002"]
    mate, tapas = found[0].answers
    assert (mate.label, mate.texts, mate.score) == ("mate", (("place 0", 1),), 1.0)
    assert (tapas.label, tapas.texts, tapas.score) == ("tapas", (("place 1", 1),), 0.0)
    assert len(disagreements(groups, METRIC, most=2)) == 2


def test_seeds_that_agree_tell_more(tmp_path):
    groups = build_groups(tmp_path, mate_1=rows_of(1.0, 1.0), mate_2=rows_of(0.0, 1.0), tapas=rows_of(0.0, 0.0))
    found = disagreements(groups, METRIC)
    assert [(one.question.question_id, one.spread) for one in found] == [("q001", 1.0), ("q000", 0.5)]
    assert found[1].answers[0].texts == (("place 0", 1), ("place 1", 1))


def test_a_score_in_the_middle_is_no_nearer_to_the_best(tmp_path):
    groups = build_groups(tmp_path, mate=rows_of(1.0), sat=rows_of(0.5), tapas=rows_of(0.0))
    (one,) = disagreements(groups, METRIC)
    assert dict(one.pattern) == {"mate": True, "sat": False, "tapas": False}
