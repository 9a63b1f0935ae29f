"""The workspace and the report of W&B: the specifications that a server gets, of a stand-in on this machine."""

from __future__ import annotations

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from mate_cli.cli.app import main
from mate_cli.cli.commands import compare
from mate_cli.errors import ConfigError
from mate_cli.reports.compare.report import build_report
from mate_cli.reports.export.dashboard import save_workspace
from tests.reports.runs import build_run

OPTIONS = {"project": "tables", "entity": "team", "group": None, "tags": [], "timeout": 5.0, "mode": "online"}
VIEW = {
    **dict.fromkeys(("createdAt", "updatedAt"), "2026-01-01T00:00:00"),
    **{"id": "v1", "name": "nw-abc-v", "displayName": "x", "description": "", "type": "runs"},
    **{"previewUrl": None, "locked": False, "viewCount": 0},
    "user": {"id": "u", "name": "a", "username": "a", "photoUrl": "", "admin": False, "userInfo": {}},
    "project": {"id": "p", "name": "tables", "entityName": "team"},
}


class StandIn(BaseHTTPRequestHandler):
    """A server that takes any view, and has the project."""

    specs: list[dict]

    def do_POST(self):
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
        asked = json.loads(content) if content[:1] == b"{" else {}
        query, given = asked.get("query", ""), asked.get("variables") or {}
        data: dict = {"viewer": {"id": "u", "entity": "team", "username": "a", "flags": "{}", "teams": {"edges": []}}}
        if "upsertView" in query:
            self.specs.append(given | {"spec": json.loads(given["spec"])})
            view = VIEW | {"spec": given["spec"], "type": given["type"]}
            data = {"upsertView": {"view": view, "inserted": True}}
        elif "internalId" in query:
            data = {"project": {"internalId": "UHJvamVjdDox"}}
        elif "models" in query:
            node = VIEW["project"] | {"createdAt": "", "isBenchmark": False, "user": None}
            page = {"endCursor": None, "hasNextPage": False}
            data = {"models": {"edges": [{"node": node, "cursor": ""}], "pageInfo": page}}
        reply = json.dumps({"data": data}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *told):
        """Print nothing."""


@pytest.fixture
def report(tmp_path):
    for rate in (1e-4, 1e-3):
        for depth in (2, 4):
            config = {"optimizer": {"lr": rate}, "extra": {"depth": depth}}
            metrics = {"dev/em": rate * 100 + depth / 100, "dev/em/table": 0.5, "dev/em/passage": 0.4, "test/em": 0.4}
            build_run(tmp_path / f"{rate}-{depth}", config=config, metrics=metrics, steps=4)
    return build_report([tmp_path])


@pytest.fixture
def specs(report, monkeypatch):
    pytest.importorskip("wandb_workspaces")
    monkeypatch.setattr(StandIn, "specs", [], raising=False)
    server = ThreadingHTTPServer(("127.0.0.1", 0), StandIn)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    monkeypatch.delenv("WANDB_MODE")
    places = save_workspace(report, OPTIONS)
    server.shutdown()
    import wandb

    wandb.teardown()  # forgets the server and its key
    assert len(places) == 2
    assert all("/team/tables" in place for place in places)
    return StandIn.specs


def test_a_workspace_and_a_report_are_sent(specs):
    view, written = specs
    assert [one["projectName"] for one in specs] == ["tables", "tables"]
    assert (view["type"], view["displayName"]) == ("project-view", "Comparison on hybridqa")
    section = view["spec"]["section"]
    (runs,) = section["runSets"]
    told = [(one["key"]["name"], one["op"], one["value"]) for one in runs["filters"]["filters"]]
    assert told == [("jobType", "!=", "comparison"), ("tags", "IN", ["hybridqa"])]
    # W&B keeps a nested value of a configuration below `value` of its first key.
    assert runs["grouping"] == [{"section": "config", "name": "names.value.model"}, {"section": "run", "name": "group"}]
    assert {"config:names.value.model", "summary:dev/em", "summary:test/em"} <= runs["runFeed"]["columnPinned"].keys()
    panels = {one["name"]: one["panels"] for one in section["panelBankConfig"]["sections"]}
    assert list(panels) == ["Learning", "Results", "Search", "Predictions side by side"]
    curves = [(one["config"]["xAxis"], one["config"]["metrics"]) for one in panels["Learning"]]
    seconds = [("trainer/time", ["dev/em"]), ("trainer/time", ["train/loss"])]
    assert curves == [("trainer/global_step", ["dev/em"]), ("trainer/global_step", ["train/loss"]), *seconds]
    assert {one["config"]["groupBy"] for one in panels["Learning"]} == {"group"}
    bars = [one["config"]["metrics"] for one in panels["Results"] if one["viewType"] == "Bar Chart"]
    assert bars == [["dev/em"], ["test/em"], ["dev/em/passage", "dev/em/table"]]
    axes = [one["config"]["xAxis"] for one in panels["Results"] if one["viewType"] == "Scatter Plot"]
    assert "summary:cost/examples_per_second" in axes
    lines = [column["accessor"] for column in panels["Search"][0]["config"]["columns"]]
    assert lines == ["config:optimizer.value.lr", "config:extra.value.depth", "summary:dev/em"]
    assert '"predictions/dev"' in json.dumps(panels["Predictions side by side"][0])
    blocks = [json.dumps(block) for block in written["spec"]["blocks"] if block["type"] != "paragraph"]
    assert ["| Configuration" in blocks[0], "train/loss" in blocks[1], "page/comparison" in blocks[2]] == [True] * 3


def test_what_the_server_refuses_is_one_line(report, monkeypatch):
    pytest.importorskip("wandb_workspaces")
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="workspace: cannot be saved"):
        save_workspace(report, OPTIONS)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "wandb=true"),
        (["wandb=true"], "logger.wandb.mode=online"),
        (["wandb=true", "logger.wandb.mode=online"], "pip install 'mate-tables[workspaces]'"),
    ],
)
def test_a_workspace_needs_a_comparison_a_server_and_its_library(words, told, report, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(compare, "find_spec", lambda name: None)
    assert main(["compare", str(tmp_path), "html=null", "workspace=true", *words]) == 2
    assert told in capsys.readouterr().err
