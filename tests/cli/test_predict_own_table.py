"""`mate predict` on one's own tables, as typed: terminal, files, long tables, conversations, refusals."""

from __future__ import annotations

import csv
import json
import re
import sqlite3
from contextlib import closing

import pytest
from finished_runs import finished_run

from mate_cli import Mate
from mate_cli.cli.app import main
from mate_cli.cli.commands.predict import convert_arguments
from mate_cli.lit_modules.base import Selection
from mate_cli.lit_modules.table_qa import TableQA

SALES = [
    ["region", "month", "sales"],
    ["North", "March", "1,204"],
    ["South", "March", "870"],
    ["North", "April", "980"],
    ["South", "April", "905"],
]
FREE = ["task=table_qa", "task.threshold=0.0", "task.select_one_column=true"]
"""A head that chooses a whole column, however it is weighted."""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return finished_run(tmp_path_factory.mktemp("runs") / "run", FREE)


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    return finished_run(tmp_path_factory.mktemp("runs") / "verdicts", ["task=entailment"])


@pytest.fixture
def sales(tmp_path):
    return write(tmp_path / "sales.csv", SALES)


def write(path, lines):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(lines)
    return path


def predict(*words):
    return main(["predict", "hardware.threads=1", *map(str, words)])


def answers(path):
    return json.loads(path.read_text())["answers"]


def test_a_model_of_tables_is_not_asked_about_databases(run, tmp_path, capsys):
    with closing(sqlite3.connect(tmp_path / "sales.sqlite")) as connection, connection:
        connection.execute("CREATE TABLE sales (region TEXT)")
    assert predict(f"run={run}", f"database={tmp_path / 'sales.sqlite'}", "question=which region?") == 2
    assert "TableQA does not answer with SQL" in capsys.readouterr().err


def test_an_answer_is_shown_and_written(run, sales, tmp_path, capsys):
    output, question = tmp_path / "out" / "a.json", "which region's sales were highest, and when (in 2012)?"
    assert predict(f"run={run}", f"table={sales}", f"question={question}", f"output={output}") == 0
    (answer,) = answers(output)
    assert (answer["question"], answer["table"]) == (question, str(sales))
    (column,) = {cell["column"] for cell in answer["cells"]}
    place = SALES[0].index(column)
    assert [cell["row"] for cell in answer["cells"]] == [1, 2, 3, 4]
    assert [cell["text"] for cell in answer["cells"]] == [line[place] for line in SALES[1:]]
    assert answer["answer"] == ", ".join(dict.fromkeys(line[place] for line in SALES[1:]))
    assert (answer["rows_looked_at"], answer["rows"], answer["calibrated"], answer["abstained"]) == (4, 4, False, False)
    shown = capsys.readouterr().out
    assert question in shown
    assert f"answer      {answer['answer']}" in shown
    assert f"{answer['confidence']:.2f} (uncalibrated)" in shown
    own = [cell["probability"] for cell in answer["cells"]]
    assert answer["confidence"] == pytest.approx(sum(own) / len(own), abs=1e-4), "the network's own probability"
    for line in SALES[1:]:
        assert f"● {line[place]}" in shown
    assert re.search(r"1 question on 1 table: [\d.,]+ questions per second", shown)


def test_all_questions_of_all_tables_in_one_go(run, tmp_path, capsys):
    folder = tmp_path / "tables"
    folder.mkdir()
    for name in ("a.csv", "b.csv"):
        write(folder / name, SALES)
    (folder / "broken.csv").write_bytes(b"")
    questions = write(folder / "questions.csv", [["question"], ["who?"], ["where?"]])
    write(folder / "answers.csv", [["from"], ["before"]])
    for kind in ("csv", "json", "jsonl", "html"):
        output = (folder if kind == "csv" else tmp_path) / f"answers.{kind}"
        assert predict(f"run={run}", f"table={folder}", f"questions={questions}", f"output={output}") == 0
        if kind == "csv":
            output.rename(tmp_path / output.name)
    shown = capsys.readouterr().out
    assert "4 questions on 2 tables" in shown
    assert f"skipped: {folder / 'broken.csv'}: this file is empty" in shown
    asked = [(str(folder / name), question) for name in ("a.csv", "b.csv") for question in ("who?", "where?")]
    written = answers(tmp_path / "answers.json")
    lines = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert written == lines
    assert [(row["table"], row["question"]) for row in written] == asked
    with (tmp_path / "answers.csv").open(newline="") as file:
        assert [(row["table"], row["question"], row["answer"]) for row in csv.DictReader(file)] == [
            (row["table"], row["question"], row["answer"]) for row in written
        ]
    page = (tmp_path / "answers.html").read_text()
    assert page.count("<article>") == 4
    assert page.count("<mark") == sum(len(row["cells"]) for row in written)
    assert "src=" not in page
    assert "href=" not in page


def test_many_questions_are_summed_up_on_the_screen(run, sales, tmp_path, capsys):
    questions = write(tmp_path / "questions.csv", [["question"], *([f"what is the sale {n}?"] for n in range(150))])
    assert predict(f"run={run}", f"table={sales}", f"questions={questions}", f"output={tmp_path / 'o.json'}") == 0
    shown = capsys.readouterr().out.splitlines()
    assert len(answers(tmp_path / "o.json")) == 150
    assert shown[0].startswith("150 questions: ")
    assert len(shown) <= 3


def test_of_a_long_table_the_rows_that_fit_are_looked_at(run, tmp_path, capsys):
    lines = [["name", "amount"], *[[f"item{n}", str(n)] for n in range(1, 401)]]
    lines[301][0] = "zebra crossing"
    table, output = write(tmp_path / "long.csv", lines), tmp_path / "a.json"
    words = ["question=where is the zebra?", "question=how many items are there?"]
    assert predict(f"run={run}", f"table={table}", *words, f"output={output}") == 0
    zebra, many = answers(output)
    assert zebra["rows"] == 400
    assert zebra["rows_looked_at"] < 64
    assert 301 in [cell["row"] for cell in zebra["cells"]]
    assert all(cell["text"] == lines[cell["row"]][("name", "amount").index(cell["column"])] for cell in zebra["cells"])
    assert "the 1 that share words or numbers with the question (zebra), and the first others" in zebra["cut"][0]
    assert zebra["warnings"] == []
    unseen = 400 - many["rows_looked_at"]
    assert many["warnings"] == [f"The answer may depend on all rows, but {unseen} of 400 were not read."]
    assert many["warnings"][0] in capsys.readouterr().out


def test_of_a_wide_table_the_nearest_columns_are_looked_at(run, tmp_path):
    header = [f"column number {n}" for n in range(60)]
    header[47] = "zebra"
    table, output = write(tmp_path / "wide.csv", [header, *[["x"] * 60] * 3]), tmp_path / "a.json"
    assert predict(f"run={run}", f"table={table}", "question=which zebra?", f"output={output}") == 0
    (answer,) = answers(output)
    assert answer["failure"] == ""
    (said,) = [sentence for sentence in answer["cut"] if "columns were read" in sentence]
    assert "zebra" in said


def test_answers_without_confidence_are_withheld(run, sales, tmp_path, capsys):
    output = tmp_path / "a.json"
    assert predict(f"run={run}", f"table={sales}", "question=who?", "abstain=0.999", f"output={output}") == 0
    (answer,) = answers(output)
    assert (answer["answer"], answer["abstained"]) == (None, True)
    assert re.search(r"abstained: 0\.\d\d < 0\.999", capsys.readouterr().out)


def test_confidence_is_calibrated_where_the_run_knows_how(run, sales, tmp_path, capsys):
    from mate_cli.metrics.calibration import fit_calibration

    calibration = fit_calibration([0.1, 0.2, 0.3, 0.4], [True, True, True, True])
    (run / "calibration.json").write_text(json.dumps(calibration.to_json()))
    output = tmp_path / "a.json"
    try:
        assert predict(f"run={run}", f"table={sales}", "question=who?", f"output={output}") == 0
        (run / "calibration.json").write_text("[1]")
        assert "uncalibrated" not in capsys.readouterr().out
        assert predict(f"run={run}", f"table={sales}", "question=who?") == 2
        assert "calibration.json: not readable as JSON: it is not a mapping" in capsys.readouterr().err
    finally:
        (run / "calibration.json").unlink()
    (answer,) = answers(output)
    assert (answer["confidence"], answer["calibrated"]) == (round(5 / 6, 4), True)


def test_statements_are_entailed_or_refuted(verdicts, sales, tmp_path, capsys):
    output = tmp_path / "a.json"
    assert predict(f"run={verdicts}", f"table={sales}", "question=north sold most", f"output={output}") == 0
    (answer,) = answers(output)
    assert answer["answer"] in ("entailed", "refuted")
    assert answer["confidence"] >= 0.5
    assert f"answer      {answer['answer']}" in capsys.readouterr().out


def test_in_a_conversation_the_answer_before_counts(run, sales, tmp_path):
    words = [f"run={run}", f"table={sales}", "question=which regions?", "question=of these, which sold most?"]
    found = []
    for flag in ("false", "true"):
        assert predict(*words, f"conversation={flag}", f"output={tmp_path / flag}.json") == 0
        found.append(answers(tmp_path / f"{flag}.json"))
    (first, second), (first_again, second_again) = found
    assert first == first_again
    assert [cell["probability"] for cell in second["cells"]] != [cell["probability"] for cell in second_again["cells"]]


REFUSED = {
    ("question=who?",): "run: needs a value. Write run=FOLDER or checkpoint=NAME",
    ("question=who?", "run=x", "checkpoint=y"): "run: cannot be combined with checkpoint",
    ("run=x",): "question: no question given",
    ("question=who?", "run=x", "input=q.json"): "input: cannot be combined with table",
    ("question=who?", "run=x", "output=a.pdf"): "output=a.pdf: unknown file type. Use .json, .jsonl, .csv, .html",
    ("question=who?", "run=x", "abstain=2"): "abstain: must be less than or equal to 1",
}


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_what_cannot_be_answered_is_said_in_one_line(sales, capsys, words):
    assert predict(f"table={sales}", *words) == 2
    error = capsys.readouterr().err
    assert REFUSED[words] in error
    assert "Traceback" not in error


def test_official_files_are_answered_by_runs_alone(capsys):
    for words in (["checkpoint=exported"], []):
        assert main(["predict", *words, "input=questions.json"]) == 2
        assert "input: needs a run" in capsys.readouterr().err
    assert main(["predict", "run=x", "input=questions.json", "abstain=0.5"]) == 2
    assert "abstain: does not fit input=" in capsys.readouterr().err


def test_a_model_that_points_at_no_cell_is_refused(sales, tmp_path, capsys):
    run = finished_run(tmp_path / "reader", ["task=span_reading", "encoding=cell"])
    assert predict(f"run={run}", f"table={sales}", "question=who?") == 2
    assert f"{run}: SpanReading does not answer with table cells" in capsys.readouterr().err


def test_a_system_is_refused(run, sales, tmp_path, capsys):
    stages = {"cell_selection": str(run)}
    chain = finished_run(tmp_path / "chain", ["task=table_qa"], stages=stages)
    assert predict(f"run={chain}", f"table={sales}", "question=who?") == 2
    assert "this run is a system of stages, for tables with linked passages" in capsys.readouterr().err


def test_an_exported_checkpoint_answers_as_its_run_does(run, sales, tmp_path):
    assert main(["export", f"run={run}", f"to={tmp_path / 'exported'}", "hardware.threads=1"]) == 0
    found = []
    for model in (f"run={run}", f"checkpoint={tmp_path / 'exported'}"):
        assert predict(model, f"table={sales}", "question=who?", f"output={tmp_path / 'a.json'}") == 0
        found.append(answers(tmp_path / "a.json"))
    assert found[0] == found[1]


def test_nothing_to_predict(capsys):
    assert predict("run=x") == 2
    error = capsys.readouterr().err
    assert 'Write table=FILE question="...", database=FILE question="...", or input=FILE' in error


@pytest.mark.parametrize(
    ("typed", "given"),
    [
        (["question=who's first, in 2012?"], ["question='who\\'s first, in 2012?'"]),
        (["question=a", "question=b: c"], ["question=['a','b: c']"]),
        (["question='tis the season?"], ["question='\\'tis the season?'"]),
        (["question='who, and when?'"], ["question='who, and when?'"]),
        (["question=${oc.env:HOME}?"], ["question='\\${oc.env:HOME}?'"]),
        (["table=C:\\data\\"], ["table='C:\\data\\\\'"]),
        (["delimiter=,", "quote='", "header=3"], ["header=3", "delimiter=','", "quote='\\''"]),
    ],
)
def test_sentences_and_names_need_no_quotes(typed, given):
    assert convert_arguments(typed) == given


def test_decimal_commas_are_said_and_texts_stay(run, tmp_path, capsys):
    table, output = write(tmp_path / "t.csv", [["Preis"], ["1.204,50"], ["12,5"]]), tmp_path / "a.json"
    assert predict(f"run={run}", f"table={table}", "question=which?", f"output={output}") == 0
    assert [cell["text"] for cell in answers(output)[0]["cells"]] == ["1.204,50", "12,5"]
    assert "Decimal commas: 'Preis' (otherwise write decimal=.)." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("cells", "answer", "warning"),
    [
        (["$5", "€7"], "12", "The sum mixes units: $, €."),
        (["$5", "(7)"], "-2", None),
        (["5", "#DIV/0!"], None, "The cell '#DIV/0!' is not read as a number: no sum is given."),
        (["5", "NA", "-"], None, "Not all chosen cells are numbers, so no sum was computed."),
    ],
)
def test_sums_of_cells_are_as_people_mean_them(run, tmp_path, monkeypatch, capsys, cells, answer, warning):
    places = tuple((row, 0) for row in range(len(cells)))
    chosen = Selection(places, (1.0,) * len(cells), 1.0, aggregation="sum")
    monkeypatch.setattr(TableQA, "selection", lambda *_: chosen)
    table, output = write(tmp_path / "t.csv", [["v"], *([cell] for cell in cells)]), tmp_path / "a.json"
    assert predict(f"run={run}", f"table={table}", "question=sum?", f"output={output}") == 0
    (found,) = answers(output)
    assert found["warnings"] == [warning] * bool(warning)
    assert (warning or "") in capsys.readouterr().out
    if found["value"] is not None:
        assert found["answer"] == answer


def test_a_total_that_does_not_add_up_is_named(run, tmp_path, monkeypatch):
    chosen = Selection(((0, 1), (1, 1), (2, 1)), (1.0, 1.0, 1.0), 1.0, aggregation="sum")
    monkeypatch.setattr(TableQA, "selection", lambda *_: chosen)
    table = write(tmp_path / "t.csv", [["k", "v"], ["n", "5"], ["s", "7"], ["Total", "13"]])
    assert predict(f"run={run}", f"table={table}", "question=sum?", f"output={tmp_path / 'a.json'}") == 0
    (found,) = answers(tmp_path / "a.json")
    assert (found["value"], "'Total'" in found["warnings"][0]) == (None, True)


def test_no_answer_is_the_same_in_the_terminal_and_in_python(run, sales, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(TableQA, "selection", lambda *_: Selection((), (), 1.0))
    monkeypatch.setattr(TableQA, "answers", lambda *_: {})
    output = tmp_path / "a.json"
    assert predict(f"run={run}", f"table={sales}", "question=who?", f"output={output}") == 0
    (found,) = answers(output)
    answer = Mate.from_pretrained(run).predict(sales, "who?")
    assert found["failure"] == answer.failure != ""
    assert f"no answer: {answer.failure}" in capsys.readouterr().out
    assert (found["answer"], answer.answer) == (None, "")


TYPED = {
    "a locale": ("menge\n1.204\n2.150\n", ["locale=de"], ["menge"]),
    "a delimiter and a header": ("Sales 2024;x\na, b;n\nN, S;1\n", ["delimiter=;", "header=2"], ["a, b", "n"]),
    "an escape": ("a\tb\nx\ty\n", [r"delimiter=\t", "quote=none"], ["a", "b"]),
    "no header": ("x,1\ny,2\n", ["delimiter=,", "header=none"], ["column 1", "column 2"]),
}


@pytest.mark.parametrize("name", TYPED)
def test_a_dialect_and_a_locale_are_typed(name, run, tmp_path):
    text, words, header = TYPED[name]
    (tmp_path / "t.csv").write_text(text)
    words = [f"table={tmp_path}/t.csv", "question=which?", f"output={tmp_path}/a.json", *words]
    assert predict(f"run={run}", *words) == 0
    columns = {cell["column"] for cell in answers(tmp_path / "a.json")[0]["cells"]}
    assert columns
    assert columns <= set(header)


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("question=  ", 'question: is blank. Write question="..."'),
        ("questions=who sold?", "no such file. Check its name; to ask it: 'question=who sold?'.\n"),
        ("locale=german please", "'german please' is not a locale"),
        ("decimal=;", "is not a decimal mark"),
        ("header=0", "header: '0' is not a line number. Give its line number, from 1, or header=none"),
    ],
)
def test_what_no_run_can_be_asked_is_refused(word, problem, run, sales, capsys):
    question = [] if word.startswith("question") else ["question=which?"]
    assert predict(f"run={run}", f"table={sales}", *question, word) == 2
    assert problem in capsys.readouterr().err
