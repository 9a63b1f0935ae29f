"""A mixture: which questions an epoch has, that a resumed run has the same, and what of one dataset another repeats."""

import json
from collections import Counter

import numpy as np
import pytest
from table_releases import write

from mate_cli.data.loading.batching import Schedule
from mate_cli.data.loading.cache import encode_split
from mate_cli.data.reading_mixture import ReadingMixture, WeightedBatches, WeightedSplit, find_source
from mate_cli.errors import DataError
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer


def squad(name, passages, first=0, questions=1):
    articles = []
    for number in range(first, first + passages):
        qas = [
            {
                "id": f"{name}-{number}-{which}",
                "question": f"what is {'really ' * which}{number}?",
                "answers": [{"text": "Text", "answer_start": 0}],
            }
            for which in range(questions)
        ]
        articles.append({"title": "", "paragraphs": [{"context": f"Text {number} of {name}.", "qas": qas}]})
    return {"data": articles}


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    root = tmp_path_factory.mktemp("datasets")
    shifted = squad("squad", 2, first=98)["data"]
    shifted[0]["paragraphs"][0]["qas"][0]["id"] = "of-dev"
    files = {
        "squad/train-v1.1.json": squad("squad", 20, questions=2),
        "squad/dev-v1.1.json": squad("squad", 4, first=98),
        "squadshifts/new_wiki_v1.0.json": {"data": squad("wiki", 12)["data"] + shifted[:1] + squad("squad", 1)["data"]},
    }
    for file, content in files.items():
        write(root / file, json.dumps(content))
    return root


def mixture(datasets, **weights):
    return ReadingMixture(
        datasets, weights or {"squad": 0.5, "squadshifts": 2.0}, ["squad"], {"squadshifts": {"held_out": 0}}
    )


def test_examples_say_where_they_are_from_and_repeat_nothing(datasets):
    mixed = mixture(datasets)
    train = mixed.examples("train")
    assert Counter(find_source(example.example_id) for example in train) == {"squad": 40, "squadshifts": 12}
    assert mixed.left_out == {"on a passage of evaluation": 1, "equal to one of another dataset": 1}
    assert {example.subsets for example in mixed.examples("dev")} == {("squad",)}
    assert len({find_source(example.example_id) for example in train[:10]}) == 2, "the first ones stand for all"
    assert mixed.facts["an epoch has"] == "20 of 40 squad, 24 of 12 squadshifts"
    assert mixed.check().counts["squadshifts train"]["questions"] == 12
    with pytest.raises(DataError, match="no split 'test'"):
        mixed.examples("test")


@pytest.fixture(scope="module")
def split(datasets, tmp_path_factory):
    mixed = mixture(datasets)
    serializer = TapasSerializer(load_tokenizer("sample"), max_tokens=32, label="span", sentences=0)
    folder = tmp_path_factory.mktemp("cache")
    return WeightedSplit.of(encode_split(mixed.examples("train"), serializer, folder, "train"), mixed.weights)


def test_an_epoch_has_what_the_weights_say(split):
    names = np.array([name for name in split.encodings.example_ids if name not in split.failures])
    drawn = [Counter(names[split.epoch(1, number)]) for number in range(4)]
    assert len(split) == sum(drawn[0].values()) == 44
    for first, second in (drawn[:2], drawn[2:]):
        assert set((first + second).values()) == {1, 4}, (
            "half of squad in each epoch, all of it in two; squadshifts twice"
        )
        assert not {n for n in first if n.startswith("squad/")} & {n for n in second if n.startswith("squad/")}
    assert not np.array_equal(split.epoch(1, 0), split.epoch(2, 0))


def test_a_run_that_is_resumed_sees_the_rest_of_the_same(split):
    schedule = Schedule(batch_size=4, micro_batch=2, total_steps=40)
    whole = list(WeightedBatches(split, schedule, seed=3))
    assert len(whole) == 80
    assert list(WeightedBatches(split, schedule, seed=3, start=37)) == whole[37:]
    halves = [list(WeightedBatches(split, Schedule(4, 2, 40, ranks=2), 3, rank)) for rank in (0, 1)]
    assert [batch for pair in zip(*halves, strict=True) for batch in pair] == whole
