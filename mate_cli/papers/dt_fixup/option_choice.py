"""Task of multiple-choice questions about a text (ReClor, LogiQA): select the correct option."""

from collections.abc import Mapping, Sequence

from torch import nn

from mate_cli.data.baselines import majority_label
from mate_cli.lit_modules.base import Selection, TaskSpec, Training
from mate_cli.lit_modules.candidate_choice import CandidateLogits, CandidateTask, Choice, first_tokens, logits_of
from mate_cli.metrics.specs import Metric
from mate_cli.metrics.subsets import average_by_part
from mate_cli.models.base.table_encoder import EncoderOutput, TaskContext
from mate_cli.models.layers.encoder import Dropout, FastDropout
from mate_cli.tables.example import TableExample


class OptionHead(nn.Module):
    """Scores the first token of each candidate by a linear layer, without a pooler.

    Source: Xu et al. 2021, "Optimizing Deeper Transformers on Small Datasets", appendix D.
    """

    def __init__(self, hidden_size: int, dropout: float) -> None:
        super().__init__()
        self.dropout = FastDropout(dropout)
        self.score = nn.Linear(hidden_size, 1)

    def forward(self, output: EncoderOutput, pooler: nn.Module) -> CandidateLogits:
        """Compute the logits of candidates from hidden states [B, T, D]. See `CandidateHead`.

        The pooler is not used.
        """
        example, token = first_tokens(output.batch)
        return logits_of(self.score(self.dropout(output.states[example, token])), output.batch)


class OptionChoice(CandidateTask[TableExample]):
    """Selects an answer option by scoring each option from the hidden state of its first token.

    Args:
        context: context of any network. `model=deeper` and `model=candidates` encode each option separately.
        dropout: dropout probability of that state.

    Source: Xu et al. 2021, "Optimizing Deeper Transformers on Small Datasets", appendix D.
    """

    spec = TaskSpec("dev/accuracy", label="options", encoding="options")

    def __init__(self, context: TaskContext, *, dropout: Dropout = 0.1, metrics: Sequence[Metric] = ()) -> None:
        super().__init__(context, metrics=metrics)
        self.add_heads(lambda encoder: OptionHead(encoder.size.hidden_size, dropout))

    def training_examples(self, examples: Sequence[TableExample]) -> list[TableExample]:
        """Select the multiple-choice questions whose correct option is known."""
        return [example for example in examples if example.options and example.answer]

    def evaluation_examples(self, examples: Sequence[TableExample]) -> list[TableExample]:
        """Select the examples to evaluate: questions that have answer options."""
        return [example for example in examples if example.options]

    def score(self, predictions: Sequence[Choice], examples: Mapping[str, TableExample]) -> dict[str, float]:
        """Compute the accuracy of the selected options, over all questions and per subset.

        A question without a prediction is scored as wrong.
        """
        is_correct = {choice.example_id: self.is_correct(choice, examples[choice.example_id]) for choice in predictions}
        return average_by_part(is_correct, examples, "accuracy")

    def answers(self, predictions: Sequence[Choice], examples: Mapping[str, TableExample]) -> dict[str, str]:
        """Return the text of each selected option, by example id."""
        return {choice.example_id: examples[choice.example_id].options[choice.place] for choice in predictions}

    def is_correct(self, prediction: Choice, example: TableExample) -> bool:
        """Return whether the predicted option is the correct option of the question."""
        return example.answer is not None and prediction.place == example.answer.label

    def selection(self, prediction: Choice) -> Selection | None:
        """Convert the predicted option to a `Selection` without cells, for display.

        The selection has the probability of the option.
        """
        return Selection((), (), prediction.probability)

    def baselines(self, examples: Mapping[str, TableExample], training: Training[TableExample]) -> dict[str, float]:
        """Return the accuracy of always selecting the option index most often correct in training."""
        label = majority_label(training())
        guesses = [Choice(name, label, 1.0) for name, example in examples.items() if label < len(example.options)]
        return {f"majority/{name}": value for name, value in self.score(guesses, examples).items()}
