"""Evaluation sets in JSON files: their tables, answers and official metrics, as a user sees them."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from small_releases import SAMPLES

from mate_cli.cli.app import main
from mate_cli.data.datasets.file_formats import DamagedEntryError
from mate_cli.data.datasets.json_tables import FeTaQA, TatQA, expand_spans
from mate_cli.data.perturbation import PERTURBATIONS
from mate_cli.metrics.text_overlap import parent_score

SHARED = Path(os.environ.get("MATE_SHARED", "nowhere")) / "data"


def read(name, tmp_path, split="train", **options):
    sample = SAMPLES[name]
    dataset = sample.reader(sample.write(tmp_path / name), **options)
    return {example.example_id: example for example in dataset.examples(split)}


def evaluate(tmp_path, name, answers, split="dev"):
    file = tmp_path / "answers.json"
    file.write_text(json.dumps(answers))
    root = SAMPLES[name].write(tmp_path / name)
    words = [f"data={name}", f"data.root={root}", f"split={split}", f"paths.outputs={tmp_path / 'out'}"]
    assert main(["evaluate", f"answers={file}", *words]) == 0
    (record,) = tmp_path.glob("out/evaluate/*/*/record.json")
    return json.loads(record.read_text())["metrics"]


def test_tatqa_has_cells_and_numbers_for_what_a_network_can_compute(tmp_path):
    examples = read("tatqa", tmp_path)
    answers = [example.answer for example in examples.values()]
    assert [answer.coordinates for answer in answers] == [((0, 1),), ((0, 2), (1, 2)), (), (), (), ()]
    assert [answer.number for answer in answers] == [None, None, 10.5, None, 2.0, None]
    assert answers[3].source == "other arithmetic than sums and averages"
    table = examples["train-q1"].table
    assert (table.header[1].text, table.rows[0][0].links) == ("2019", ("paragraph 1",))
    readers = read("tatqa", tmp_path, find="holding")
    assert readers["train-q6"].answer.coordinates == ((0, 0),)


def test_tatqa_answers_have_a_scale_in_both_forms_of_a_file(tmp_path):
    right = {"dev-q1": [["1,496.5"], "million"], "dev-q2": [["30", "1,400"], ""], "dev-q3": [10.5, ""]}
    right |= {"dev-q4": [0.0689, ""], "dev-q5": ["2", ""], "dev-q6": [["in Bergen"], ""]}
    metrics = evaluate(tmp_path, "tatqa", right)
    # A share without a scale is correct for a percentage, but its scale is not.
    assert (metrics["dev/em"], metrics["dev/f1"]) == pytest.approx((5 / 6, (5 + 0.67) / 6))
    assert metrics["dev/scale_accuracy"] == pytest.approx(5 / 6)
    assert (metrics["dev/em/arithmetic"], metrics["dev/f1/passage"]) == (1, 0.67)


def test_the_gold_answers_of_an_export_are_right(tmp_path):
    root = SAMPLES["tatqa"].write(tmp_path / "tatqa")
    to = tmp_path / "questions.jsonl"
    assert main(["data", "export", "data=tatqa", f"data.root={root}", "answers=true", f"to={to}"]) == 0
    entries = [json.loads(line) for line in to.read_text().splitlines()]
    assert entries[0]["scale"] == "million"
    assert entries[0]["passages"][0]["text"] == "The company is in Bergen."
    metrics = evaluate(tmp_path, "tatqa", entries)
    assert (metrics["dev/em"], metrics["dev/f1"], metrics["dev/scale_accuracy"]) == (1, 1, 1)


def test_fetaqa_has_the_highlighted_cells_and_scores_of_texts(tmp_path):
    pytest.importorskip("sacrebleu")
    example = read("fetaqa", tmp_path)["0"]
    assert example.answer.coordinates == ((1, 0), (1, 1))
    assert (example.table.title, example.table.section_title) == ("Ann Lee", "Films")
    metrics = evaluate(tmp_path, "fetaqa", {"2": "Ann Lee made The Sea in 2001.", "3": "In 2001 Ann made a film."})
    assert metrics["dev/rouge1"] == pytest.approx((1 + 8 / 13) / 2)
    assert 0 < metrics["dev/bleu"] < 1


def test_infotabs_has_three_classes(tmp_path):
    examples = read("infotabs", tmp_path)
    assert {key: example.answer.label for key, example in examples.items()} == {"T1_0": 1, "T1_1": 0, "T1_2": 2}
    assert {example.outcome for example in examples.values()} == {"entailed", "refuted", "neutral"}
    table = examples["T1_0"].table
    assert (table.title, [cell.text for cell in table.rows[1]]) == ("Ann Lee", ["Born", "1970, Oslo"])
    metrics = evaluate(tmp_path, "infotabs", {"T2_0": "E", "T2_1": "contradiction", "T2_2": "entailed"})
    assert metrics["dev/accuracy"] == pytest.approx(2 / 3)


def test_ottqa_has_the_tables_and_the_metric_of_hybridqa(tmp_path):
    examples = read("ottqa", tmp_path, "dev")
    key, example = next(iter(examples.items()))
    assert example.table.passages
    metrics = evaluate(
        tmp_path, "ottqa", [{"question_id": name, "pred": e.answer.texts[0]} for name, e in examples.items()]
    )
    assert (metrics["dev/em"], metrics["dev/f1"]) == (1, 1)
    assert example.answer.source in ("table", "passage"), key


def test_totto_states_the_highlighted_cells_and_scores_bleu_in_lower_case(tmp_path):
    pytest.importorskip("sacrebleu")
    example = read("totto", tmp_path)["0"]
    assert example.question == "Describe the highlighted cells in one sentence: Year: 2001; Film: The Sea"
    assert [[cell.text for cell in row] for row in example.table.rows] == [
        ["2001", "Rivers", "Rivers"],
        ["2001", "The Sea", "Eve"],
    ]
    assert example.answer.coordinates == ((0, 0), (1, 1))
    metrics = evaluate(tmp_path, "totto", dict.fromkeys(("2", "3"), "ann lee made THE SEA in 2001."))
    assert (metrics["dev/bleu"], metrics["dev/bleu/overlap"]) == pytest.approx((1, 1))
    # Values of `totto_parent_eval.py` of google-research/language.
    assert metrics["dev/parent"] == pytest.approx(0.9640552284889993)
    assert parent_score("Eve made a film in 1999 | 2001.", example) == pytest.approx(0.274870821608131)
    assert parent_score("Ann Lee made The Sea The Sea in 2001.", example) == pytest.approx(0.9400878818278134)
    assert parent_score("", example) == 0
    bar, dash = (replace(example, highlighted=(f"The{sign}Sea",)) for sign in "|-")
    assert parent_score("The-Sea in 2001.", bar) == parent_score("The-Sea in 2001.", dash) > 0
    assert PERTURBATIONS["columns"].find_reason(example) == ""


def test_tablebench_scores_each_type_by_its_metric_without_charts(tmp_path):
    pytest.importorskip("rouge_score")
    answers = {"b0": "3.0", "b1": "109", "b2": "Yes, years cause films."}
    with pytest.warns(UserWarning, match="asks for a chart"):
        metrics = evaluate(tmp_path, "tablebench", answers, "test")
    # Exact match without punctuation: 3.0 is 30. A forecast may differ by 10 %. ROUGE-L has 2 of 4 words in order.
    assert metrics["test/mixed_score/FactChecking"] == 0
    assert metrics["test/mixed_score/TrendForecasting"] == 1
    assert metrics["test/mixed_score"] == pytest.approx((0 + 1 + 0.5) / 3)


@pytest.mark.parametrize("name", ["totto", "tablebench"])
def test_training_on_a_set_for_evaluation_only_is_refused(name, tmp_path, capsys):
    root = SAMPLES[name].write(tmp_path / name)
    words = [f"data={name}", f"data.root={root}", f"paths.outputs={tmp_path / 'out'}"]
    assert main(["train", "experiment=quickstart_cells", *words]) == 2
    assert "no task trains on it" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs MATE_SHARED")
@pytest.mark.parametrize(("reader", "questions"), [(TatQA, 1302), (FeTaQA, 792)])
def test_the_releases_are_read_without_problems(reader, questions):
    dataset = reader(SHARED / reader.__name__.lower(), download=False)
    examples = dataset.examples("dev")
    assert len(examples) == questions
    assert sum(bool(example.answer.coordinates) for example in examples) > questions / 8


@pytest.mark.parametrize("span", [0, -1, 10**9])
def test_a_cell_that_spans_nothing_or_too_much_is_refused(span):
    with pytest.raises(DamagedEntryError, match="spans"):
        expand_spans([[{"value": "a", "row_span": 1, "column_span": span}]])
