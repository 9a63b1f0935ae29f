"""The example that asks a language model: of a server, and of transformers; it goes on where it was stopped."""

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from table_releases import write_wtq

from mate_cli.cli.app import main

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"


@pytest.fixture
def questions(tmp_path):
    words = ["data=wtq", f"data.root={write_wtq(tmp_path / 'wtq')}", "split=train"]
    assert main(["data", "export", *words, f"to={tmp_path / 'questions.jsonl'}"]) == 0
    return tmp_path / "questions.jsonl", words


class StandIn(BaseHTTPRequestHandler):
    """A server with the interface of OpenAI's, which knows two answers."""

    asked: list[dict]
    reply: str | None = "[]"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append({"path": self.path, **body})
        prompt = body["messages"][0]["content"]
        known = {"how many goals for Ann?": 'Sure: ["3"]', "who scored first?": "Ann\n"}
        text = next((answer for question, answer in known.items() if question in prompt), self.reply)
        reply = json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *told):
        """Print nothing."""


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(StandIn, "asked", [], raising=False)
    server = HTTPServer(("127.0.0.1", 0), StandIn)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()


def ask(questions, answers, *words):
    command = [sys.executable, str(EXAMPLES / "ask_language_model.py"), str(questions), str(answers)]
    done = subprocess.run([*command, str(EXAMPLES / "prompt.txt"), *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in answers.read_text().splitlines()]


def test_a_server_is_asked_once_for_each_question_and_its_answers_are_scored(questions, server, tmp_path, capsys):
    file, words = questions
    answers = tmp_path / "answers.jsonl"
    answers.write_text('{"id": "nt-0", "answer": ["Ann"]}\n{"id": "nt-1", "ans')  # a run that was killed
    found = ask(file, answers, "--model", "m", "--server", server)
    assert [one["answer"] for one in found] == [["Ann"], ["3"], [], []]
    assert len(StandIn.asked) == 3
    asked = StandIn.asked[0]
    assert (asked["path"], asked["model"], asked["temperature"]) == ("/v1/chat/completions", "m", 0)
    assert "| Player | Goals |\n| --- | --- |\n| Ann | 3 |" in asked["messages"][0]["content"]
    assert "$" not in asked["messages"][0]["content"]
    assert ask(file, answers, "--model", "m", "--server", server) == found
    assert len(StandIn.asked) == 3
    assert main(["evaluate", f"answers={answers}", *words, "name=m", f"paths.outputs={tmp_path / 'out'}"]) == 0
    assert "50.0" in capsys.readouterr().out


def test_an_empty_reply_is_an_empty_answer_and_known_answers_do_no_harm(server, tmp_path, monkeypatch):
    question = {"id": "q", "question": "the north sold most", "label": 1, "answer": ["entailed"], "markdown": ""}
    (tmp_path / "questions.jsonl").write_text(json.dumps(question) + "\n")
    monkeypatch.setattr(StandIn, "reply", None)
    (line,) = ask(tmp_path / "questions.jsonl", tmp_path / "answers.jsonl", "--model", "m", "--server", server)
    assert line == {"id": "q", "answer": [""], "reply": ""}
