"""Classification of statements as entailed or refuted by a table: TabFact."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from mate_cli.data.baselines import majority_label
from mate_cli.errors import ConfigError
from mate_cli.lit_modules.base import Selection, TableAnswerSpec, TableTask, TaskSpec, Training
from mate_cli.metrics.specs import Metric
from mate_cli.metrics.subsets import average_by_part
from mate_cli.models.base.table_encoder import EncoderOutput, TableEncoder, TaskContext
from mate_cli.models.heads.scores import ClassHead, pool_features
from mate_cli.tables.example import INFERENCES, VERDICTS, TableExample
from mate_cli.tokenization.layout import TableBatch


@dataclass(frozen=True)
class Verdict:
    """The predicted class of a statement about a table, such as entailed or refuted.

    Args:
        example_id: id of the example.
        label: 1 if the table entails the statement, 0 if it refutes the statement.
        probability: probability of this label.
    """

    example_id: str
    label: int
    probability: float


class Entailment(TableTask[TableExample, Verdict]):
    """Classification of statements about a table, by a linear layer on the pooled hidden state.

    The loss is the cross entropy. The head has no dropout in addition to the network (`model.hidden_dropout`).

    Args:
        labels: names of the classes, in the order of their ids.

    Source: google-research/tapas, `models/tapas_classifier_model.py`; Eisenschlos et al. 2020, section 3.
    """

    spec = TaskSpec(
        "dev/accuracy",
        table_answers=TableAnswerSpec("the north sold most", verdict=True),
        transformers_class="TapasForSequenceClassification",
        auto_class="SequenceClassification",
        uses_pooler=True,
    )
    labels: tuple[str, ...] = VERDICTS
    """Names of the classes, in the order of their ids."""

    def __init__(
        self, context: TaskContext, *, labels: Sequence[str] = VERDICTS, metrics: Sequence[Metric] = ()
    ) -> None:
        super().__init__(context, metrics=metrics)
        if len(labels) < 2:
            raise ConfigError(f"{len(labels)} label given", where="num_labels", remedy="Use 2 or more")
        self.labels = tuple(labels)
        self.add_heads(self._build_head)

    def _build_head(self, encoder: TableEncoder) -> ClassHead:
        """Build a head, with a copy of the lexical feature embedding if the encoder has one."""
        lexical = getattr(encoder.embeddings, "lexical", None)
        return ClassHead(encoder.size.hidden_size, len(self.labels), deepcopy(lexical))

    def training_examples(self, examples: Sequence[TableExample]) -> list[TableExample]:
        """Return the statements whose label is known.

        Raises:
            ConfigError: the data have more classes than the task.
        """
        labels = [_label(example) for example in examples]
        if (count := 1 + max(filter(None, labels), default=0)) > len(self.labels):
            hint = f"Write +task.labels=[{','.join(INFERENCES[:count])}]"
            raise ConfigError(f"{len(self.labels)} classes, but the data have {count}", where="task", remedy=hint)
        return [example for example, label in zip(examples, labels, strict=True) if label is not None]

    def output_loss(self, output: EncoderOutput, head: ClassHead, encoder: TableEncoder) -> Tensor:
        """Compute the class loss, averaged over the statements with a known class, a scalar.

        Args:
            output: output of the encoder.
            head: head of the task, or the second head for the auxiliary encoder of the network.
            encoder: encoder that computed `output`.
        """
        classes = output.batch.class_ids
        assert classes is not None
        total = cross_entropy(class_logits(output, head), classes, ignore_index=-1, reduction="sum")
        return self.average_terms(total, output.batch, "classes")

    def count_terms(self, batch: TableBatch) -> dict[str, Tensor | int]:
        """Count the examples of a batch, and its examples with a known class."""
        assert batch.class_ids is not None
        return {**super().count_terms(batch), "classes": (batch.class_ids != -1).sum()}

    def predictions(self, output: EncoderOutput, batch: TableBatch) -> list[Verdict]:
        """Return the most probable class of each example with its probability."""
        shares, labels = class_logits(output, self.head).softmax(-1).max(-1)
        verdicts = zip(output.batch.example_ids, labels.tolist(), shares.tolist(), strict=True)
        return [Verdict(*verdict) for verdict in verdicts]

    def auto_scores(self, output: EncoderOutput, length: int) -> dict[str, Tensor]:
        """Compute the logits of the classes, [B, C]."""
        return {"logits": class_logits(output, self.head)}

    @property
    def auto_config(self) -> dict[str, Any]:
        """The options `id2label` and `label2id` of config.json, with the names of the classes."""
        return {"id2label": dict(enumerate(self.labels)), "label2id": {name: i for i, name in enumerate(self.labels)}}

    def score(self, predictions: Sequence[Verdict], examples: Mapping[str, TableExample]) -> dict[str, float]:
        """Compute the accuracy of all labeled statements, and of each subset of the dataset.

        A missing prediction is wrong.
        """
        is_correct = {p.example_id: self.is_correct(p, examples[p.example_id]) for p in predictions}
        return average_by_part(is_correct, examples, "accuracy")

    def answers(self, predictions: Sequence[Verdict], examples: Mapping[str, TableExample]) -> dict[str, str]:
        """Return the name of the predicted label, by example id."""
        return {prediction.example_id: self.labels[prediction.label] for prediction in predictions}

    def is_correct(self, prediction: Verdict, example: TableExample) -> bool:
        """Return whether the predicted label is correct."""
        return prediction.label == _label(example)

    def selection(self, prediction: Verdict) -> Selection | None:
        """Return a selection without cells, with the probability of the label as confidence."""
        return Selection((), (), prediction.probability)

    def baselines(self, examples: Mapping[str, TableExample], training: Training[TableExample]) -> dict[str, float]:
        """Compute the accuracy of always predicting the most frequent training label.

        The result is empty if the training split is streamed.
        """
        training_examples = training()
        if not training_examples:
            return {}
        label = majority_label(training_examples)
        scores = self.score([Verdict(name, label, 1.0) for name in examples], examples)
        return {f"majority/{name}": value for name, value in scores.items()}


def class_logits(output: EncoderOutput, head: nn.Module) -> Tensor:
    """Compute the logits of C classes from pooled states and lexical features, float32 [B, C]."""
    logits: Tensor = head(pool_features(output, head))
    return logits.float()


def _label(example: TableExample) -> int | None:
    return example.answer.label if example.answer else None
