"""Several processes share the questions that `mate evaluate` predicts: the files and scores are those of one."""

from __future__ import annotations

import json
import shutil
import socket
from contextlib import closing
from pathlib import Path

import forked_commands
import pytest
from finished_runs import finished_run
from forked_commands import Command

from mate_cli.cli.app import main

TWO = "hardware.devices=2"


@pytest.fixture
def nodes(tmp_path, monkeypatch):
    """Start `mate evaluate` in one process, or in each of two, which stand in folders of their own."""
    monkeypatch.setenv("MATE_CACHE", str(tmp_path / "cache"))

    def start(*words: str, count: int = 2, others: tuple[str, ...] = ()) -> list[Command]:
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        started = []
        for rank in range(count):
            place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            for name, value in place.items() if count == 2 else ():
                monkeypatch.setenv(name, str(value))
            (tmp_path / f"node{rank}").mkdir(exist_ok=True)
            monkeypatch.chdir(tmp_path / f"node{rank}")
            typed = [*words, *(others if rank else ()), f"paths.outputs={tmp_path / 'outputs'}", "hardware.threads=1"]
            started.append(forked_commands.start("evaluate", *typed))
        return started

    return start


def finish(commands: list[Command]) -> list[str]:
    """Return what each process prints, once all have ended without an error."""
    ended = [(command.communicate(timeout=120), command.returncode) for command in commands]
    assert [code for _, code in ended] == [0] * len(commands), ended
    return [output for (output, _), _ in ended]


def take_results(*folders: Path) -> dict[str, str]:
    """Read what an evaluation left below folders, and remove it; of records, what does not tell how long it took."""
    found = {}
    for folder in folders:
        for file in sorted(path for name in ("evaluation", "predictions") for path in folder.rglob(f"{name}/*.json")):
            found[f"{folder.name}/{file.parent.name}/{file.name}"] = file.read_text()
            file.unlink()
        for file in folder.glob("evaluate/*/*/record.json"):
            record = json.loads(file.read_text())
            found |= {name: str(record[name]) for name in ("status", "metrics", "questions", "data", "facts", "device")}
            shutil.rmtree(file.parent)
    assert len(found) > 1
    return found


@pytest.mark.long
@pytest.mark.parametrize(("count", "splits"), [(1, "dev"), (2, "dev,test")], ids=["one run", "two runs"])
def test_two_processes_evaluate_what_one_does(nodes, tmp_path, count, splits):
    runs = [finished_run(tmp_path / "runs" / f"{seed}", [f"seed={seed}"]) for seed in range(count)]
    typed = [f"run={','.join(map(str, runs))}", f"split={splits}"]
    (alone,) = finish(nodes(*typed, count=1))
    before = take_results(*runs, tmp_path / "outputs")
    printed, silent = finish(nodes(*typed, TWO))
    assert take_results(*runs, tmp_path / "outputs") == before
    assert len(printed.splitlines()) == len(alone.splitlines())
    assert silent == "", "the first process alone prints"


@pytest.mark.long
@pytest.mark.parametrize(
    ("others", "told"),
    [pytest.param(["split=dev"], "rank 1 has arguments: ", marks=pytest.mark.long), ([], "rank 1 has test: ")],
)
def test_processes_with_other_questions_are_one_line(nodes, tmp_path, others, told):
    for rank in range(2):
        (tmp_path / f"node{rank}").mkdir()
        row = {"question": f"where does Mila live, {rank}?", "table": [["name"], ["Mila"]], "answers": ["Mila"]}
        (tmp_path / f"node{rank}" / "asked.jsonl").write_text(json.dumps(row))
    run = finished_run(tmp_path / "run", ["data=files", "data.test=asked.jsonl"])
    first, second = nodes(f"run={run}", TWO, others=tuple(others))
    error = first.communicate(timeout=60)[1]
    assert first.returncode == 2
    assert error.splitlines()[-1].startswith(f"error: {told}")
    assert second.communicate(timeout=60)[0] == ""
    assert second.returncode == 2
    assert not (run / "predictions").exists()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "words",
    [
        ["evaluate", "run=RUN", "analysis=attention_flow"],
        ["evaluate", "answers=answers.jsonl", "data=sample"],
        ["predict", "run=RUN", "table=t.csv", "question=who?"],
        ["export", "run=RUN", "to=exported"],
    ],
)
def test_what_one_process_does_refuses_several(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    run = finished_run(tmp_path / "run", [])
    assert main([*(word.replace("RUN", str(run)) for word in words), TWO]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: hardware.devices: ")
    assert told.endswith(" takes one process, not 2. Set hardware.devices=1 and hardware.nodes=1.\n")


@pytest.mark.long
def test_a_command_starts_the_processes_itself(nodes, tmp_path):
    run, outputs = finished_run(tmp_path / "run", []), tmp_path / "outputs"
    assert main(["export", f"run={run}", f"to={tmp_path / 'exported'}", "hardware.threads=1"]) == 0
    typed, memory = [f"checkpoint={tmp_path / 'exported'}", "data=sample"], []
    results = []
    for words in (typed, [*typed, TWO]):
        finish(nodes(*words, count=1))
        (record,) = outputs.glob("evaluate/*/*/record.json")
        memory.append(json.loads(record.read_text())["peak_memory_mb"])
        results.append(take_results(outputs))
    assert results[0] == results[1]
    assert memory[1] > 1.5 * memory[0], "the record counts both processes"
