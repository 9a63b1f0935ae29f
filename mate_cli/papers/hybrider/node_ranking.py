"""Stage 1 of Hybrider: rank the nodes that a question is linked to; the best one's row should hold the answer."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from mate_cli.lit_modules.base import TaskSpec, Training
from mate_cli.lit_modules.candidate_choice import Choice
from mate_cli.papers.hybrider.candidate_choice import CandidateChoice
from mate_cli.papers.hybrider.nodes import MAX_NODES, SOURCES, LinkedExample, Node
from mate_cli.papers.hybrider.serializers import CONFIDENCES
from mate_cli.papers.hybrider.targets import find_target
from mate_cli.tables.example import TableExample


class NodeRanking(CandidateChoice):
    """Chooses a node, knowing how it was found and how surely."""

    spec = TaskSpec("dev/row_accuracy", label="nodes", encoding="ranking", uses_pooler=True)
    side_vocabularies: ClassVar[tuple[int, ...]] = (CONFIDENCES, len(SOURCES))

    def training_examples(self, examples: Sequence[TableExample]) -> list[LinkedExample]:
        """Return the questions whose answer is in a row with a linked cell, but not in exactly the linked ones."""
        return [example for example in self.link(examples) if find_target(example, example.nodes).ranks]

    def evaluation_examples(self, examples: Sequence[TableExample]) -> list[LinkedExample]:
        """Return all questions; those that are linked to nothing have no prediction, and count as wrong."""
        return self.link(examples)

    def candidate(self, choice: Choice, example: LinkedExample) -> Node:
        """Return the node that was chosen."""
        return example.nodes[choice.place]

    def is_correct(self, prediction: Choice, example: LinkedExample) -> bool:
        """Tell whether the chosen node is in a row with the answer."""
        rows = {row for row, _ in example.answer.coordinates} if example.answer else set()
        return self.candidate(prediction, example).coordinate[0] in rows

    def baselines(self, examples: Mapping[str, LinkedExample], training: Training[LinkedExample]) -> dict[str, float]:
        """Return the accuracy of choosing the node that was found most surely, nothing learned."""
        surest = [
            Choice(name, max(range(len(nodes)), key=lambda place: _sureness(nodes[place])), 1.0)
            for name, nodes in ((name, example.nodes[:MAX_NODES]) for name, example in examples.items())
            if nodes
        ]
        return {f"surest/{name}": value for name, value in self.score(surest, examples).items()}


def _sureness(node: Node) -> float:
    """Return 0 to 1; of pages the confidence is a distance, of cells a share."""
    return node.confidence if node.source == "links" else 1 - node.confidence
