"""An export is uploaded to a hub, which here is a server on this machine."""

import base64
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from finished_runs import finished_run

from mate_cli.cli.app import main

TOKEN = "hf_of_a_test"


class Hub(BaseHTTPRequestHandler):
    """What the hub answers to those who create a repository and commit small files."""

    refuses = ""

    def do_GET(self):
        known = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        self._answer(200 if known else 401, {"name": "me", "type": "user"} if known else {"error": "unknown token"})

    def do_POST(self):
        length = self.headers.get("Content-Length")
        content = self.rfile.read(int(length)) if length else b"".join(self._chunks())
        path = self.path.partition("?")[0]
        self.server.asked.append((path, content))
        if self.refuses and self.refuses in path:
            self._answer(403, {"error": "You don't have the rights to create a model under this namespace"})
        elif path.endswith("/preupload/main"):
            files = json.loads(content)["files"]
            modes = [{"path": one["path"], "uploadMode": "regular", "shouldIgnore": False} for one in files]
            self._answer(200, {"files": modes})
        elif "/commit/" in path:
            address = f"http://{self.headers['Host']}/me/tables"
            self._answer(200, {"commitUrl": f"{address}/commit/1", "commitOid": "1", "success": True})
        else:
            self._answer(200, {"url": f"http://{self.headers['Host']}/me/tables", "name": "me/tables"})

    def _chunks(self):
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _answer(self, status, content):
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


@pytest.fixture
def hub(monkeypatch):
    """The server, which keeps what it is asked."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.asked = []
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return finished_run(tmp_path_factory.mktemp("runs") / "run", [])


def export(run, folder, *words):
    return main(["export", f"run={run}", f"to={folder}", "push=me/tables", "hardware.threads=1", *words])


@pytest.mark.parametrize("private", [True, False])
def test_all_files_are_uploaded_to_a_private_repository_unless_told_otherwise(run, hub, tmp_path, capsys, private):
    folder = tmp_path / "exported"
    assert export(run, folder, *([] if private else ["private=false"])) == 0
    assert f"pushed: http://127.0.0.1:{hub.server_port}/me/tables" in capsys.readouterr().out
    asked = dict(hub.asked)
    created = json.loads(asked["/api/repos/create"])
    assert created["name"] == "tables"
    assert created.get("private", created.get("visibility") == "private") is private
    lines = [json.loads(line) for line in asked["/api/models/me/tables/commit/main"].splitlines()]
    files = {one["value"]["path"]: base64.b64decode(one["value"]["content"]) for one in lines if one["key"] == "file"}
    assert files == {file.name: file.read_bytes() for file in Path(folder).iterdir()}
    assert b"hf download me/tables --local-dir exported" in files["README.md"]


def test_a_token_that_the_hub_does_not_know_is_refused_before_anything_is_written(
    run, hub, tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("HF_TOKEN", "hf_of_nobody")
    assert export(run, tmp_path / "exported") == 2
    error = capsys.readouterr().err
    assert error.startswith("error: push=me/tables: the Hugging Face Hub rejected it: ")
    assert "hf auth login" in error
    assert not list(tmp_path.iterdir())


def test_what_the_hub_refuses_later_leaves_the_folder(run, hub, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Hub, "refuses", "/create")
    folder = tmp_path / "exported"
    assert export(run, folder) == 2
    error = capsys.readouterr().err
    assert f"The folder is written: type hf upload me/tables {folder}" in error
    assert "Traceback" not in error
    assert (folder / "model.safetensors").is_file()
