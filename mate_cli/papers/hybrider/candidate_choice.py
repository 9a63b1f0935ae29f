"""One is chosen of what a question is linked to: the first two stages of Hybrider."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from mate_cli.lit_modules.base import group_by_source
from mate_cli.lit_modules.candidate_choice import CandidateTask, Choice
from mate_cli.metrics.accuracy import accuracy
from mate_cli.metrics.specs.names import MetricName
from mate_cli.metrics.specs.spec import Metric
from mate_cli.models.base.task_context import TaskContext
from mate_cli.papers.hybrider.candidate_head import CandidateHead
from mate_cli.papers.hybrider.links import link_examples
from mate_cli.papers.hybrider.nodes import Candidate, LinkedExample, Node
from mate_cli.tables.example import TableExample


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
