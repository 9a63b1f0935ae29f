"""Adapters of PEFT are loaded with the network that they are for, or refused."""

import json
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
import torch
from transformers import AutoModel, AutoTokenizer
from transformers import AutoModelForTableQuestionAnswering as ForTables

from mate_cli import Mate
from mate_cli.errors import CheckpointError
from mate_cli.models.auto_classes import MateForTableQuestionAnswering


def adapter_config(folder, base):
    folder.mkdir(exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": base, "peft_type": "LORA"}))


@pytest.fixture
def adapted(exports, tmp_path):
    """A network with an adapter and a head of its own, and the folder of both."""
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(
        r=2, target_modules=["query", "value"], modules_to_save=["head"], init_lora_weights=False, lora_dropout=0.0
    )
    model = peft.get_peft_model(ForTables.from_pretrained(exports("cells")), config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "modules_to_save" in name:
                weight += 0.5
    model.save_pretrained(tmp_path / "adapter")
    return model, tmp_path / "adapter"


@torch.no_grad()
def test_an_adapter_is_loaded_with_its_network(exports, given, adapted, tmp_path):
    model, folder = adapted
    wanted = model(**given).logits
    assert not torch.allclose(wanted, ForTables.from_pretrained(exports("cells"))(**given).logits, atol=0.1)
    for load in (ForTables, MateForTableQuestionAnswering):
        torch.testing.assert_close(load.from_pretrained(folder)(**given).logits, wanted)
    assert list(ForTables.from_pretrained(folder, adapter_name="mine").peft_config) == ["mine"]
    both = tmp_path / "both"
    shutil.copytree(exports("cells"), both)
    model.save_pretrained(both)
    torch.testing.assert_close(ForTables.from_pretrained(both)(**given).logits, wanted)
    merged = model.merge_and_unload()
    torch.testing.assert_close(merged(**given).logits, wanted, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_mate_opens_a_merged_network(exports, adapted, tmp_path):
    merged = adapted[0].merge_and_unload()
    merged.save_pretrained(tmp_path / "merged")
    AutoTokenizer.from_pretrained(exports("cells")).save_pretrained(tmp_path / "merged")
    mate, original = Mate.from_pretrained(tmp_path / "merged"), Mate.from_pretrained(exports("cells"))
    table = pd.DataFrame({"Region": ["North", "South"], "Sold": ["5", "7"]})
    batch = original.batch(table, "which region sold most?")
    torch.testing.assert_close(mate.batch(table, "which region sold most?").input_ids, batch.input_ids)
    states = mate(batch).last_hidden_state
    torch.testing.assert_close(states, merged.encoder(batch).states, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(states, original(batch).last_hidden_state, atol=1e-3)


def test_the_page_makes_an_adapter_and_a_head(exports, monkeypatch, tmp_path):
    pytest.importorskip("peft")
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "use_with_transformers.md").read_text(encoding="utf-8")
    section = page.partition("## Training with transformers")[2].partition("\n## ")[0]
    program, new_head = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names = {"with_head": ForTables.from_pretrained(exports("cells")), "AutoModelForTableQuestionAnswering": ForTables}
    exec(program, names)
    assert list(names["again"].peft_config) == ["default"]
    shutil.copytree(exports("cells"), tmp_path / "exported")
    names["AutoModel"] = AutoModel
    exec(new_head, names)
    assert names["judge"].head.out_features == 3


def test_an_adapter_wraps_a_mate(exports):
    peft = pytest.importorskip("peft")
    mate = Mate.from_pretrained(exports("cells"))
    adapted = peft.get_peft_model(mate, peft.LoraConfig(target_modules=["query"]))
    assert adapted({"Region": ["North"]}, "which region?").pooler_output.isfinite().all()


def test_mate_adds_no_adapter_up(exports, tmp_path):
    adapter_config(tmp_path / "adapter", exports("cells"))
    with pytest.raises(CheckpointError, match="it is a PEFT adapter"):
        Mate.from_pretrained(tmp_path / "adapter")
