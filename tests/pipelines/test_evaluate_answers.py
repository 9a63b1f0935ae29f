"""Answers of a system that was not trained here are scored as runs are, and stand beside them in a comparison."""

import json

import pytest
from small_releases import SAMPLES
from table_releases import write_tabfact, write_wtq

from mate_cli.cli.app import main
from mate_cli.data.datasets.catalogue import find_dataset
from mate_cli.errors import DataError
from mate_cli.metrics.system_answers import TableAnswers
from mate_cli.pipelines.evaluation.evaluate_others import evaluate_answers
from mate_cli.reports.compare.report import build_report
from mate_cli.reports.export.dashboard import sheets
from mate_cli.reports.sections.cost_and_sweep import recorded_costs
from mate_cli.tables.example import Answer, SystemAnswer, TableExample
from mate_cli.tables.table import Cell, Table
from tests.reports.runs import build_run

MAIN = {
    **dict.fromkeys(("wtq", "sqa", "wikisql"), "denotation_accuracy"),
    **dict.fromkeys(("tabfact", "reclor", "logiqa_2"), "accuracy"),
    **dict.fromkeys(("squad", "mrqa", "hybridqa", "hotpotqa", "musique"), "em"),
    "spider": "exact_set_match",
}


def evaluate(tmp_path, lines, *words, name="answers.jsonl"):
    file = tmp_path / name
    file.write_text(lines if isinstance(lines, str) else "".join(f"{json.dumps(line)}\n" for line in lines))
    places = [f"paths.outputs={tmp_path / 'out'}", f"paths.cache={tmp_path / 'cache'}"]
    return main(["evaluate", f"answers={file}", *words, *places])


def wtq(tmp_path):
    return ["data=wtq", f"data.root={write_wtq(tmp_path / 'wtq')}", "split=train"]


def read_run(tmp_path):
    (record,) = tmp_path.glob("out/evaluate/*/*/record.json")
    assert not (record.parent / ".lock").exists(), "nobody is at work there any more"
    predictions = {file.stem: json.loads(file.read_text()) for file in (record.parent / "predictions").glob("*.json")}
    return json.loads(record.read_text()), predictions


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", MAIN)
def test_right_answers_are_right_by_the_metric_of_each_dataset_and_missing_ones_wrong(name, tmp_path):
    sample = SAMPLES[name]
    reader, options = sample.reader, {"root": str(sample.write(tmp_path / "data")), **sample.options}
    data = {"_target_": f"{reader.__module__}.{reader.__qualname__}", "download": False, "damaged": "skip", **options}
    examples = {one.example_id: one for one in reader(**{**options, "damaged": "skip"}).examples("train") if one.answer}
    texts = {
        key: (one.options[one.answer.label],) if one.options else one.answer.texts[: 1 if MAIN[name] == "em" else None]
        for key, one in examples.items()
    }
    right = {key: SystemAnswer(some) for key, some in texts.items()}
    record = evaluate_answers(tmp_path / "f", right, "X", data, ["train"], tmp_path / "out").read_record()
    assert record.metrics[f"train/{MAIN[name]}"] == 1
    if len(right) > 1:
        few = dict(list(right.items())[1:])
        record = evaluate_answers(tmp_path / "f", few, "Y", data, ["train"], tmp_path / "out").read_record()
        assert record.metrics[f"train/{MAIN[name]}"] == pytest.approx(1 - 1 / len(right))
        assert f"1 of {len(right)} questions not answered" in record.facts["not trained here"]


def test_answers_are_counted_and_stand_beside_runs_as_not_trained_here(tmp_path, capsys):
    lines = [
        {"id": "nt-0", "answer": "ann", "confidence": 0.9, "cost": 0.5},
        {"id": "nt-1", "answer": 3, "cost": 0.25},
        {"id": "nt-3", "cells": [[0, 0], [1, 0]], "aggregation": "COUNT"},
        {"id": "nt-77", "answer": "who?"},
    ]
    assert evaluate(tmp_path, lines, *wtq(tmp_path), "name=model X, v2 (70%)") == 0
    told = capsys.readouterr().out
    assert "1 of 4 questions not answered and scored as wrong; 1 with an id that no question has" in told
    record, predictions = read_run(tmp_path)
    assert record["metrics"]["train/denotation_accuracy"] == 0.75
    assert record["throughput"] == {"cost_per_question": 0.375}
    assert [row["pred"] for row in predictions["train"]] == ["ann", "3", "", "2"]
    assert predictions["train"][0]["confidence"] == 0.9
    ours = {"train/denotation_accuracy": 0.5}
    build_run(tmp_path / "out" / "ours", dataset="wtq", metrics=ours, questions=record["questions"], data={})
    files = [f"{name}={tmp_path / name}" for name in ("latex", "markdown", "json")]
    assert main(["compare", str(tmp_path / "out"), f"html={tmp_path / 'page.html'}", *files]) == 0
    shown = capsys.readouterr().out
    assert "model X, v2 (70%) ‡" in shown
    assert "any system" not in shown
    assert "‡ not trained here (model X, v2 (70%) ‡): answers read from answers.jsonl; 1 of 4" in " ".join(
        shown.split()
    )
    assert r"model X, v2 (70\%) $\ddagger$" in (tmp_path / "latex").read_text()
    assert all("model X, v2 (70%) ‡" in (tmp_path / name).read_text() for name in ("markdown", "page.html"))
    scores = next(sheet for sheet in sheets(build_report([tmp_path / "out"])) if sheet.name.startswith("results/"))
    costs = recorded_costs([one for one in build_report([tmp_path / "out"]).groups if one.is_untrained])
    assert [cost.name for cost in costs] == ["Cost/question"], "what scoring took is no cost of the system"
    assert {row[0]: row[1] for row in scores.rows} == {"model X, v2 (70%) ‡": "not trained here", "mate": "ours"}
    (folder,) = (tmp_path / "out" / "evaluate").glob("*/*")
    assert main(["compare", str(folder), "sections=wrong", "html=null"]) == 0
    assert "1 of 4 questions are answered incorrectly" in capsys.readouterr().out
    assert main(["diff", str(folder), str(tmp_path / "out" / "ours"), "html=null"]) == 0
    assert "not trained here" in capsys.readouterr().out


@pytest.mark.parametrize(
    "lines", ['[{"question_id": "nt-0", "pred": "Ann"}]', '{"nt-0": ["Ann"]}', '{\n"nt-0": "Ann"\n}']
)
def test_lists_and_objects_by_id_are_read_too(lines, tmp_path):
    assert evaluate(tmp_path, lines, *wtq(tmp_path), "partial=true", name="answers.json") == 0
    record, _ = read_run(tmp_path)
    assert (record["model"], record["metrics"]["train/denotation_accuracy"]) == ("answers", 0.25)


def test_verdicts_have_many_names_and_what_is_none_is_counted(tmp_path, capsys):
    data = ["data=tabfact", f"data.root={write_tabfact(tmp_path / 'tabfact')}", "split=train"]
    lines = [
        {"id": "2-1-1.html.csv_0", "label": 1},
        {"id": "2-1-1.html.csv_1", "answer": "False."},
        {"id": "2-1-1.html.csv_2", "answer": "I think that Ann did"},
    ]
    assert evaluate(tmp_path, lines, *data) == 0
    assert "1 not in the expected form" in capsys.readouterr().out
    record, predictions = read_run(tmp_path)
    assert record["metrics"]["train/accuracy"] == pytest.approx(2 / 3)
    assert [row["pred"] for row in predictions["train"]] == ["entailed", "refuted", "I think that Ann did"]


def test_ranked_cells_of_hybridqa_are_scored_as_a_selector(tmp_path):
    examples = [one for one in find_dataset("sample").open(tmp_path).examples("dev") if one.answer.coordinates]
    lines = [{"id": one.example_id, "cells": [[0, 0, 0.9], *map(list, one.answer.coordinates)]} for one in examples]
    assert evaluate(tmp_path, lines, "data=sample", "split=dev") == 0
    metrics = read_run(tmp_path)[0]["metrics"]
    assert metrics["dev/hits@3"] > metrics["dev/hits@1"] > 0
    assert "dev/em" not in metrics


def test_a_file_of_predictions_that_holds_the_right_answers_too_is_scored_by_its_predictions(tmp_path):
    lines = [{"question_id": "nt-0", "pred": "Bob", "answer": ["Ann"]}, {"question_id": "nt-1", "answer": [3]}]
    assert evaluate(tmp_path, lines, *wtq(tmp_path)) == 0
    record, predictions = read_run(tmp_path)
    assert [row["pred"] for row in predictions["train"]] == ["Bob", "3", "", ""]
    assert record["metrics"]["train/denotation_accuracy"] == 0.25


REFUSED = {
    "an object for an answer": ([{"id": "nt-0", "answer": {"x": 1}}], "line 1: the answer is neither a text nor"),
    "a line that is no JSON": (
        '{"id": "nt-0", "answer": 1}\n{"id": "nt-1",\n',
        "answers.jsonl: line 2: is not readable JSON",
    ),
    "an id twice": ([{"id": "nt-0", "answer": 1}] * 2, "the id 'nt-0' occurs twice (line 1 and line 2)"),
    "other ids": ([{"id": "q1", "answer": 1}], "ids are like 'q1' here and like 'nt-0' there"),
    "no id": ([{"answer": 1}], "line 1 has none of id, question_id"),
    "no answer": ([{"id": "nt-0", "text": 1}], "line 1: has none of pred, prediction, answer"),
    "cells that are none": ([{"id": "nt-0", "cells": [1]}], "line 1: cells is not a list such as [[0, 1]]"),
    "a confidence of 90": ([{"id": "nt-0", "answer": 1, "confidence": 90}], "confidence is not a number from 0 to 1"),
    "a cost beyond all numbers": ([{"id": "nt-0", "answer": 1, "cost": 10**400}], "cost is not a number from 0"),
    "an infinite cost": ([{"id": "nt-0", "answer": 1, "cost": float("inf")}], "cost is not a number from 0"),
    "nothing": ("", "has no answers"),
    "a table": ("id,answer\n1,2\n", "line 1: is not readable JSON"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("lines", "told"), REFUSED.values(), ids=REFUSED)
def test_a_wrong_file_is_refused_in_one_line_and_leaves_nothing(lines, told, tmp_path, capsys):
    assert evaluate(tmp_path, lines, *wtq(tmp_path)) == 2
    captured = capsys.readouterr()
    assert told in captured.err
    assert len(captured.err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


WRONG_WORDS = {
    "no data": (["split=train"], "data: needs a value with answers"),
    "a run": (["run=x", "data=wtq"], "run: cannot be combined with answers"),
    "no split": (["data=wtq", "data.root=WTQ", "split=tests"], "has no split 'tests'"),
}


@pytest.mark.parametrize(("words", "told"), WRONG_WORDS.values(), ids=WRONG_WORDS)
def test_wrong_words_are_refused(words, told, tmp_path, capsys):
    words = [word.replace("WTQ", str(write_wtq(tmp_path / "wtq"))) for word in words]
    assert evaluate(tmp_path, [{"id": "nt-0", "answer": 1}], *words) == 2
    assert told in capsys.readouterr().err


def test_a_split_whose_answers_are_held_back_is_refused(tmp_path):
    root = write_wtq(tmp_path / "wtq")
    file = root / "data" / "random-split-1-dev.tsv"
    file.write_text(file.read_text().replace("Bob", ""))
    data = {"_target_": "mate_cli.data.datasets.wtq.reader.WikiTableQuestions", "root": str(root)}
    with pytest.raises(DataError, match="has no answers to score"):
        evaluate_answers(tmp_path / "f", {"nt-9": SystemAnswer()}, "X", data, ["dev"], tmp_path / "out")


def test_texts_need_not_say_that_a_cell_is_empty():
    table = Table("t", (Cell("who"),), ((Cell("Ann"),), (Cell(""),)))
    example = TableExample("q", "who?", table, Answer(("Ann", ""), ((0, 0), (1, 0))))
    for answer, right in ((("Ann",), 1), (("Bob",), 0), ((), 0)):
        assert TableAnswers({"q": SystemAnswer(answer)}).score({"q": example})["denotation_accuracy"] == right
    assert TableAnswers({"q": SystemAnswer(cells=((0, 0),))}).score({"q": example})["denotation_accuracy"] == 0


@pytest.mark.parametrize(
    ("ids", "words", "told"),
    [
        (["nt-0"], [], "partial=true"),
        (["nt-0"], ["partial=true"], None),
        (["nt-0", "nt-1"], [], None),
        (["nt-9"], [], "split=dev"),
        (["nt-9"], ["partial=true"], "split=dev"),
    ],
)
def test_few_answers_and_those_to_another_split_are_rejected(ids, words, told, tmp_path, capsys):
    lines = [{"id": name, "answer": 1} for name in ids]
    assert evaluate(tmp_path, lines, *wtq(tmp_path), *words) == (2 if told else 0)
    error = capsys.readouterr().err
    assert told is None or (told in error and len(error.splitlines()) == 1)
    assert (tmp_path / "out").exists() == (told is None)


def test_a_long_name_is_that_of_a_system_and_begins_that_of_a_folder(tmp_path):
    assert evaluate(tmp_path, [{"id": "nt-0", "answer": 1}], *wtq(tmp_path), "partial=true", f"name={'x' * 300}") == 0
    assert read_run(tmp_path)[0]["model"] == "x" * 300
