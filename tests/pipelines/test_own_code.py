"""A trained network in one's own code, as the documents show it."""

import contextlib
import io
import json
import re
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch
from finished_runs import finished_run, here

from mate_cli import Mate
from mate_cli.cli.app import main
from mate_cli.errors import CheckpointError, ConfigError, DataError, RunError
from mate_cli.pipelines.export.export import export_run
from mate_cli.tables.table import Table

PAGES = Path(__file__).parents[2] / "docs" / "how-to"
FRAME = pd.DataFrame({"Region": ["North", "South", None], "Sold": [5.0, 7.5, float("nan")]})
QUESTIONS = ["which region sold most?", "how much did the north sell in all of these years?"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return finished_run(tmp_path_factory.mktemp("own") / "run", [])


@pytest.fixture(scope="module")
def mate(run):
    return Mate.from_pretrained(run)


def test_the_page_does_what_it_says(run, tmp_path, monkeypatch):
    export_run(str(run), str(tmp_path / "exported"), here(tmp_path))
    monkeypatch.chdir(tmp_path)
    page = (PAGES / "use_in_python.md").read_text("utf-8")
    ask, train = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)[:2]
    states = page.partition("## States")[2]
    blocks = re.findall(r"```python\n(.*?)```\n+```\n(.*?)```", states, flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(ask, names)
    assert 0 <= names["result"].confidence <= 1
    exec(train, names)
    assert names["record"].status == "finished"
    assert len(blocks) == 2
    for program, printed in blocks:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(program, names)
        assert out.getvalue() == printed


@pytest.mark.sampled(2)
@pytest.mark.parametrize("words", [[], ["model=tapas", "model.lexical_features=true", "task=table_qa"]])
def test_the_first_snippet_for_transformers_works_on_every_export(words, tmp_path, monkeypatch, capsys):
    export_run(str(finished_run(tmp_path / "run", words)), str(tmp_path / "exported"), here(tmp_path))
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    exec(re.search(r"```python\n(.*?)```", (PAGES / "use_with_transformers.md").read_text("utf-8"), re.DOTALL)[1], {})
    assert 0 <= float(capsys.readouterr().out) <= 1


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    """A folder with the network of docs/how-to/write_your_own_forward.md."""
    write_blocks("write_your_own_forward", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("plain", "towns"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def write_blocks(page, folder):
    """Write the files that a page shows."""
    text = (PAGES / f"{page}.md").read_text("utf-8")
    for file, content in re.findall(r"```(?:python|yaml)\n# (\S+)\n(.*?)```", text, flags=re.DOTALL):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(content)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "page"),
    [("striped", "add_your_own_network"), ("nearby", "add_your_own_network"), ("cell_lstm", "write_your_own_forward")],
)
def test_the_networks_of_the_pages_train(name, page, tmp_path, monkeypatch):
    write_blocks(page, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    words = ["experiment=quickstart_cells", f"model={name}", "debug=fast", "logger=none", "hardware.threads=1"]
    assert main(["train", *words, "name=own", "paths.outputs=outputs"]) == 0
    (folder,) = tmp_path.glob("outputs/**/record.json")
    assert json.loads(folder.read_text())["model"] == name
    network = Mate.from_pretrained(folder.parent, trust=name)
    with torch.no_grad():
        together, alone = network(FRAME, QUESTIONS).last_hidden_state[0], network(FRAME, QUESTIONS[0]).last_hidden_state
    torch.testing.assert_close(together[: alone.shape[1]], alone[0])  # padding changes nothing


PLAIN = """
from torch import nn
from mate_cli.models.base.table_encoder import TableEncoder
class Plain(nn.Module):
    def __init__(self, size, attention, vocab_size, **options):
        super().__init__()
class Clash(TableEncoder):
    def __init__(self, size, *, attention, **options):
        super().__init__(size, [], **options)
        self.encoder = nn.LSTM(128, 64)
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("command", ["train debug=fast", "inspect"])
@pytest.mark.parametrize(
    ("name", "problem"), [("Plain", "is not a TableEncoder"), ("Clash", ".encoder is LSTM, not the layers")]
)
def test_a_network_that_is_not_built_on_ours_is_refused_by_name(name, problem, command, own_folder, capsys):
    (own_folder / "plain.py").write_text(PLAIN)
    (own_folder / "conf" / "model" / "other.yaml").write_text(f"defaults: [tapas]\n_target_: plain.{name}\n")
    assert main([*command.split(), "experiment=quickstart_cells", "model=other"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: model: ")
    assert f"{name}{' ' * problem.startswith('is')}{problem}" in said


def test_a_dataset_without_coordinates_says_what_is_missing(own_folder, capsys):
    (own_folder / "towns.py").write_text(
        "from dataclasses import dataclass\n"
        "from mate_cli.data.datasets.hybridqa.reader import Sample\n"
        "from mate_cli.tables.example import Answer, TableExample\n"
        "class Towns(Sample):\n"
        "    def examples(self, split):\n"
        "        return [TableExample(e.example_id, e.question, e.table, Answer(('Bonn',)))"
        " for e in super().examples(split)]\n"
    )
    (own_folder / "conf" / "data").mkdir()
    (own_folder / "conf" / "data" / "towns.yaml").write_text("defaults: [sample]\n_target_: towns.Towns\n")
    assert main(["train", "experiment=quickstart_cells", "data=towns", "debug=fast"]) == 2
    said = capsys.readouterr().err
    assert "no usable example in split 'train': 1,200 unusable: neither cells nor number" in said
    assert "answers with coordinates" in said


@pytest.mark.long
def test_a_network_without_attention_is_counted_and_shown(own_folder, capsys):
    words = ["experiment=quickstart_cells", "model=cell_lstm", "hardware.threads=1"]
    assert main(["train", *words, "--dry"]) == 0
    assert re.search(r"memory +about", capsys.readouterr().out)
    assert main(["inspect", *words]) == 0
    assert "attention masks: none" in capsys.readouterr().out


@torch.no_grad()
def test_a_batch_says_what_each_example_says_alone(mate):
    table = Table.from_pandas(FRAME)
    together = mate(table, QUESTIONS, output_hidden_states=True, output_attentions=True)
    for place, question in enumerate(QUESTIONS):
        alone = mate(FRAME, question, output_hidden_states=True, output_attentions=True)
        size = alone.last_hidden_state.shape[1]
        torch.testing.assert_close(together.last_hidden_state[place, :size], alone.last_hidden_state[0])
        for many, one in zip(together.hidden_states, alone.hidden_states, strict=True):
            torch.testing.assert_close(many[place, :size], one[0])
        for many, one in zip(together.attentions, alone.attentions, strict=True):
            torch.testing.assert_close(many[place, :, :size, :size], one[0])
        torch.testing.assert_close(alone.hidden_states[-1], alone.last_hidden_state)
        torch.testing.assert_close(alone.attentions[0].sum(-1), torch.ones(1, 2, size))
    batches = list(mate.batches([table, FRAME], QUESTIONS, batch_size=1))
    assert [len(batch.input_ids) for batch in batches] == [1, 1]
    torch.testing.assert_close(mate(batches[0]).pooler_output[0], together.pooler_output[0])


@torch.no_grad()
def test_states_are_of_the_attention_that_is_returned(mate):
    output = mate(FRAME, QUESTIONS[0], output_hidden_states=True, output_attentions=True)
    layer = mate.encoder.encoder.layer[0].attention["self"]
    values = layer.value(output.hidden_states[0]).unflatten(-1, layer.shape)
    heads = torch.einsum("bnij,bjnh->binh", output.attentions[0], values).flatten(2)
    seen = []
    hook = (
        mate.encoder.encoder.layer[0]
        .attention["output"]
        .register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    )
    mate(output.batch)
    hook.remove()
    torch.testing.assert_close(heads[0], seen[0], atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_type_and_generator_are_the_callers(run, mate):
    torch.manual_seed(3)
    half = Mate.from_pretrained(str(run), dtype=torch.bfloat16)
    drawn, _ = torch.rand(1), torch.manual_seed(3)
    assert drawn == torch.rand(1)
    assert (half.dtype, half.device.type, half.training) == (torch.bfloat16, "cpu", False)
    assert Mate.from_pretrained(str(run), dtype="bfloat16").dtype == torch.bfloat16
    assert Mate.from_pretrained(str(run), dtype="auto").dtype == torch.float32
    for unknown in ("bf16", "int8", torch.int64):
        with pytest.raises(ConfigError, match="is not a type of weights"):
            Mate.from_pretrained(str(run), dtype=unknown)
    output = half(FRAME, QUESTIONS[0])
    assert output.pooler_output.dtype == torch.bfloat16
    torch.testing.assert_close(output.pooler_output.float(), mate(FRAME, QUESTIONS[0]).pooler_output, atol=0.1, rtol=0)


def test_mistakes_are_named(mate, tmp_path):
    with pytest.raises(DataError, match="2 tables and 3 questions"):
        mate.batch([FRAME, FRAME], ["a", "b", "c"])
    with pytest.raises(DataError, match="the table has no rows"):
        mate.batch(FRAME[:0], "a")
    output = mate(FRAME, "a")
    for row, column in ((9, 0), (-1, 0), (0, -1), (-1, -1), (0, 2)):
        with pytest.raises(DataError, match=f"no token of row {row}, column {column} was read"):
            output.of_cell(row, column)
    for example in (-1, 1):
        with pytest.raises(DataError, match=f"was read in example {example}"):
            output.of_cell(0, 0, example)
    with pytest.raises(CheckpointError, match=r"neither mate\.yaml nor config\.json"):
        Mate.from_pretrained(tmp_path)


def test_a_network_without_weights_of_pairs_says_so(tmp_path):
    slots = Mate.from_pretrained(finished_run(tmp_path, ["model=linformer"]))
    with pytest.raises(ConfigError, match="Linformer has no attention weights for pairs of tokens"):
        slots(FRAME, "a", output_attentions=True)
    assert len(slots(FRAME, "a", output_hidden_states=True).hidden_states) == 3


@pytest.mark.long
@pytest.mark.parametrize("model", ["dot", "etc", "sat", "tapas", "transformer_xl"])
def test_every_network_shows_its_layers(tmp_path, model):
    words = {"dot": ["model.keep=20", "model.pruner.size=tiny:1"]}.get(model, [])
    network = Mate.from_pretrained(finished_run(tmp_path, [f"model={model}", *words]))
    output = network(FRAME, QUESTIONS, output_hidden_states=True)
    assert {states.shape for states in output.hidden_states} == {output.last_hidden_state.shape}
    torch.testing.assert_close(output.hidden_states[-1], output.last_hidden_state)


def test_a_system_points_at_its_stages(tmp_path):
    system = finished_run(tmp_path, [], stages={"cell_selection": "x"})
    with pytest.raises(RunError, match=r"system of stages.*Load a stage, such as .*cell_selection"):
        Mate.from_pretrained(system)
