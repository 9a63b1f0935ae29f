"""One part of each kind, as somebody would add it outside the package; what they compute is of no use to anyone."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random

import torch
from matplotlib.figure import Figure
from torch import nn

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.attention.base import Work
from mate_cli.attention.patterns import AttentionPattern, global_tokens
from mate_cli.data.loading.in_memory import EncodedExamples
from mate_cli.lit_modules.base import Selection, TableAnswerSpec, TableTask, TaskSpec
from mate_cli.lit_modules.cell_selection import CellSelection
from mate_cli.metrics.specs import Metric, MetricSpec
from mate_cli.models.base.sizes import encoder_size
from mate_cli.models.base.table_encoder import TableEncoder
from mate_cli.models.heads.scores import CellSelectionHead
from mate_cli.models.initialization.initial_weights import Initializer, LoadReport
from mate_cli.models.layers.encoder import LayerSpec
from mate_cli.pipelines.evaluation.evaluation import predict
from mate_cli.pipelines.systems.base import System, SystemAnswers
from mate_cli.reports.view import Column, ReportSection, Row, View, ViewCell
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.questions import Session, TableAnswerResult
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.layout import Array, TableEncoding
from mate_cli.tokenization.serializers.tapas import TapasSerializer

PAIRS_PER_EXAMPLE = 1000


class NearRows(AttentionPattern):
    """Some heads see the rows up to `reach` away, the others only their own."""

    def __init__(self, num_heads, reach):
        super().__init__(num_heads - num_heads // 2, num_heads // 2)
        self.reach = reach

    def group_labels(self):
        return ["near rows", "own row"]

    def group_masks(self, batch):
        real, to_all = batch.attention_mask == 1, global_tokens(batch)
        away = (batch.row_ids[:, :, None] - batch.row_ids[:, None, :]).abs()
        always = (to_all | ~real)[:, :, None] | to_all[:, None, :]
        return torch.stack([((away <= reach) | always) & real[:, None, :] for reach in (self.reach, 0)], dim=1)


class Nearby(TableEncoder):
    """A network with that pattern."""

    def __init__(self, size, *, attention, reach: int = 1, **options):
        shape = encoder_size(size)
        super().__init__(size, [LayerSpec(NearRows(shape.num_heads, reach), attention)] * shape.num_layers, **options)


class Counting(Sdpa):
    """A backend that counts its calls."""

    def __init__(self):
        self.calls = 0

    def forward(self, *arguments):
        self.calls += 1
        return super().forward(*arguments)

    def count_operations(self, plan):
        return Work(PAIRS_PER_EXAMPLE * plan.packing.shape[0])

    def describe_usage(self):
        return {"counting": f"{self.calls} calls"}


class DeepHead(nn.Module):
    """A layer before the scores of cells."""

    def __init__(self, width):
        super().__init__()
        self.hidden, self.cells = nn.Linear(width, width), CellSelectionHead(width)

    def forward(self, output):
        return self.cells(output.with_states(self.hidden(output.states).tanh()))


class Guess(CellSelection):
    """A task with a head, a loss and a metric of its own, of which less is better."""

    spec = replace(
        CellSelection.spec,
        monitor="dev/ranking_error",
        metrics=(MetricSpec("ranking_error", "Ranking error", -1, ".3g"),),
    )

    def __init__(self, context, sharpness: float = 1.0, **options):
        super().__init__(context, **options)
        self.head, self.sharpness = DeepHead(self.encoder.size.hidden_size), sharpness

    def loss(self, batch):
        return self.sharpness * super().loss(batch)

    def score(self, predictions, examples):
        found = super().score(predictions, examples)
        return {**found, "ranking_error": 1 - found["hits@5"]} if found else {}


class AnswerLength(Metric):
    """A metric of any task, which a configuration names: letters of an answer."""

    spec = MetricSpec("answer_length", "Letters", 0, ".1f")

    def compute(self, answers, examples):
        return sum(map(len, answers.values())) / len(examples)


class Surer(System):
    """The answer of whichever of two stages is surer."""

    stages = ("first", "second")
    monitor = "dev/em"

    def answer(self, stages, examples, name):
        by_name = {example.example_id: example for example in examples}
        best = {}
        for stage in stages.values():
            for one in stage.predict(examples, name):
                if one.probabilities[0] > getattr(best.get(one.example_id), "probabilities", [-1])[0]:
                    best[one.example_id] = one
        return SystemAnswers(stages["first"].task_of(Guess).answers(list(best.values()), by_name))


@dataclass(frozen=True)
class Faint(Initializer):
    """Random weights, made smaller, and smaller still once the data is there."""

    tokenizer: str
    share: float = 0.5

    @torch.no_grad()
    def load(self, encoder, task=None):
        for parameter in encoder.parameters():
            parameter.mul_(self.share)
        return LoadReport(new=tuple(encoder.state_dict()))

    def prepare(self, encoder, batches, report, agree) -> Mapping[str, str]:
        self.load(encoder)
        return {"faint": f"after {len(next(iter(batches)).input_ids)} examples"}


@dataclass(frozen=True, slots=True)
class SideExample(TableExample):
    """A kind of example: which side of a table, its left or its right column, has larger numbers."""

    left: bool = True

    @property
    def outcome(self):
        return "side"


@dataclass
class Sides:
    """A dataset of that kind, drawn and not read."""

    name: str
    count: int = 64
    splits = ("train", "dev", "test")
    facts: Mapping[str, str] = field(default_factory=dict)

    def examples(self, split):
        random = Random(split)
        return [self._draw(f"{split}{number}", random) for number in range(self.count)]

    def _draw(self, name, random):
        left = random.random() < 0.5
        numbers = [(random.randint(50, 99), random.randint(1, 49))[:: 1 if left else -1] for _ in range(3)]
        rows = tuple(tuple(Cell(str(number)) for number in row) for row in numbers)
        table = Table(name, (Cell("north"), Cell("south")), rows)
        return SideExample(name, "which side is larger?", table, Answer((SIDES[left],)), left=left)


SIDES = ("right", "left")
WEIGHT = Array((), "float32", fill=1, name="weight")


class SideSerializer(TapasSerializer):
    """An encoding with a new kind of label, an array and a view of its own."""

    arrays = (WEIGHT,)
    view = "sides"

    def draw(self, example, encoding, encoder):
        print(f"{example.example_id}: {SIDES[example.left]}, {'random' if encoder is None else 'trained'} weights")
        return Figure()

    @classmethod
    def label_kind(cls, options):
        return "side"

    def encode(self, examples):
        pairs = zip(examples, super().encode(examples), strict=True)
        return [
            replace(one, class_ids=int(example.left), more={WEIGHT: 1.5 if example.left else 1.0})
            if isinstance(example, SideExample) and isinstance(one, TableEncoding)
            else one
            for example, one in pairs
        ]


@dataclass(frozen=True)
class Side:
    example_id: str
    left: bool
    probability: float


class SideChoice(TableTask[SideExample, Side]):
    """A task that learns from that label, and computes a metric of its own."""

    spec = TaskSpec(
        "dev/side_error",
        label="side",
        encoding="sides",
        table_answers=TableAnswerSpec("which side is larger?", verdict=True),
        uses_pooler=True,
        metrics=(MetricSpec("side_error", "Side error", -1, ".3g"),),
    )

    def __init__(self, context, **options):
        super().__init__(context, **options)
        self.add_heads(lambda one: nn.Linear(one.size.hidden_size, 1))

    def training_examples(self, examples):
        return list(examples)

    def output_loss(self, output, head, encoder):
        logits = head(output.pooled).squeeze(-1)
        labels, weights = output.batch.class_ids.float(), output.batch.more[WEIGHT]
        return nn.functional.binary_cross_entropy_with_logits(logits, labels, weights)

    def predictions(self, output, given):
        shares = self.head(output.pooled).squeeze(-1).sigmoid().tolist()
        return [Side(name, p > 0.5, max(p, 1 - p)) for name, p in zip(given.example_ids, shares, strict=True)]

    def score(self, predictions, examples):
        wrong = sum(not self.is_correct(one, examples[one.example_id]) for one in predictions)
        return {"side_error": (wrong + len(examples) - len(predictions)) / len(examples)}

    def answers(self, predictions, examples):
        return {one.example_id: SIDES[one.left] for one in predictions}

    def is_correct(self, prediction, example):
        return prediction.left == example.left

    def selection(self, prediction):
        return Selection((), (), prediction.probability)


@dataclass
class Pairs:
    """What `mate predict` can be asked about beside tables: pairs of numbers as they are typed, `90:3,80:12`."""

    file: str | None = None

    def open(self, questions, questions_file):
        rows = tuple(tuple(map(Cell, pair.split(":"))) for pair in self.file.split(","))
        table = Table("pairs", (Cell("north"), Cell("south")), rows)
        return [TableExample(str(place), question, table) for place, question in enumerate(questions)]

    def answer(self, opened, load, say):
        model = load()
        encodings = EncodedExamples(opened, model.parts.serializer)
        found = predict(model.parts.task, model.parts.data.loader_encoded(encodings), model.settings)
        texts = model.parts.task.answers(found, {one.example_id: one for one in opened})
        return Session(model.name, [self._result(one, texts[one.example_id]) for one in opened])

    def _result(self, example, text):
        numbers = tuple(range(1, len(example.table.rows) + 1))
        return TableAnswerResult(self.file, example.question, example.table, numbers, len(numbers), text)


def steps_section(report, *, wide):
    """A section of a comparison: the steps of each run."""
    rows = tuple(Row(run.folder.name, (ViewCell(run.text("total_steps")),)) for run in report.runs)
    return ReportSection("steps", "Steps of all runs", "Steps", (View("Steps", (Column("steps"),), rows),))
