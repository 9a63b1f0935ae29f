"""Parts that do not fit together are refused before any work."""

from types import SimpleNamespace

import pytest
from configurations import run_config, targets
from hydra.utils import get_class, get_object, instantiate

from mate_cli.cli.app import main
from mate_cli.cli.config_dir import config_dir
from mate_cli.errors import ConfigError
from mate_cli.models.initialization.initial_weights import InitialWeights
from mate_cli.pipelines.assembly import assemble
from mate_cli.pipelines.stages import add_up_stages
from mate_cli.pipelines.systems.base import joint_throughput
from mate_cli.runs.configuration import RunConfig


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["model=linformer", "model.length=100"], "encoding.max_tokens=256 exceeds the 100 tokens"),
        (["encoding.max_tokens=600"], "encoding.max_tokens=600 exceeds the 512 positions"),
    ],
)
def test_inputs_longer_than_the_network_takes(overrides, message):
    with pytest.raises(ConfigError, match=message):
        parts_of(["experiment=quickstart_cells", *overrides])


def test_the_size_of_the_vocabulary_is_not_typed():
    with pytest.raises(ConfigError, match=r"model\.vocab_size: "):
        parts_of(["experiment=quickstart_cells", "+model.vocab_size=3"])


def parts_of(words):
    config: RunConfig = run_config(words)
    return assemble(config, instantiate(config.data))


def test_first_weights_of_an_encoder_inside_a_network_are_options_of_their_own():
    inner = "+init.inner={pruner: {_target_: mate_cli.models.initialization.initial_weights.InitialWeights}}"
    parts = parts_of(["experiment=quickstart_dot", inner])
    assert parts.initializer == InitialWeights(tokenizer="sample", inner={"pruner": InitialWeights()})


@pytest.mark.parametrize("network", ["linformer", "etc"])
def test_a_network_with_attention_of_its_own_refuses_any_that_is_asked_for(network):
    words = ["experiment=quickstart_cells", f"model={network}", "model.size=tiny"]
    with pytest.raises(ConfigError, match=r"attention: .*cannot use Bucketed.* Use attention=auto"):
        parts_of([*words, "attention=bucketed"])
    assert parts_of(words).task.encoder.describe_usage() == {}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("task", "encoding", "remedy"),
    [
        ("span_reading", "table", "encoding=cell"),
        ("page_reading", "plain", "encoding=cell"),
        ("cell_selection", "cell", "encoding=table"),
        ("table_qa", "masked", "encoding=table"),
        ("masked_lm", "table", "encoding=masked"),
        ("node_ranking", "hopping", "encoding=ranking"),
        ("row_hopping", "ranking", "encoding=hopping"),
    ],
)
def test_an_encoding_with_labels_of_another_kind_is_refused_before_data_is_read(task, encoding, remedy):
    words = [f"task={task}", f"encoding={encoding}", "init.tokenizer=nowhere", "data.root=nowhere"]
    with pytest.raises(ConfigError, match=f"encoding: .* needs labels of .* Use {remedy}"):
        parts_of(words)


def test_labels_of_a_later_stage_are_checked_before_any_is_trained(capsys):
    assert main(["train", "experiment=quickstart", "stages.span_reading.encoding=table"]) == 2
    out, err = capsys.readouterr()
    assert err.startswith("error: stages.span_reading: encoding: SpanReading needs labels of span")
    assert out.count("\n") == 1, "nothing but the name of the run"


@pytest.mark.long
def test_every_label_that_a_task_needs_has_an_encoding():
    classes = [get_object(name) for name in targets(config_dir()) if ".lit_modules." in name or ".papers." in name]
    specs = [one.spec for one in classes if getattr(getattr(one, "spec", None), "label", None)]
    assert len({spec.label for spec in specs}) >= 10
    for spec in specs:
        encoding = run_config([f"encoding={spec.encoding}", "data=sample", "init.tokenizer=sample"]).encoding
        assert get_class(encoding["_target_"]).label_kind(encoding) == spec.label


def test_what_a_system_costs_is_the_sum_of_its_stages():
    stages = [{"examples_per_second": 6.0, "training_flops_per_example": 2e9}, {"examples_per_second": 3.0}]
    assert joint_throughput(stages) == {"examples_per_second": pytest.approx(2.0)}
    stages[1]["training_flops_per_example"] = 1e9
    assert joint_throughput(stages)["training_flops_per_example"] == 3e9


def test_a_system_has_the_weights_of_the_stages_that_answer():
    def run(count):
        speed = {"examples_per_second": count}
        return SimpleNamespace(
            record=SimpleNamespace(parameters=count, throughput=speed, data={"train": count}, device="cpu")
        )

    whole = SimpleNamespace(data={})
    for _ in range(2):  # as when it was interrupted while it answered
        add_up_stages(whole, {"questions": run(8), "select": run(2), "read": run(2)}, ("select", "read"))
    assert (whole.parameters, whole.throughput) == (4, {"examples_per_second": pytest.approx(1.0)})
    assert whole.data == {"questions/train": 8, "select/train": 2, "read/train": 2}


def test_new_weights_follow_the_seed():
    tasks = [parts_of(["experiment=quickstart_cells", f"seed={seed}"]).task for seed in (1, 1, 2)]
    first, again, other = (task.get_parameter("encoder.pooler.dense.weight") for task in tasks)
    assert first.equal(again)
    assert not first.equal(other)
