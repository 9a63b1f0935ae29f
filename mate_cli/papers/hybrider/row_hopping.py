"""Stage 2 of Hybrider: hop from a node to the cell of its row, or the page linked there, that holds the answer."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from mate_cli.lit_modules.base import TaskSpec
from mate_cli.lit_modules.candidate_choice import Choice
from mate_cli.metrics.specs import Metric
from mate_cli.models.base.table_encoder import TaskContext
from mate_cli.papers.hybrider.candidate_choice import CandidateChoice
from mate_cli.papers.hybrider.nodes import Candidate, LinkedExample
from mate_cli.papers.hybrider.targets import find_target, hop_candidates, hop_labels
from mate_cli.tables.example import TableExample


class RowHopping(CandidateChoice):
    """Chooses a cell or page of the row of a node.

    Args:
        nodes_per_question: nodes to hop from in training, the first ones in a row with the answer; None for all.
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
        """Return the nodes in a row with the answer, each one to hop from."""
        return [
            replace(example, example_id=f"{example.example_id}/{place}")
            for group in self._beginnings(examples)
            for place, example in enumerate(group[: self.nodes_per_question])
        ]

    def evaluation_examples(self, examples: Sequence[TableExample]) -> list[LinkedExample]:
        """Return the first node in a row with the answer, of every question that has one."""
        return [group[0] for group in self._beginnings(examples)]

    def _beginnings(self, examples: Sequence[TableExample]) -> list[list[LinkedExample]]:
        """Yield of each question that hops are learnt from one example per node in a row with the answer."""
        groups = []
        for example in self.link(examples):
            target = find_target(example, example.nodes)
            rows = target.answer_of_row if target.ranks else {}
            groups.append([replace(example, current=node) for node in example.nodes if node.coordinate[0] in rows])
        return [group for group in groups if group]

    def candidate(self, choice: Choice, example: LinkedExample) -> Candidate:
        """Return the cell or page that was chosen."""
        return _places(example)[choice.place]

    def is_correct(self, prediction: Choice, example: LinkedExample) -> bool:
        """Tell whether the chosen cell or page is where the answer is found."""
        labels = hop_labels(find_target(example, example.nodes), _places(example))
        return bool(labels) and labels[prediction.place] == 1


def _places(example: LinkedExample) -> tuple[Candidate, ...]:
    assert example.current is not None
    return hop_candidates(example.table, example.current.coordinate[0])
