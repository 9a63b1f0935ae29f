"""The three stages of Hybrider: rank nodes, hop within a row, read a page.

Source: wenhuchen/HybridQA, `train_stage12.py` and `train_stage3.py`.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import nn

from mate_cli.lit_modules.base import TaskSpec, Training
from mate_cli.lit_modules.candidate_choice import CandidateLogits, CandidateTask, Choice, first_tokens, logits_of
from mate_cli.lit_modules.span_reading import SpanReading
from mate_cli.metrics.accuracy import accuracy
from mate_cli.metrics.specs import Metric, MetricName
from mate_cli.metrics.subsets import group_by_source
from mate_cli.models.base.table_encoder import EncoderOutput, TaskContext
from mate_cli.models.layers.encoder import Dropout
from mate_cli.papers.hybrider.linking import link_examples
from mate_cli.papers.hybrider.nodes import MAX_NODES, SOURCES, Candidate, LinkedExample, Node
from mate_cli.papers.hybrider.serializers import CONFIDENCES
from mate_cli.papers.hybrider.targets import find_target, hop_candidates, hop_labels, page_example, reading_links
from mate_cli.tables.example import TableExample

SIDE_SIZE = 32
"""Embedding size of each side feature."""


class CandidateHead(nn.Module):
    """Output head that scores each candidate cell or page by its first token, with an MLP.

    The MLP has one hidden layer. Its input includes the embedded side features.

    Args:
        side_vocabularies: number of values of each side feature; `cell_features` contains the values.
    """

    def __init__(self, hidden_size: int, side_vocabularies: Sequence[int] = ()) -> None:
        super().__init__()
        self.side = nn.ModuleList(nn.Embedding(values, SIDE_SIZE) for values in side_vocabularies)
        width = hidden_size + SIDE_SIZE * len(side_vocabularies)
        self.score = nn.Sequential(nn.Linear(width, hidden_size), nn.ReLU(), nn.Linear(hidden_size, 1))

    def forward(self, output: EncoderOutput, pooler: nn.Module) -> CandidateLogits:
        """Compute candidate logits from hidden states [B, T, D], padded to K candidates per example.

        Candidate k has row id k.
        """
        states, batch = output.states, output.batch
        example, token = first_tokens(batch)
        features = [pooler(states[example, token][:, None])]
        if len(self.side):
            assert batch.cell_features is not None
            values = batch.cell_features[example, token].long().unbind(-1)
            features += [table(value) for table, value in zip(self.side, values, strict=True)]
        return logits_of(self.score(torch.cat(features, -1)), batch)


class CandidateChoice(CandidateTask[LinkedExample]):
    """Task of stages 1 and 2, which select one of the candidate cells and pages of a question.

    Args:
        context: context of any network. `model=candidates` encodes each candidate separately.

    Source: Chen et al. 2020, "HybridQA", section 4.2; wenhuchen/HybridQA, `train_stage12.py`.
    """

    side_vocabularies: ClassVar[tuple[int, ...]] = ()
    """Number of values of each side feature of a candidate."""

    def __init__(self, context: TaskContext, *, metrics: Sequence[Metric] = ()) -> None:
        super().__init__(context, metrics=metrics)
        self.links = context.cache_dir and context.cache_dir / "links"
        self.add_heads(lambda encoder: CandidateHead(encoder.size.hidden_size, self.side_vocabularies))

    @abstractmethod
    def candidate(self, choice: Choice, example: LinkedExample) -> Node | Candidate:
        """Return the candidate that was selected for a question: a node, or a cell or page of its row."""

    def score(self, predictions: Sequence[Choice], examples: Mapping[str, LinkedExample]) -> dict[str, float]:
        """Compute the accuracy of the selected candidates over all questions with an answer."""
        correct = [choice.example_id for choice in predictions if self.is_correct(choice, examples[choice.example_id])]
        answerable = [name for name, example in examples.items() if example.answer]
        return accuracy(MetricName.parse(self.spec.monitor).score, correct, answerable, group_by_source(examples))

    def answers(self, predictions: Sequence[Choice], examples: Mapping[str, LinkedExample]) -> dict[str, str]:
        """Return the text of the selected cell, or the title of the selected page, by example id."""
        return {
            choice.example_id: self.candidate(choice, examples[choice.example_id]).content for choice in predictions
        }

    def link(self, examples: Sequence[TableExample]) -> list[LinkedExample]:
        """Link questions to cells and pages. The links are cached on disk."""
        return link_examples(examples, self.links)


class NodeRanking(CandidateChoice):
    """Task of stage 1, which selects a node. The input includes the source and the confidence of each node."""

    spec = TaskSpec("dev/row_accuracy", label="nodes", encoding="ranking", uses_pooler=True)
    side_vocabularies: ClassVar[tuple[int, ...]] = (CONFIDENCES, len(SOURCES))

    def training_examples(self, examples: Sequence[TableExample]) -> list[LinkedExample]:
        """Return the questions with a label: not trivial, and with the answer in the row of a linked cell."""
        return [example for example in self.link(examples) if find_target(example, example.nodes).ranks]

    def evaluation_examples(self, examples: Sequence[TableExample]) -> list[LinkedExample]:
        """Return all questions. A question without nodes has no prediction and is scored as wrong."""
        return self.link(examples)

    def candidate(self, choice: Choice, example: LinkedExample) -> Node:
        """Return the node that was selected for a question."""
        return example.nodes[choice.place]

    def is_correct(self, prediction: Choice, example: LinkedExample) -> bool:
        """Return whether the selected node is in a row with the answer."""
        rows = {row for row, _ in example.answer.coordinates} if example.answer else set()
        return self.candidate(prediction, example).coordinate[0] in rows

    def baselines(self, examples: Mapping[str, LinkedExample], training: Training[LinkedExample]) -> dict[str, float]:
        """Return the accuracy of selecting the node with the highest confidence."""
        # The confidence of a page is a distance.
        shares_by_name = {
            name: [n.confidence if n.source == "links" else 1 - n.confidence for n in example.nodes[:MAX_NODES]]
            for name, example in examples.items()
        }
        surest = [Choice(name, shares.index(max(shares)), 1.0) for name, shares in shares_by_name.items() if shares]
        return {f"surest/{name}": value for name, value in self.score(surest, examples).items()}


class RowHopping(CandidateChoice):
    """Task of stage 2, which selects a cell or page in the row of the node from stage 1.

    Args:
        nodes_per_question: maximum number of nodes to hop from per training question, the first nodes in a row with the
            answer. None: all.
    """

    spec = TaskSpec("dev/hop_accuracy", label="hops", encoding="hopping", uses_pooler=True)

    def __init__(
        self,
        context: TaskContext,
        nodes_per_question: Annotated[int, Field(gt=0)] | None = None,
        *,
        metrics: Sequence[Metric] = (),
    ) -> None:
        super().__init__(context, metrics=metrics)
        self.nodes_per_question = nodes_per_question

    def training_examples(self, examples: Sequence[TableExample]) -> list[LinkedExample]:
        """Return one example per question and linked node in a row with the answer, the hop's start."""
        return [
            replace(example, example_id=f"{example.example_id}/{index}")
            for group in self._beginnings(examples)
            for index, example in enumerate(group[: self.nodes_per_question])
        ]

    def evaluation_examples(self, examples: Sequence[TableExample]) -> list[LinkedExample]:
        """Return one example per question, starting from its first node in a row with the answer.

        Questions without such a node are omitted.
        """
        return [group[0] for group in self._beginnings(examples)]

    def _beginnings(self, examples: Sequence[TableExample]) -> list[list[LinkedExample]]:
        """Create the examples of each question, one per linked node in a row with the answer."""
        groups = []
        for example in self.link(examples):
            target = find_target(example, example.nodes)
            rows = target.answer_of_row if target.ranks else {}
            groups.append([replace(example, current=node) for node in example.nodes if node.coordinate[0] in rows])
        return [group for group in groups if group]

    def candidate(self, choice: Choice, example: LinkedExample) -> Candidate:
        """Return the cell or page that was selected for a question."""
        return _candidates_of(example)[choice.place]

    def is_correct(self, prediction: Choice, example: LinkedExample) -> bool:
        """Return whether the selected cell or page contains the answer."""
        labels = hop_labels(find_target(example, example.nodes), _candidates_of(example))
        return bool(labels) and labels[prediction.place] == 1


def _candidates_of(example: LinkedExample) -> tuple[Candidate, ...]:
    assert example.current is not None
    return hop_candidates(example.table, example.current.coordinate[0])


class PageReading(SpanReading):
    """Task of stage 3: read the answer in a page. Each page that contains the answer is a training example.

    Source: Chen et al. 2020, "HybridQA", section 4.2; wenhuchen/HybridQA, `train_stage3.py`.
    """

    def __init__(
        self,
        context: TaskContext,
        max_span_length: Annotated[int, Field(gt=0)] = 30,
        cells_per_question: Annotated[int, Field(gt=0)] | None = None,
        dropout: Dropout = 0.1,
        *,
        metrics: Sequence[Metric] = (),
    ) -> None:
        super().__init__(context, max_span_length, cells_per_question, dropout, metrics=metrics)
        self.links = context.cache_dir and context.cache_dir / "links"

    def training_examples(self, examples: Sequence[TableExample]) -> list[TableExample]:
        """Return all pages with the answer, up to `cells_per_question` pages per question."""
        return [
            page_example(example, link, f"{example.example_id}/{index}")
            for example, links in self._pages(examples)
            for index, link in enumerate(links[: self.cells_per_question])
        ]

    def evaluation_examples(self, examples: Sequence[TableExample]) -> list[TableExample]:
        """Return the first page with the answer of every question that has such a page."""
        return [page_example(example, links[0]) for example, links in self._pages(examples)]

    def _pages(self, examples: Sequence[TableExample]) -> list[tuple[TableExample, list[str]]]:
        linked_examples = link_examples(examples, self.links)
        pages = ((example, reading_links(example, find_target(example, example.nodes))) for example in linked_examples)
        return [(example, links) for example, links in pages if links]
