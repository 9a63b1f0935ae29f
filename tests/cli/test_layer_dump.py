"""Hidden states and attention weights that `mate inspect dump=` writes, compared with those of the network."""

import json

import pytest
import torch
from finished_runs import finished_run
from safetensors.torch import load_file

from mate_cli.cli.app import main
from mate_cli.models.layer_outputs import encode_with_layers
from mate_cli.pipelines.inference.pretrained_encoder import Mate


@pytest.fixture(scope="module", params=["mate", "tapas", "linformer"])
def run(request, tmp_path_factory):
    return finished_run(
        tmp_path_factory.mktemp(request.param) / "run", [f"model={request.param}", "encoding.max_tokens=256"]
    )


def dump(run, outputs, *words):
    return main(["inspect", f"run={run}", "split=dev", *words, f"paths.outputs={outputs}"])


def read_dump(folder):
    lines = [json.loads(line) for line in (folder / "index.jsonl").read_text().splitlines()]
    parts = [load_file(path) for path in sorted(folder.glob("part-*.safetensors"))]
    return lines, parts


@pytest.mark.sampled(3)
def test_states_and_attention_are_those_of_the_network_without_padding(run, tmp_path, capsys):
    if "linformer" in str(run):
        assert dump(run, tmp_path, "dump=attention") == 2
        assert "dump: Linformer has no attention weights" in capsys.readouterr().err
        assert not list(tmp_path.rglob("*.safetensors"))
        words, layers = ["dump=states", "layers=[2]"], [2]
    else:
        words, layers = ["dump=states,attention", "layers=0,-1", "part_megabytes=8"], [0, 2]
    assert dump(run, tmp_path, *words) == 0
    (folder,) = (tmp_path / "inspect").iterdir()
    lines, parts = read_dump(folder)
    assert len({line["id"] for line in lines}) == len(lines) == 150
    assert len(parts) == 1 + lines[-1]["part"] > (len(layers) > 1)
    model = Mate.from_pretrained(run)
    dataset = {example.example_id: example for example in model.parts.data.dataset.examples("dev")} or None
    for number in (0, 15, 100):  # the second is the shortest of its batch, so it has padding
        line = lines[number]
        tokens, arrays = slice(line["start"], line["end"]), parts[line["part"]]
        assert len(line["tokens"]) == line["end"] - line["start"]
        assert line["tokens"][0] == "[CLS]"
        if dataset is None:
            from mate_cli.data.datasets.hybridqa.reader import Sample

            dataset = {example.example_id: example for example in Sample().examples("dev")}
        (batch,) = model.parts.data.build_eval_loader([dataset[line["id"]]], "one")
        with torch.inference_mode():
            _, states, weights = encode_with_layers(
                model.task.encoder, batch, hidden_states=True, attentions=len(layers) > 1
            )
        for layer in layers:
            torch.testing.assert_close(arrays[f"states.{layer}"][tokens], states[layer][0], rtol=1e-4, atol=1e-5)
        if weights:
            torch.testing.assert_close(arrays[f"attention.2.{number}"], weights[1][0], rtol=1e-4, atol=1e-5)
        assert arrays["row_ids"][tokens].tolist() == batch.row_ids[0].tolist()


@pytest.mark.sampled(3)
def test_one_example_is_dumped_into_a_folder_of_its_own_each_time(run, tmp_path):
    for _ in range(2):
        assert dump(run, tmp_path, "dump=states", "layers=-1", "example=3") == 0
    folders = sorted((tmp_path / "inspect").iterdir())
    assert [folder.name for folder in folders] == ["run_dev", "run_dev-2"]
    assert [len(read_dump(folder)[0]) for folder in folders] == [1, 1]
    assert set(read_dump(folders[0])[1][0]) >= {"states.2", "row_ids", "column_ids", "input_ids"}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["dump=states", "layers=3"], "layers: has no layer 3. Choose from 0 to 2"),
        (["dump=gradients"], "dump.0: must be 'states' or 'attention'"),
        (["dump=states", "layers=first"], "layers.0: must be an integer"),
    ],
)
def test_a_wrong_dump_is_refused_and_leaves_nothing(run, words, told, tmp_path, capsys):
    if "mate" not in str(run.parent.name):
        pytest.skip("the same for every network")
    assert dump(run, tmp_path / "out", *words) == 2
    assert told in capsys.readouterr().err
    assert not list(tmp_path.rglob("*"))


def test_a_dump_needs_a_trained_network(capsys):
    assert main(["inspect", "data=sample", "dump=states"]) == 2
    assert "dump: needs a trained network" in capsys.readouterr().err
