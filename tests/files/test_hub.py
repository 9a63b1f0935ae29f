"""The hub: its cache comes first, and a hub that does not answer is asked once, for a moment."""

from __future__ import annotations

import json
import socket
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from mate_cli.errors import CheckpointError, ConfigError
from mate_cli.files import hub
from mate_cli.models.checkpoints.files import read_hub
from mate_cli.pipelines.inference.checkpoint import find_checkpoint
from mate_cli.tokenization.vocabulary import load_tokenizer

COMMIT = "0" * 40


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """A machine with an empty cache whose hub is a server that says nothing; the calls that it was told of."""
    from huggingface_hub import constants

    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    calls: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen() -> None:
            while True:
                try:
                    calls.append(server.accept()[0].recv(4096).decode().split(" HTTP")[0])
                except OSError:
                    return

        Thread(target=listen, daemon=True).start()
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
        monkeypatch.setattr(hub, "SECONDS", 0.3)
        hub.is_reachable.cache_clear()
        yield calls
    hub.is_reachable.cache_clear()


def keep(cache: Path, name: str, files: dict[str, str], missing: tuple[str, ...] = ()) -> None:
    """Put a model into the cache, as fetching it would: what it has, and what is known not to be there."""
    folder = cache / f"models--{name.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(COMMIT)
    for part, content in (("snapshots", files), (".no_exist", dict.fromkeys(missing, ""))):
        for file, text in content.items():
            path = folder / part / COMMIT / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def test_a_hub_that_does_not_answer_is_asked_once(asked):
    began = time.monotonic()
    with pytest.raises(ConfigError, match=r"the hub is not reachable\. On a machine with network type hf download"):
        load_tokenizer("some/model")
    with pytest.raises(CheckpointError, match="not reachable"):
        read_hub("some/model")
    with pytest.raises(CheckpointError, match="not reachable"):
        find_checkpoint("some/model@main")
    assert time.monotonic() - began < 2
    while not asked and time.monotonic() - began < 20:
        time.sleep(0.01)  # the server hears of it in a thread of its own
    assert len(asked) == 1


def test_what_is_in_the_cache_needs_no_hub(asked, tmp_path):
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "Who"]
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": False}
    keep(
        tmp_path,
        "some/model",
        {
            "vocab.txt": "\n".join(tokens) + "\n",
            "tokenizer_config.json": json.dumps(settings),
            "config.json": json.dumps({"model_type": "bert"}),
        },
        missing=("tokenizer.json", "special_tokens_map.json", "added_tokens.json"),
    )
    vocabulary = load_tokenizer("some/model")
    assert vocabulary.tokens == tuple(tokens)
    assert not vocabulary.lower_case
    assert asked == []


def test_the_hub_is_left_alone_offline(asked, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert hub.hub_file("some/model", "vocab.txt") is None
    assert asked == []


def test_a_file_is_fetched_from_a_hub_that_answers(asked, monkeypatch):
    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            """Nothing."""

    wanted = []

    def download(repository, file, *, revision, etag_timeout):
        wanted.append((repository, file, revision, etag_timeout))
        return "there"

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setattr(hub, "SECONDS", 5.0)
        monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
        assert hub.hub_file("some/model@no_reset", "vocab.txt") == Path("there")
        server.shutdown()
    assert wanted == [("some/model", "vocab.txt", "no_reset", 5.0)]
