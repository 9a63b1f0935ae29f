import json
import subprocess
import sys

import pytest

from mate_cli.cli.app import main
from mate_cli.cli.data import arguments


def test_the_action_is_a_word_of_its_own():
    assert arguments(["check", "data=sample"]) == ["action=check", "data=sample"]
    assert arguments(["download", "data.root=check"]) == ["action=download", "data.root=check"]


def test_check_prints_counts_and_sizes_and_writes_json(tmp_path, capsys):
    report = tmp_path / "inner" / "report.json"
    assert main(["data", "check", "data=sample", f"report={report}"]) == 0
    printed = capsys.readouterr().out
    for text in ("No problems.", "1,200", "150", "words in a passage", "median"):
        assert text in printed
    written = json.loads(report.read_text())
    assert written["problems"] == []
    assert written["counts"]["dev"]["questions"] == 150
    assert written["percentiles"]["rows"]["100"] == 7


@pytest.fixture
def broken(tmp_path):
    (tmp_path / "released_data").mkdir()
    questions = [
        {"question_id": f"q{i}", "question": "who ?", "table_id": f"T_{i}", "answer-text": "x"} for i in range(30)
    ]
    (tmp_path / "released_data" / "dev.json").write_text(json.dumps(questions))
    for folder in ("tables_tok", "request_tok"):
        (tmp_path / folder).mkdir()
    return tmp_path


def test_problems_end_with_exit_code_2_the_first_twenty_being_listed(broken, capsys):
    report = broken / "report.json"
    assert main(["data", "check", f"data.root={broken}", f"report={report}"]) == 2
    captured = capsys.readouterr()
    assert "Problems: 30, the first 20:" in captured.out
    assert captured.out.count("is missing or damaged") == 20
    assert "30 problems" in captured.err
    assert len(json.loads(report.read_text())["problems"]) == 30


def test_no_data_is_one_line_that_says_what_to_type(tmp_path, capsys):
    assert main(["data", "check", f"data.root={tmp_path / 'none'}"]) == 2
    error = capsys.readouterr().err
    assert "mate data download data=hybridqa data.root=" in error
    assert "Traceback" not in error


def test_the_check_loads_neither_torch_nor_lightning():
    program = (
        "import sys; from mate_cli.cli.app import main; code = main(['data', 'check', 'data=sample']);"
        "print([m for m in ('torch', 'pytorch_lightning', 'datasets', 'requests') if m in sys.modules]);"
        "sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"
