"""Which questions of a split are used."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from mate_cli.data.datasets.hybridqa.reader import Sample
from mate_cli.data.datasets.release import Release
from mate_cli.data.loading.table_data_module import AugmentedBatches, LoaderOptions, TableDataModule
from mate_cli.errors import DataError
from mate_cli.pipelines.training import _prepare_weights
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Table
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer


class Blind(Sample):
    """The sample data, as if the answers of the test split were held back."""

    def examples(self, split):
        examples = super().examples(split)
        return [replace(one, answer=None) for one in examples] if split == "test" else examples


class Counted(Release):
    """A thousand questions, which count how many of them were read."""

    split_files = {"train": "train.txt"}  # noqa: RUF012
    made = 0

    def read(self, split, problems):
        for number in range(1000):
            self.made += 1
            yield TableExample(f"q{number}", "why?", Table("t", (), ()), Answer(("yes",)) if number % 2 else None)


def with_answer(examples):
    return [example for example in examples if example.answer]


@pytest.fixture
def data(tmp_path):
    loading = LoaderOptions(4, 0, seed=1, reset_positions=False, max_positions=512, cache=tmp_path, limit_dev=3)
    return TableDataModule(Blind(), None, loading, with_answer, with_answer)


def test_a_split_without_answers_has_nothing_for_a_task_that_needs_them(data):
    assert [split for split in ("train", "dev", "test", "no_such") if data.has_examples(split)] == ["train", "dev"]
    with pytest.raises(DataError, match="no usable example in split 'test'"):
        data.examples("test")


def test_questions_are_those_of_the_dataset(data):
    assert [one.example_id for one in data.questions("dev")] == [one.example_id for one in Sample().examples("dev")[:3]]


class Lazy(Counted):
    """The same questions, one after the other."""

    def examples(self, split):
        yield from self.read(split, [])


@pytest.mark.parametrize("is_release", [True, False])
def test_the_examples_of_a_dataset_may_be_a_generator(tmp_path, is_release):
    (tmp_path / "train.txt").touch()
    loading = LoaderOptions(4, 0, seed=1, reset_positions=False, max_positions=512, cache=tmp_path, limit_train=3)
    lazy = Lazy(tmp_path)
    dataset = lazy if is_release else SimpleNamespace(splits=("train",), examples=lazy.examples)
    data = TableDataModule(dataset, None, loading, with_answer, with_answer)
    assert [one.example_id for one in data.examples("train", training=True)] == ["q1", "q3", "q5"]


def test_new_weights_are_prepared_on_every_training_example(tmp_path):
    loading = LoaderOptions(4, 0, seed=1, reset_positions=False, max_positions=512, cache=tmp_path, limit_train=150)
    serializer = TapasSerializer(load_tokenizer("sample"), max_tokens=32, sentences=0)
    data, seen = TableDataModule(Sample(), serializer, loading, with_answer, with_answer), []

    def prepare(encoder, batches, report, broadcast):
        seen.extend(name for batch in batches for name in batch.example_ids)
        return {}

    encoder = torch.nn.Module()
    encoder.extra = None
    task, initializer = SimpleNamespace(encoder=encoder), SimpleNamespace(prepare=prepare)
    run = SimpleNamespace(record=SimpleNamespace(facts={}))
    _prepare_weights(run, SimpleNamespace(task=task, data=data, initializer=initializer, report=None), None)
    assert seen == [example.example_id for example in data.examples("train", training=True)]
    assert len(seen) == 150


def test_another_seed_changes_examples_otherwise():
    def draw(seed: int) -> list[int]:
        loading = SimpleNamespace(seed=seed, batch=list)
        return AugmentedBatches([0], loading, lambda _, generator: generator.integers(1000))[[(0, 7), (0, 8)]]

    assert draw(5) == draw(5) != draw(6)
