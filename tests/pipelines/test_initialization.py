"""What gives a network its first weights sees the data once: before the first step, and not when a run goes on."""

import json

import pytest
import torch

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.cli.app import main
from mate_cli.models.initialization.initial_weights import InitialWeights, LoadReport
from mate_cli.models.tapas import Tapas

ARGUMENTS = [
    *("experiment=quickstart_cells", "logger=none", "trainer.limit_train=24", "trainer.limit_dev=8"),
    *("trainer.batch_size=8", "trainer.max_steps=2", "hardware.micro_batch=8", "model.hidden_dropout=0.0"),
]


@pytest.fixture
def seen(monkeypatch):
    calls = []

    def prepare(self, encoder, batches, report, agree):
        first = encoder.embeddings.word_embeddings.weight
        calls.append([name for batch in batches for name in batch.example_ids])
        with torch.no_grad():
            first.fill_(0.5)
        return {"prepared": f"by {len(calls[-1])} examples"}

    monkeypatch.setattr(InitialWeights, "prepare", prepare)
    return calls


@pytest.mark.long
def test_weights_are_prepared_once_and_not_on_resume(seen, tmp_path, monkeypatch):
    monkeypatch.setenv("MATE_CACHE", str(tmp_path / "cache"))
    assert main(["train", *ARGUMENTS, f"paths.outputs={tmp_path}"]) == 0
    (names,) = seen
    assert len(names) == len(set(names)) == 24
    assert all(name.startswith("train") for name in names)
    (folder,) = (tmp_path / "train" / "quickstart_cells").iterdir()
    record = json.loads((folder / "record.json").read_text())
    assert record["facts"]["prepared"] == "by 24 examples"
    state = torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"]
    assert state["encoder.embeddings.word_embeddings.weight"].mean() == pytest.approx(0.5, abs=0.01)

    (folder / "record.json").write_text(json.dumps({**record, "status": "interrupted"}))
    assert main(["train", *ARGUMENTS, f"paths.outputs={tmp_path}", f"resume={folder}"]) == 0
    assert len(seen) == 1
    assert json.loads((folder / "record.json").read_text())["resumed"] == 1


def test_nothing_is_prepared_without_added_layers():
    def none():
        raise AssertionError("no batch is made for nothing")
        yield

    assert InitialWeights().prepare(Tapas("tiny", attention=Sdpa()), none(), LoadReport()) == {}
