"""Our classes learn in transformers' Trainer: labels by the names, shapes and types that its classes take."""

import pytest
import torch
from tiny_exports import CLASSES, QUESTIONS, labels_for
from transformers import Trainer, TrainingArguments
from transformers.utils.generic import find_labels

import mate_cli.models.auto_classes as classes

KINDS = [name for name in CLASSES if name != "dot"]


def test_labels_are_found_by_the_signature():
    assert find_labels(classes.MateForTableQuestionAnswering) == ["labels"]
    assert find_labels(classes.MateForSequenceClassification) == ["labels"]
    assert find_labels(classes.MateForMaskedLM) == ["labels"]
    assert find_labels(classes.MateForQuestionAnswering) == ["start_positions", "end_positions"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", KINDS)
def test_the_trainer_measures_and_calls_metrics(exports, given, tmp_path, name):
    pytest.importorskip("accelerate")
    told = given | labels_for(name, given)
    rows = [{key: tensor[row] for key, tensor in told.items()} for row in range(len(QUESTIONS))]
    seen = []

    def metrics(found):
        seen.append(found)
        return {"count": float(len(seen))}

    options = {"report_to": [], "use_cpu": True, "save_strategy": "no", "disable_tqdm": True}
    trainer = Trainer(
        model=CLASSES[name].from_pretrained(exports(name)),
        args=TrainingArguments(str(tmp_path), max_steps=1, per_device_eval_batch_size=2, **options),
        train_dataset=rows,
        eval_dataset=rows,
        compute_metrics=metrics,
    )
    trainer.train()
    scores = trainer.evaluate()
    assert 0 < scores["eval_loss"] < 20
    assert scores["eval_count"] == 1
    scored, labels = seen[0].predictions, seen[0].label_ids
    if name == "reader":
        assert [one.shape for one in scored] == [one.shape for one in given["input_ids"].expand(2, 3, -1)]
        assert len(labels) == 2
    else:
        assert labels.shape == told["labels"].shape


@torch.no_grad()
def test_unknown_classes_teach_nothing(exports, given):
    model = CLASSES["statements"].from_pretrained(exports("statements"))
    three = model(**given, labels=torch.tensor([1, -100, 0]))
    wanted = torch.nn.functional.cross_entropy(three.logits[[0, 2]], torch.tensor([1, 0]))
    torch.testing.assert_close(three.loss, wanted)
    assert model(**given, labels=torch.full((3,), -100)).loss == 0


@torch.no_grad()
@pytest.mark.parametrize("name", KINDS)
def test_labels_come_as_columns_and_integers_are_of_any_type(exports, given, name):
    model = CLASSES[name].from_pretrained(exports(name))
    labels = labels_for(name, given)
    wanted = model(**given, **labels)
    narrow = {key: tensor.int() for key, tensor in given.items()}
    columns = {key: tensor.int().view(3, -1) for key, tensor in labels.items()}
    found = model(**narrow, **columns, position_ids=torch.arange(given["input_ids"].shape[1]).expand(3, -1).int())
    assert torch.equal(found.loss, wanted.loss)
    assert all(map(torch.equal, found.to_tuple(), wanted.to_tuple()))
    masked = model(**narrow | {"attention_mask": given["attention_mask"].bool()}, **columns)
    assert torch.equal(masked.loss, wanted.loss)


@torch.no_grad()
def test_what_tapas_takes_of_answers(exports, given):
    model = CLASSES["answers"].from_pretrained(exports("answers"))
    labels = labels_for("answers", given)
    numbers = {"numeric_values": given["token_type_ids"][..., 2].float(), "float_answer": torch.tensor([5.0, 7.0, 1.0])}
    plain = model(**given, **labels)
    unknown = {"float_answer": torch.full((3,), torch.nan), "numeric_values": numbers["numeric_values"]}
    assert torch.equal(model(**given, **labels, **unknown).loss, plain.loss)
    without_cells = {"labels": torch.zeros_like(labels["labels"])}
    computed = model(**given, **without_cells, **numbers).loss
    scaled = numbers | {"float_answer": numbers["float_answer"][:, None]}
    scale = torch.ones_like(numbers["numeric_values"])
    assert torch.equal(model(**given, **without_cells, **scaled, numeric_values_scale=scale).loss, computed)
    assert computed != model(**given, **without_cells).loss
    with pytest.raises(ValueError, match="numeric_values"):
        model(**given, **labels, float_answer=numbers["float_answer"])
    with pytest.raises(TypeError, match="does not accept beginnings"):
        model(**given, beginnings=labels["labels"])


@torch.no_grad()
def test_a_reader_learns_from_tokens_of_several_answers(exports, given):
    model = CLASSES["reader"].from_pretrained(exports("reader"))
    ends = labels_for("reader", given)
    tokens = torch.arange(given["input_ids"].shape[1]) == ends["start_positions"][:, None]
    assert torch.equal(model(**given, labels=tokens.long()).loss, model(**given, **ends).loss)
