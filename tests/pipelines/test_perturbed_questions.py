"""`perturb=` of finished runs and of answer files."""

from __future__ import annotations

import json

import numpy as np
import pytest
from finished_runs import finished_run, here
from language_model_server import chat, serve
from safetensors.torch import load_file, save_file

from mate_cli.cli.app import main
from mate_cli.metrics.specs import MetricName
from mate_cli.pipelines.evaluation.evaluate_run import evaluate_run
from mate_cli.reports.sections.robustness import change_row, estimate_change, perturbation_views


def read_scores(file):
    return {row["question_id"]: (row["pred"], row["scores"]) for row in json.loads(file.read_text())}


@pytest.fixture(scope="module")
def orderless(tmp_path_factory):
    """A run whose network has no order of rows and columns: no index embeddings, and positions restart in each cell."""
    words = [
        "model=mate",
        "task=cell_selection",
        "encoding.max_tokens=512",
        "encoding.reset_positions=true",
        "trainer.limit_dev=32",
    ]
    folder = finished_run(tmp_path_factory.mktemp("runs") / "run", words)
    weights = load_file(folder / "checkpoints/best.safetensors")
    # As in TAPAS, token types 1 and 2 are the index of the column and of the row.
    names = [
        name for name in weights if name.endswith(("token_type_embeddings_1.weight", "token_type_embeddings_2.weight"))
    ]
    assert len(names) == 2, sorted(weights)
    save_file({k: v * 0 if k in names else v for k, v in weights.items()}, folder / "checkpoints/best.safetensors")
    evaluate_run(str(folder), ["dev"], here(folder / "cache"), ["rows", "columns", "length_512"], [1])
    return folder


@pytest.mark.long
@pytest.mark.parametrize("name", ["rows", "columns"])
def test_a_network_without_order_is_invariant(orderless, name):
    before = read_scores(orderless / "predictions/dev.json")
    after = read_scores(orderless / f"evaluation/perturbed/{name}/1/predictions/dev.json")
    assert len(after) > 20
    assert after == {key: before[key] for key in after}


@pytest.mark.long
def test_excluded_questions_are_counted_in_the_record_and_the_comparison_has_the_change(orderless, capsys):
    record = json.loads((orderless / "record.json").read_text())
    assert "that it cannot change" in record["facts"]["excluded, dev, length_512"]
    assert "rows" in record["facts"]["cut, dev, length_512"]
    content = json.loads((orderless / "evaluation/perturbed/length_512/1/dev.json").read_text())
    assert content["excluded"]["that it cannot change"] > 0
    assert main(["compare", str(orderless)]) == 0
    text = capsys.readouterr().out
    assert "Permuted rows" in text
    assert "Rows of the same type, up to 512 tokens" in text


def test_answers_to_exported_questions_are_scored_for_each_perturbation(tmp_path, capsys):
    questions, answers = tmp_path / "questions.jsonl", tmp_path / "answers.jsonl"
    words = ["data=sample", "split=dev", "perturb=rows,spelling", "perturb_seed=1,2"]
    assert main(["data", "export", *words, "answers=true", f"to={questions}"]) == 0
    rows = [json.loads(line) for line in questions.read_text().splitlines()]
    gold = [{"id": row["id"], "answer": "wrong" if "@spelling" in row["id"] else row["answer"]} for row in rows]
    answers.write_text("\n".join(map(json.dumps, gold)))
    assert main(["evaluate", f"answers={answers}", *words, f"paths.outputs={tmp_path}", "name=gold"]) == 0
    (folder,) = tmp_path.glob("evaluate/gold/*")
    for name, share in (("rows", 1), ("spelling", 0)):
        scores = read_scores(folder / f"evaluation/perturbed/{name}/2/predictions/dev.json")
        assert {values["em"] for _, values in scores.values()} == {share}
        assert len(scores) == sum(row["id"].endswith(f"@{name}-2") for row in rows)
    assert "-100.0" in capsys.readouterr().out
    assert main(["evaluate", f"answers={answers}", *words[:2], "perturb=columns"]) == 2
    assert "@columns-1" in capsys.readouterr().err


def test_a_language_model_is_asked_the_perturbed_questions_too(tmp_path, capsys):
    questions = tmp_path / "questions.jsonl"
    words = ["data=sample", "split=dev", "perturb=rows,spelling"]
    assert main(["data", "export", *words, "answers=true", f"to={questions}"]) == 0
    rows = [json.loads(line) for line in questions.read_text().splitlines()]
    gold = {row["question"]: row["answer"] for row in rows if "@spelling" not in row["id"]}

    def reply(text, before):
        answer = next((answer for question, answer in gold.items() if question in text), "no")
        return chat(json.dumps(answer if isinstance(answer, list) else [answer]))

    with serve(reply) as server:
        system = ["system=openai_compatible", "system.model=m", f"system.endpoint={server.url}", "prompt=hybridqa"]
        places = [f"paths.outputs={tmp_path}", f"paths.cache={tmp_path / 'cache'}"]
        assert main(["evaluate", *system, *words, *places]) == 0
        asked = len(server.bodies)
    assert len({row["question"] + row["markdown"] for row in rows}) == asked
    (folder,) = tmp_path.glob("evaluate/m/*")
    assert len((folder / "answers.jsonl").read_text().splitlines()) == len(rows)
    assert "an id that no question has" not in capsys.readouterr().out
    assert {values["em"] for _, values in read_scores(folder / "predictions/dev.json").values()} == {1}
    for name, share in (("rows", 1), ("spelling", 0)):
        scores = read_scores(folder / f"evaluation/perturbed/{name}/1/predictions/dev.json")
        assert {values["em"] for _, values in scores.values()} == {share}
        assert len(scores) == sum(row["id"].endswith(f"@{name}-1") for row in rows)
    record = json.loads((folder / "record.json").read_text())
    assert "about the order of rows" in record["facts"]["excluded, dev, rows"]
    again = ["evaluate", f"answers={folder / 'answers.jsonl'}", *words, places[0], "name=again"]
    assert main(again) == 0, "the answers of a record are a file of answers"
    assert main(["evaluate", "checkpoint=bert", *words]) == 2


def test_unknown_perturbations_are_rejected_with_all_names(tmp_path, capsys):
    for command in (["evaluate", "run=nowhere"], ["data", "export", "data=sample", f"to={tmp_path / 'x'}"]):
        assert main([*command, "perturb=rows,colums"]) == 2
        assert "colums" in (error := capsys.readouterr().err)
        assert "length_4096" in error
    assert not [*tmp_path.iterdir()]


def test_a_change_on_one_table_has_no_interval():
    scores = np.array([[1.0, 0.0, 0], [0.0, 0.0, 0]])
    row = change_row("a", MetricName.parse("dev/em"), scores, 1, estimate_change(scores))
    assert [cell.text for cell in row.cells] == ["50.0", "0.0", "-50.0", "\u2013", "2", "1", "1"]


@pytest.mark.parametrize(("copies", "mark"), [(1, "worse"), (9, "")])
def test_marks_of_changes_are_corrected_for_the_rows(tmp_path, copies, mark):
    """A change that is significant alone (p about 0.03) is not among nine."""
    originals = [{"question_id": f"{number}", "table_id": f"{number}", "scores": {"em": 1.0}} for number in range(40)]
    perturbed = [row | {"scores": {"em": float(number > 4)}} for number, row in enumerate(originals)]
    for path, rows in (("", originals), ("evaluation/perturbed/rows/1", perturbed)):
        (tmp_path / path / "predictions").mkdir(parents=True)
        (tmp_path / path / "predictions/dev.json").write_text(json.dumps(rows))
    (view,) = perturbation_views({f"run {number}": [tmp_path] for number in range(copies)}, None)
    assert {row.cells[2].mark for row in view.rows} == {mark}
