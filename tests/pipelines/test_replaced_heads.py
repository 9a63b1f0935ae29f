"""`model.head` computes the logits, so that PEFT and transformers can replace, wrap, train, save and load it."""

import copy
import json
import shutil

import pandas
import pytest
import torch
from tiny_exports import CLASSES, labels_for
from transformers import AutoModel, AutoModelForSequenceClassification
from transformers import AutoModelForTableQuestionAnswering as ForTables

from mate_cli import Mate
from mate_cli.errors import CheckpointError, ConfigError


@pytest.fixture(params=CLASSES)
def kind(request):
    """The name of an export of each class with a head."""
    return request.param


@pytest.fixture
def batch(given, kind):
    """Inputs of the model, and labels."""
    return given, labels_for(kind, given)


def scores(model, inputs):
    """The logits of the head, without dropout."""
    with torch.no_grad():
        output = model.eval()(**inputs)
    return output.span_logits if "span_logits" in output else output.logits


def shift(head):
    """A copy of a head with other weights."""
    head = copy.deepcopy(head)
    with torch.no_grad():
        for index, weight in enumerate(head.parameters()):
            weight += torch.linspace(-1, 1 + index, weight.numel()).view_as(weight)
    return head


def train(model, inputs, labels):
    """Two steps of training; every trainable parameter of the head must have a gradient."""
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.5)
    for _ in range(2):
        optimizer.zero_grad()
        model.train()(**inputs, **labels).loss.backward()
        optimizer.step()
    named = [(name, weight.grad) for name, weight in model.named_parameters() if weight.requires_grad]
    of_head = [(name, grad) for name, grad in named if ".head." in name]
    assert of_head
    assert all(grad is not None for _, grad in of_head), of_head


@pytest.mark.sampled(6)
def test_a_replaced_head_computes_and_is_saved(exports, kind, batch, tmp_path):
    inputs, _ = batch
    model = CLASSES[kind].from_pretrained(exports(kind))
    before = scores(model, inputs)
    model.head = shift(model.head)
    after = scores(model, inputs)
    assert not torch.allclose(before, after, atol=1e-3)
    model.save_pretrained(tmp_path)
    assert torch.equal(scores(CLASSES[kind].from_pretrained(tmp_path), inputs), after)
    copied = copy.deepcopy(model)
    copied.head = shift(copied.head)
    assert torch.equal(scores(model, inputs), after)
    assert not torch.equal(scores(copied, inputs), after)


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    "options",
    [
        {"task_type": "SEQ_CLS", "target_modules": ["query"]},
        {"task_type": "TOKEN_CLS", "target_modules": ["query"], "modules_to_save": ["head"]},
        {"target_modules": "all-linear"},
    ],
    ids=["SEQ_CLS", "TOKEN_CLS", "all-linear"],
)
def test_an_adapter_trains_the_head(exports, kind, batch, tmp_path, options):
    peft = pytest.importorskip("peft")
    inputs, labels = batch
    model = CLASSES[kind].from_pretrained(exports(kind))
    before = scores(model, inputs)
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=2, lora_dropout=0.0, **options))
    train(adapted, inputs, labels)
    after = scores(adapted, inputs)
    assert not torch.allclose(before, after, atol=1e-4)
    adapted.save_pretrained(tmp_path)
    base = CLASSES[kind].from_pretrained(exports(kind))
    torch.testing.assert_close(scores(peft.PeftModel.from_pretrained(base, tmp_path), inputs), after)


@pytest.mark.sampled(3)
def test_freezing_the_base_model_leaves_the_head(exports, kind, batch):
    inputs, labels = batch
    model = CLASSES[kind].from_pretrained(exports(kind))
    assert model.base_model is model.encoder is getattr(model, model.base_model_prefix)
    model.base_model.requires_grad_(False)
    model(**inputs, **labels).loss.backward()
    assert {name.partition(".")[0] for name, weight in model.named_parameters() if weight.requires_grad} >= {"head"}
    assert all(weight.grad is None for weight in model.encoder.parameters())


def test_a_layer_can_be_wrapped_by_name(exports, given):
    peft = pytest.importorskip("peft")
    model = AutoModelForSequenceClassification.from_pretrained(exports("feature_statements"))
    given = given | {"cell_features": torch.rand(*given["input_ids"].shape, model.head.lexical.features[0].in_features)}
    before = scores(model, given)
    adapted = peft.get_peft_model(model, peft.LoraConfig(target_modules=["head"], init_lora_weights=False))
    assert not torch.allclose(scores(adapted, given), before, atol=1e-4)


@pytest.mark.parametrize("layer", ["token_type_embeddings_2", "position_embeddings"])
def test_a_wrapped_embedding_computes(exports, given, layer):
    peft = pytest.importorskip("peft")
    model = ForTables.from_pretrained(exports("cells"))
    before = scores(model, given)
    adapted = peft.get_peft_model(model, peft.LoraConfig(target_modules=[layer], lora_alpha=99))
    torch.testing.assert_close(scores(adapted, given), before)
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_" in name:
                weight += torch.linspace(0, 1, weight.numel()).view_as(weight)
    assert not torch.allclose(scores(adapted, given), before, atol=1e-3)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("source", ["cells", "pieces"])
def test_a_new_head_on_a_saved_encoder(exports, kind, source, tmp_path, given):
    encoder = AutoModel.from_pretrained(exports(source))
    encoder.save_pretrained(tmp_path / "encoder")
    for folder in (tmp_path / "encoder", exports(source)):
        model, info = CLASSES[kind].from_pretrained(folder, output_loading_info=True)
        assert torch.equal(
            model.encoder(model.batch_of(**given, position_ids=None, cell_features=None)).states,
            encoder.encoder(model.batch_of(**given, position_ids=None, cell_features=None)).states,
        )
        assert all(weight.isfinite().all() for weight in model.state_dict().values())
        if folder != exports(source):
            assert any(key.startswith("head.") for key in info["missing_keys"])
    model.save_pretrained(tmp_path / "whole")
    again = CLASSES[kind].from_pretrained(tmp_path / "whole")
    assert all(torch.equal(weight, again.state_dict()[name]) for name, weight in model.state_dict().items())


def test_new_weights_depend_on_the_seed_alone(exports, given, tmp_path):
    heads = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        heads.append(AutoModelForSequenceClassification.from_pretrained(exports("pieces")).head.weight)
    assert torch.equal(heads[0], heads[1])
    assert not torch.equal(heads[0], heads[2])
    assert 0.01 < heads[0].std() < 0.03


def test_the_number_of_classes(exports, given, tmp_path):
    with pytest.raises(CheckpointError, match="ignore_mismatched_sizes=True"):
        AutoModelForSequenceClassification.from_pretrained(exports("statements"), num_labels=3)
    options = {"ignore_mismatched_sizes": True, "id2label": {0: "no", 1: "maybe", 2: "yes"}}
    model, info = AutoModelForSequenceClassification.from_pretrained(
        exports("statements"), output_loading_info=True, **options
    )
    assert {key for key, *_ in info["mismatched_keys"]} == {"head.weight", "head.bias"}
    output = model(**given, labels=torch.tensor([0, 1, 2]))
    assert output.logits.shape == (3, 3)
    assert output.loss.isfinite()
    model.save_pretrained(tmp_path)
    assert AutoModelForSequenceClassification.from_pretrained(tmp_path).config.id2label[1] == "maybe"
    for file in ("vocab.txt", "tokenizer_config.json", "special_tokens_map.json"):
        shutil.copy(f"{exports('statements')}/{file}", tmp_path)
    answer = Mate.from_pretrained(tmp_path).predict(pandas.DataFrame({"a": ["x"]}), "x is in a")
    assert answer.answer in ("no", "maybe", "yes")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("statements", {"hidden_size": 64}),
        ("statements", {"num_labels": 1}),
        ("statements", {"problem_type": "regression"}),
        ("cells", {"num_labels": 3}),
    ],
)
def test_options_without_effect_are_rejected(exports, name, options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        CLASSES[name].from_pretrained(exports(name), **options)


def test_classes_of_older_exports_are_loaded(exports, tmp_path):
    folder = shutil.copytree(exports("statements"), tmp_path / "old")
    config = json.loads((folder / "config.json").read_text())
    del config["id2label"], config["label2id"]
    (folder / "config.json").write_text(json.dumps(config))
    assert AutoModelForSequenceClassification.from_pretrained(folder).config.num_labels == 2
