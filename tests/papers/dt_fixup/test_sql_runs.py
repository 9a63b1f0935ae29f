"""Text to SQL from the command line: a run of 24 layers, killed and resumed, and a database of one's own."""

import json

import forked_commands
import pytest
from music_questions import write_database, write_release

ARGUMENTS = [
    *("experiment=spider_sql", "init=random", "init.tokenizer=sample", "model.size=tiny"),
    *("model.freeze=[embeddings,encoder]", "model.extra.layers=24", "model.extra.width=16", "model.extra.heads=4"),
    *("model.extra.inner=32", "task.state_width=32", "task.attention_width=16", "task.readout_width=16"),
    *("task.heads=4", "task.steps=40", "trainer.batch_size=2", "trainer.max_steps=12", "trainer.val_every=2.0"),
    *("trainer.checkpoint_every=3", "trainer.log_every=1", "hardware.micro_batch=2", "hardware.threads=1"),
    "logger=none",
]


def train(folder, *more):
    data = write_release(folder / "data")
    given = (f"data.root={data}", f"paths.outputs={folder / 'outputs'}", f"paths.cache={folder / 'cache'}")
    return forked_commands.start("train", *ARGUMENTS, *given, *more)


def finish(process):
    output, errors = process.communicate(timeout=600)
    assert process.returncode == 0, output + errors
    return output


def run_of(folder):
    (path,) = folder.glob("outputs/train/spider_sql/*")
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sql")
    finish(train(folder))
    return folder


@pytest.mark.long
def test_a_database_of_ones_own(whole, tmp_path):
    tables = ["CREATE TABLE orders (customer TEXT, price REAL)", "INSERT INTO orders VALUES ('Ann', 2)"]
    path = write_database(tmp_path / "shop.sqlite", *tables)
    asked = [f"run={run_of(whole)}", f"database={path}", "question=how many orders are there?", "hardware.threads=1"]
    kept = len(list((whole / "cache").rglob("*.npy")))
    output = tmp_path / "answers.json"
    finish(forked_commands.start("predict", *asked, f"output={output}", f"paths.cache={whole / 'cache'}"))
    (answer,) = json.loads(output.read_text())["answers"]
    exported = tmp_path / "exported"
    finish(forked_commands.start("export", f"run={run_of(whole)}", f"to={exported}"))
    assert "database=shop.sqlite" in (exported / "README.md").read_text()
    again = tmp_path / "again.json"
    finish(forked_commands.start("predict", f"checkpoint={exported}", *asked[1:], f"output={again}"))
    assert json.loads(again.read_text())["answers"] == [answer]
    assert answer["answer"] is None or answer["answer"].startswith("SELECT")
    assert len(list((whole / "cache").rglob("*.npy"))) == kept


@pytest.mark.long
def test_pairs_of_ones_own_are_learnt_and_asked_of_their_database(tmp_path):
    tables = ["CREATE TABLE orders (customer TEXT, price REAL)", "CREATE TABLE shops (city TEXT)"]
    pairs = tmp_path / "pairs.csv"
    path = write_database(tmp_path / "shop.sqlite", *tables)
    rows = ["how many orders are there?,SELECT count(*) FROM orders", "all cities,SELECT city FROM shops"]
    pairs.write_text("\n".join(["question,sql", *rows * 4]) + "\n")
    data = ["data=files", f"data.train={pairs}", f"data.database={path}", "data.dev_share=0.25"]
    own = [*data, f"paths.outputs={tmp_path / 'outputs'}", f"paths.cache={tmp_path / 'cache'}"]
    finish(forked_commands.start("train", *ARGUMENTS, *own, "trainer.max_steps=4", "model.extra.layers=2"))
    record = json.loads((run_of(tmp_path) / "record.json").read_text())
    assert (record["dataset"], record["data"]["train"], record["data"]["dev"]) == ("files", 6, 2)
    assert "dev/exact_set_match" in record["metrics"]
    output = tmp_path / "answers.json"
    asked = [f"database={path}", "question=all cities", f"output={output}", "hardware.threads=1"]
    finish(forked_commands.start("predict", f"run={run_of(tmp_path)}", *asked))
    (answer,) = json.loads(output.read_text())["answers"]
    assert answer["answer"] is None or answer["answer"].startswith("SELECT")
