"""Processes of several machines begin together: with the same words, code and data, or one line says what differs."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from contextlib import closing
from pathlib import Path

import forked_commands
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from forked_commands import Command

QUICK = ["logger=none", "model.size=tiny", "init=random", "init.tokenizer=sample", "encoding.max_tokens=96"]
QUICK += ["debug=fast", "trainer.limit_train=64", "hardware.devices=2", "hardware.threads=1"]
WORDS = ["experiment=wtq_mate", "data=files", "data.train=asked.jsonl", "data.dev_share=0.25", *QUICK]
CORPUS = ["experiment=pretrain_mate", "data.exclude=[]", *QUICK]
TABLE = [["name", "city"], ["Ruvo Tekan", "Belora"], ["Mila Sorn", "Katim"]]


@pytest.fixture
def nodes(tmp_path, monkeypatch):
    """Start a command on each of two machines, which have a folder of their own and share that of outputs."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def start(
        rank: int,
        *words: str,
        base: list[str] = WORDS,
        answer: str = "Belora",
        count: int = 24,
        home: bool = True,
        in_pod: bool = False,
    ) -> Command:
        folder = tmp_path / f"node{rank}"
        folder.mkdir()
        rows = [{"question": f"which is number {n}?", "table": TABLE, "answers": [answer]} for n in range(count)]
        if home:
            (folder / "asked.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        if in_pod:  # as a PyTorchJob on Kubernetes
            del place["LOCAL_RANK"]
            words = (*words, "hardware.devices=1", "hardware.nodes=2")
        for name, value in place.items():
            monkeypatch.setenv(name, str(value))
        monkeypatch.setenv("MATE_CACHE", str(folder / "cache"))
        monkeypatch.chdir(folder)
        return forked_commands.start("train", *base, f"paths.outputs={tmp_path / 'outputs'}", *words)

    return start


def end(command: Command) -> tuple[int, str]:
    """Return the exit code, and what is told of errors beside the time that slow work takes."""
    _, errors = command.communicate(timeout=60)
    lines = errors.splitlines(keepends=True)
    return command.returncode, "".join(line for line in lines if not line.endswith("so far\n"))


@pytest.mark.long
@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"answer": "Katim"}, "rank 1 has train: 18 examples, digest "),
        ({"count": 40}, "rank 1 has train: 30 examples, digest "),
    ],
)
def test_data_that_differ_are_one_line_before_the_first_step(nodes, tmp_path, other, told):
    first, second = nodes(0), nodes(1, **other)
    code, errors = end(first)
    assert code == 2
    assert errors.startswith(f"error: {told}"), errors
    assert "but rank 0 has 18 examples, digest " in errors
    assert errors.count("\n") == 1
    assert end(second) == (2, "")
    assert not list((tmp_path / "outputs").glob("train/*/*")), "what is refused leaves nothing"


@pytest.mark.long
def test_settings_that_differ_are_one_line(nodes, tmp_path):
    first, second = nodes(0, "optimizer.lr=1e-3"), nodes(1, "optimizer.lr=2e-3")
    assert end(first)[0] == 2
    assert end(first)[1].startswith("error: rank 1 has optimizer.lr: 0.002, but rank 0 has 0.001. Start all with")
    assert end(second) == (2, "")
    assert not (tmp_path / "outputs").exists()


@pytest.mark.long
def test_who_waits_ends_when_another_refuses(nodes, tmp_path):
    first, second = nodes(0), nodes(1, home=False)
    assert end(second)[0] == 2
    assert "asked.jsonl" in end(second)[1]
    code, errors = end(first)
    assert (code, errors.count("\n")) == (2, 1)
    assert "another rank of this run has ended" in errors
    assert not (tmp_path / "outputs").exists()


@pytest.mark.long
def test_a_signal_is_heard_by_who_waits(nodes):
    waiting = nodes(0)
    time.sleep(4)  # for the second, who never comes
    began = time.monotonic()
    os.kill(waiting.pid, signal.SIGTERM)
    assert end(waiting) == (130, "")
    assert time.monotonic() - began < 10


@pytest.mark.long
@pytest.mark.parametrize("in_pod", [False, True])
def test_equal_processes_train_one_run(nodes, tmp_path, in_pod):
    commands = [nodes(0, in_pod=in_pod), nodes(1, in_pod=in_pod)]
    assert [end(command) for command in commands] == [(0, "")] * 2
    (record,) = (tmp_path / "outputs").glob("train/*/*/record.json")
    assert json.loads(record.read_text())["status"] == "finished"
    assert Path(record.parent / "predictions").is_dir()


@pytest.mark.long
def test_processes_prepare_a_corpus_together(nodes, tmp_path):
    files = [tmp_path / f"{number}.parquet" for number in range(6)]
    for number, file in enumerate(files):
        rows = [[[f"{name} {count}", f"{number} {count}"] for name in ("Ruvo", "Mila")] for count in range(700)]
        pq.write_table(pa.table({"header": [["name", "city"]] * 700, "rows": rows}), file)
    shared = [f"paths.cache={tmp_path / 'cache'}", f"data.sources=[{','.join(map(str, files))}]"]
    commands = [nodes(rank, *shared, base=CORPUS) for rank in range(2)]
    corpora, writers = tmp_path / "cache" / "corpora", {0}
    while not (counts := list(corpora.glob("*/counts.json"))) and {command.poll() for command in commands} == {None}:
        writers.add(len(list(corpora.glob("*.parts/.*.draft"))))
    assert max(writers) == 2, "each writes parts meanwhile"
    assert sum(json.loads(counts[0].read_text())["tables"].values()) == 4_200
    for command in commands:
        command.send_signal(signal.SIGKILL)
        command.wait(60)
