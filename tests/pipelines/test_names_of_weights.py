"""Whatever fills a network by the names of its weights finds them; PEFT's own recipes run."""

import warnings

import pytest
import torch
import transformers
from safetensors.torch import load_model, save_model
from tiny_exports import labels_for
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from transformers import AutoModel
from transformers import AutoModelForQuestionAnswering as ForReading
from transformers import AutoModelForSequenceClassification as ForStatements
from transformers import AutoModelForTableQuestionAnswering as ForTables

import mate_cli.models.auto_classes  # noqa: F401 - makes our networks known


@pytest.fixture
def model(exports):
    return ForTables.from_pretrained(exports("cells"))


@torch.no_grad()
def assert_same(other, model, given):
    assert torch.equal(other.eval()(**given).logits, model(**given).logits)


def test_a_state_has_the_names_of_parameters_and_buffers(model):
    every = {name for kind in (model.named_parameters(), model.named_buffers()) for name, _ in kind}
    assert set(model.state_dict()) == every
    assert {"query", "key", "value"} <= {name.split(".")[-2] for name in every}


def test_torch_fills_it_by_these_names(model, given, tmp_path):
    with torch.no_grad():
        called = torch.func.functional_call(model, model.state_dict(), (), given)
        assert torch.equal(called.logits, model(**given).logits)
    other = ForTables.from_config(model.config)
    set_model_state_dict(other, {name: weight.clone() for name, weight in get_model_state_dict(model).items()})
    assert_same(other, model, given)
    save_model(model, tmp_path / "weights.safetensors")
    other = ForTables.from_config(model.config)
    load_model(other, tmp_path / "weights.safetensors")
    assert_same(other, model, given)


def test_accelerate_fills_and_moves_it(exports, model, given, tmp_path):
    accelerate = pytest.importorskip("accelerate")
    with accelerate.init_empty_weights():
        empty = ForTables.from_config(model.config)
    weights = f"{exports('cells')}/model.safetensors"
    assert_same(accelerate.load_checkpoint_and_dispatch(empty, weights, device_map={"": "cpu"}), model, given)
    other = ForTables.from_pretrained(exports("cells"))
    accelerate.disk_offload(other, tmp_path / "offload")
    assert_same(other, model, given)


def test_weights_that_are_given_are_loaded_without_asking_anybody(exports, model, given, monkeypatch):
    monkeypatch.setattr("huggingface_hub.file_download.http_get", pytest.fail)
    assert_same(type(model).from_pretrained(None, config=model.config, state_dict=model.state_dict()), model, given)
    changed = {name: torch.zeros_like(weight) for name, weight in model.state_dict().items()}
    other = type(model).from_pretrained(None, config=model.config, state_dict=changed)
    assert not any(weight.any() for weight in other.parameters())
    with pytest.raises(ValueError, match="Neither a state dict nor checkpoint files"):
        type(model).from_pretrained(None, config=model.config)


@torch.no_grad()
def test_states_of_words_stand_for_words(model, given):
    words = model.get_input_embeddings()(given["input_ids"])
    others = {name: value for name, value in given.items() if name != "input_ids"}
    assert torch.equal(model(inputs_embeds=words, **others).logits, model(**given).logits)
    for both in ({"input_ids": given["input_ids"], "inputs_embeds": words}, {}):
        with pytest.raises(ValueError, match="give either input_ids or inputs_embeds"):
            model(**both, **others)


def test_a_network_with_two_tables_of_words_refuses_states(exports):
    model = ForTables.from_pretrained(exports("dot"))
    with pytest.raises(ValueError, match=r"Dot has several word embeddings\. Give input_ids"):
        model(inputs_embeds=torch.zeros(1, 4, model.encoder.size.hidden_size), token_type_ids=torch.zeros(1, 4, 7))


@torch.no_grad()
def test_inputs_that_do_not_belong_together_are_named(model, given):
    with pytest.raises(ValueError, match=r"token_type_ids is \[1, .*\] where input_ids is \[3, "):
        model(**given | {"token_type_ids": given["token_type_ids"][:1]})


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("kind", "name", "auto"),
    [
        ("FEATURE_EXTRACTION", "cells", AutoModel),
        ("TOKEN_CLS", "cells", ForTables),
        ("SEQ_CLS", "statements", ForStatements),
        (None, "reader", ForReading),
    ],
)
def test_adapters_with_a_kind_of_task_learn(exports, given, kind, name, auto):
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(task_type=kind, target_modules=["query", "value"])
    model = auto.from_pretrained(exports(name))
    with torch.no_grad():
        for weight in model.parameters():  # a head may be zero at first, and then nothing below it learns
            weight += 0.01 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))
    labels = {} if auto is AutoModel else labels_for(name, given)
    adapted = peft.get_peft_model(model, config)
    output = adapted(**given, **labels)
    loss = output.loss if labels else output.last_hidden_state.square().sum()
    loss.backward()
    learnt = [key for key, weight in adapted.named_parameters() if "lora_B" in key and weight.grad.any()]
    assert {key.split(".self.")[1].split(".")[0] for key in learnt} == {"query", "value"}


@pytest.mark.parametrize(("name", "auto"), [("cells", ForTables), ("reader", ForReading)])
def test_an_adapter_that_loses_the_table_is_refused(exports, given, name, auto):
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(task_type="QUESTION_ANS", target_modules=["query", "value"])
    adapted = peft.get_peft_model(auto.from_pretrained(exports(name)), config)
    with pytest.raises(ValueError, match="token_type_ids is missing: without it there is no table"):
        adapted(**given)


def test_smoothed_labels_are_warned_of(model, given, tmp_path):
    arguments = transformers.TrainingArguments(str(tmp_path), label_smoothing_factor=0.1, report_to=[], use_cpu=True)
    trainer = transformers.Trainer(model, arguments)
    labels = torch.zeros_like(given["input_ids"])
    said = pytest.warns(UserWarning, match="Label smoothing of Trainer does not fit scores of tokens")
    with said, pytest.raises(RuntimeError):  # of transformers, which takes them for scores of classes
        trainer.compute_loss(model.train(), {**given, "labels": labels})
    arguments.label_smoothing_factor = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        transformers.Trainer(model, arguments).compute_loss(model.train(), {**given, "labels": labels})


@pytest.mark.parametrize("config", ["PromptTuningConfig", "PrefixTuningConfig"])
def test_prompts_that_hide_the_table_are_refused(model, config):
    peft = pytest.importorskip("peft")
    with pytest.raises(ValueError, match=r"prompt tuning drops token_type_ids, .*\. Use LoRA"):
        peft.get_peft_model(model, getattr(peft, config)(task_type="TOKEN_CLS", num_virtual_tokens=2))
