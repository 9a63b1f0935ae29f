"""One is chosen of what a question is linked to: the first two stages of Hybrider.

Source: wenhuchen/HybridQA, `train_stage12.py`.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import nn

from mate_cli.lit_modules.candidate_choice import CandidateLogits, CandidateTask, Choice, first_tokens, logits_of
from mate_cli.metrics.accuracy import accuracy
from mate_cli.metrics.specs import Metric, MetricName
from mate_cli.metrics.subsets import group_by_source
from mate_cli.models.base.table_encoder import EncoderOutput, TaskContext
from mate_cli.papers.hybrider.links import link_examples
from mate_cli.papers.hybrider.nodes import Candidate, LinkedExample, Node
from mate_cli.tables.example import TableExample

SIDE_SIZE = 32
"""Numbers in the embedding of each side feature."""


class CandidateHead(nn.Module):
    """Pools the first token of each candidate and scores it, with side features, by a network of one hidden layer.

    Args:
        side_vocabularies: how many values each side feature has; `cell_features` hold the values.
    """

    def __init__(self, hidden_size: int, side_vocabularies: Sequence[int] = ()) -> None:
        super().__init__()
        self.side = nn.ModuleList(nn.Embedding(values, SIDE_SIZE) for values in side_vocabularies)
        width = hidden_size + SIDE_SIZE * len(side_vocabularies)
        self.score = nn.Sequential(nn.Linear(width, hidden_size), nn.ReLU(), nn.Linear(hidden_size, 1))

    def forward(self, output: EncoderOutput, pooler: nn.Module) -> CandidateLogits:
        """Map states [B, T, D] to the scores of K candidates, the most that an example has; number k has row id k."""
        states, batch = output.states, output.batch
        example, token = first_tokens(batch)
        features = [pooler(states[example, token][:, None])]
        if len(self.side):
            assert batch.cell_features is not None
            values = batch.cell_features[example, token].long().unbind(-1)
            features += [table(value) for table, value in zip(self.side, values, strict=True)]
        return logits_of(self.score(torch.cat(features, -1)), batch)


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
        self.add_heads(lambda encoder: CandidateHead(encoder.size.hidden_size, self.side_vocabularies))

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
        return {
            choice.example_id: self.candidate(choice, examples[choice.example_id]).content for choice in predictions
        }

    def link(self, examples: Sequence[TableExample]) -> list[LinkedExample]:
        """Return the questions with their nodes, linked once and read from the cache ever after."""
        return link_examples(examples, self.links)
