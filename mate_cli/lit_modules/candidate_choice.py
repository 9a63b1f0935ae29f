"""One candidate is chosen of those that stand side by side: options, or what Hybrider's first two stages link."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from mate_cli.lit_modules.base import ExampleT, TableTask, group_by_source
from mate_cli.lit_modules.losses.likelihood import soft_cross_entropy
from mate_cli.metrics.accuracy import accuracy
from mate_cli.metrics.specs.names import MetricName
from mate_cli.metrics.specs.spec import Metric
from mate_cli.models.base.encoder_output import EncoderOutput
from mate_cli.models.base.table_encoder import TableEncoder
from mate_cli.models.base.task_context import TaskContext
from mate_cli.models.heads.candidates import CandidateHead, OptionHead
from mate_cli.papers.hybrider.links import link_examples
from mate_cli.papers.hybrider.nodes import Candidate, LinkedExample, Node
from mate_cli.tables.example import TableExample
from mate_cli.tokenization.layout import TableBatch


@dataclass(frozen=True)
class Choice:
    """The best candidate of one example.

    Args:
        place: its place among the candidates, from 0.
        probability: of the softmax over the candidates.
    """

    example_id: str
    place: int
    probability: float


class CandidateTask(TableTask[ExampleT, Choice]):
    """Softmax over the candidates of a question, cross entropy towards all right ones alike."""

    def output_loss(
        self, output: EncoderOutput, head: CandidateHead | OptionHead, encoder: TableEncoder
    ) -> torch.Tensor:
        """Return the mean loss of what one encoder makes of a batch, a scalar."""
        found = head(output, encoder.pooler)
        return soft_cross_entropy(found.logits, found.mask, found.right).mean()

    def predictions(self, output: EncoderOutput, given: TableBatch) -> list[Choice]:
        """Choose a candidate of each example."""
        found = self.head(output, self.encoder.pooler)
        best, places = found.logits.masked_fill(~found.mask, -torch.inf).softmax(-1).max(-1)
        return [Choice(*one) for one in zip(output.batch.example_ids, places.tolist(), best.tolist(), strict=True)]


class CandidateChoice(CandidateTask[LinkedExample]):
    """Chooses of what a question is linked to.

    Args:
        context: of any network; `model=candidates` reads each candidate by itself.

    Source: Chen et al. 2020, "HybridQA", section 4.2; wenhuchen/HybridQA, `train_stage12.py`.
    """

    side_vocabularies: ClassVar[tuple[int, ...]] = ()
    """Numbers of values of each side feature of a candidate."""

    def __init__(self, context: TaskContext, *, metrics: Sequence[Metric] = ()) -> None:
        super().__init__(context, metrics=metrics)
        self.links = context.cache_dir and context.cache_dir / "links"
        self.add_heads(lambda one: CandidateHead(one.size.hidden_size, self.side_vocabularies))

    @abstractmethod
    def candidate(self, choice: Choice, example: LinkedExample) -> Node | Candidate:
        """Return what was chosen: a node, or a cell or page of its row."""

    def score(self, predictions: Sequence[Choice], examples: Mapping[str, LinkedExample]) -> dict[str, float]:
        """Return the share of questions with an answer whose choice is right."""
        right = [choice.example_id for choice in predictions if self.is_correct(choice, examples[choice.example_id])]
        known = [name for name, example in examples.items() if example.answer]
        return accuracy(MetricName.parse(self.spec.monitor).score, right, known, group_by_source(examples))

    def answers(self, predictions: Sequence[Choice], examples: Mapping[str, LinkedExample]) -> dict[str, str]:
        """Return the text of what is chosen, or the title of a page, by example."""
        return {one.example_id: self.candidate(one, examples[one.example_id]).content for one in predictions}

    def link(self, examples: Sequence[TableExample]) -> list[LinkedExample]:
        """Return the questions with their nodes, linked once and read from the cache ever after."""
        return link_examples(examples, self.links)
