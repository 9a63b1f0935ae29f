"""Training on labelled files of one's own, as the documents show it."""

import csv
import json
import random
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from mate_cli.cli.app import main

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "train_on_your_data.md"
TINY = ["model.size=tiny", "init=random", "init.tokenizer=sample", "encoding.max_tokens=96", "debug=fast"]
HERE = ["logger=none", "hardware.threads=1"]
TABLE = [["name", "city", "year"], ["Ruvo Tekan", "Belora", 1987], ["Mila Sorn", "Katim", 2001]]
PASSAGES = [{"row": 0, "column": "name", "title": "Ruvo Tekan", "text": "Ruvo Tekan is a player of chess."}]
KNOWN = {
    "wtq_mate": {"answers": ["Belora"]},
    "sqa_mate": {"coordinates": [[0, "city"]], "conversation": "c"},
    "tabfact_mate": {"label": "entailed"},
    "hybridqa_mate": {"answer": "chess", "passages": PASSAGES},
    "quickstart_reader": {"answer": "chess", "passages": PASSAGES},
}
"""An experiment for each task, and what a row says for it."""


@pytest.mark.long
@pytest.mark.parametrize(
    "experiment", [pytest.param(name, marks=[] if name == "wtq_mate" else pytest.mark.long) for name in KNOWN]
)
def test_every_task_learns_from_files(tmp_path, monkeypatch, experiment):
    monkeypatch.chdir(tmp_path)
    rows = [{"question": f"which is number {n}?", "table": TABLE, **KNOWN[experiment]} for n in range(24)]
    rows = [row | ({"conversation": f"c{n // 4}"} if "conversation" in row else {}) for n, row in enumerate(rows)]
    Path("asked.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    words = [f"experiment={experiment}", "data=files", "data.train=asked.jsonl", "data.dev_share=0.25", *TINY, *HERE]
    assert main(["train", *words]) == 0
    (run,) = Path("outputs/train").glob("*/*")
    record = json.loads((run / "record.json").read_text())
    assert (record["status"], record["dataset"]) == ("finished", "files")
    assert record["metrics"]
    Path("more.jsonl").write_text(Path("asked.jsonl").read_text())
    assert main(["evaluate", f"run={run}", "split=dev,test", "data.test=more.jsonl", "hardware.threads=1"]) == 0
    found = {file.stem for file in run.glob("evaluation/more.jsonl/*.json")}
    assert found >= {"settings", "dev", "test"}
    assert not (run / "predictions" / "test.json").exists(), "what training left stays as it was"


@pytest.mark.long
def test_the_page_from_a_spreadsheet_to_an_export(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    exec(re.search(r"```python\n(.*?)```", text, flags=re.DOTALL)[1], {})
    commands = re.search(r"```bash\n(.*?)```", text, flags=re.DOTALL)[1].splitlines()
    assert [command.split()[1] for command in commands] == ["data", "train", "compare", "export", "predict"]
    for command in commands:
        words = shlex.split(command)[1:]
        if words[0] == "train":
            words += HERE
        (date, *_) = sorted(path.name for path in Path("outputs/train/wtq_mate").glob("*")) or [""]
        capsys.readouterr()
        assert main([word.replace("DATE", date) for word in words]) == 0
    assert re.search(r"answer +\w+ \w+", capsys.readouterr().out)
    page = PAGE.with_name("use_with_transformers.md").read_text(encoding="utf-8")
    exec(re.search(r"```python\n(.*?)```", page, flags=re.DOTALL)[1], {})
    assert 0 <= float(capsys.readouterr().out) <= 1
    metrics = [json.loads(file.read_text())["metrics"] for file in Path("outputs/train/wtq_mate").glob("*/record.json")]
    assert min(found["dev/denotation_accuracy"] for found in metrics) > 0.6


def write_company(folder, tables, seed):
    """Tables of sales with two look-ups, two totals and a count of each; return the file of questions."""
    chance, questions = random.Random(seed), [("question", "table", "answer")]
    for number in range(tables):
        count = chance.randint(3, 5)
        regions = chance.sample(["north", "south", "east", "west", "coast", "islands"], count)
        people = chance.sample(["Anna Berg", "Bo Lind", "Carl Ek", "Dora Falk", "Eva Holm", "Finn Dahl"], count)
        sales, costs = chance.sample(range(100, 999), count), chance.sample(range(10, 90), count)
        file = f"{seed}_{number}.csv"
        with Path(folder, file).open("w", newline="") as out:
            csv.writer(out).writerows(
                [("region", "sales", "costs", "manager"), *zip(regions, sales, costs, people, strict=True)]
            )
        for row in chance.sample(range(count), 2):
            questions.append((f"what are the sales of the {regions[row]}?", file, sales[row]))
            questions.append((f"who is the manager of the {regions[row]}?", file, people[row]))
        questions.append(("what are the total sales?", file, sum(sales)))
        questions.append(("what are the total costs?", file, sum(costs)))
        questions.append(("how many regions are there?", file, count))
    with Path(folder, f"{seed}.csv").open("w", newline="") as out:
        csv.writer(out).writerows(questions)
    return f"{seed}.csv", questions[1:]


@pytest.mark.trains
@pytest.mark.long
def test_a_company_s_totals_are_learnt_and_abstaining_keeps_right_answers_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    train, _ = write_company(tmp_path, 30, seed=1)
    words = ["experiment=wtq_mate", "scale=small", "data=files", f"data.train={train}", "trainer.max_epochs=20"]
    assert main(["train", *words, *HERE]) == 0
    (run,) = Path("outputs/train/wtq_mate").glob("*")
    record = json.loads((run / "record.json").read_text())
    questions = json.loads((run / "predictions" / "dev.json").read_text())
    totals = [row["scores"]["denotation_accuracy"] for row in questions if "total" in row["question"]]
    assert sum(totals) / len(totals) > 0.8
    assert record["facts"]["confidence"].startswith(f"calibrated on {len(questions)} questions of dev")
    assert "not learnt" not in record["facts"]
    asked, fresh = write_company(tmp_path, 8, seed=2)
    assert main(["predict", f"run={run}", "table=.", f"questions={asked}", "abstain=0.5", "output=answers.json"]) == 0
    answers = json.loads(Path("answers.json").read_text())["answers"]
    truth = {(Path(table).name, question): str(answer) for question, table, answer in fresh}
    right = [
        (str(answer["answer"]).replace(",", "") == truth[Path(answer["table"]).name, answer["question"]])
        for answer in answers
        if not answer["abstained"]
    ]
    assert sum(right) / len(right) > 0.8  # one question in seven is a count, which some seeds never learn
    assert len(right) > 0.7 * len(fresh)


@pytest.mark.trains
@pytest.mark.long
def test_abstaining_on_the_sample_keeps_most_right_answers_and_leaves_out_wrong_ones(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "experiment=quickstart_cells", "name=x", *HERE]) == 0
    run = Path("outputs/train/quickstart_cells/x")
    knots = json.loads((run / "calibration.json").read_text())["knots"]
    rows = json.loads((run / "predictions" / "test.json").read_text())
    sure = np.interp([row["cells"][0][2] for row in rows], *zip(*knots, strict=True)) >= 0.5
    answers = [(row["scores"]["hits@1"] == 1, one) for row, one in zip(rows, sure, strict=True)]
    right, wrong = ([sure for hit, sure in answers if hit is wanted] for wanted in (True, False))
    assert len(right) > 20
    assert len(wrong) > 20
    assert sum(right) / len(right) > 0.8
    assert sum(wrong) / len(wrong) < sum(right) / len(right) - 0.2
