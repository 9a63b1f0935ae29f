"""mate's networks with heads, as models of transformers.

Importing this module registers them, so that the `Auto` classes and pipelines of transformers can load them.
"""

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from hydra.utils import get_class, instantiate
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTableQuestionAnswering,
)
from transformers.modeling_outputs import (
    MaskedLMOutput,
    ModelOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_TABLE_QUESTION_ANSWERING_MAPPING_NAMES
from transformers.models.tapas.modeling_tapas import TableQuestionAnsweringOutput

from mate_cli.errors import ConfigError
from mate_cli.models.auto_encoder import MateConfig, MateModel
from mate_cli.models.base.table_encoder import EncoderOutput, TaskContext, is_exported
from mate_cli.models.base.task_model import TaskModel
from mate_cli.tokenization.layout import TableBatch

CLASS_PREFIX = "MateFor"
HEAD_ALIASES = ("classifier", "qa_outputs")
"""Names under which PEFT and transformers expect the heads of classifiers and of span readers."""
LAYER_OF_HEAD = re.compile(r"(early_)?head\..*(score|classifier)$")
UNUSED_NUM_LABELS = 2
"""Number of classes that transformers assumes in a configuration without any."""
UNSMOOTHED = "training without labels has no loss. Label smoothing of Trainer does not fit scores of tokens: use 0"


def auto_name(name: str) -> str:
    """Return the transformers `Auto` class of a class of this module: AutoModelForX for MateForX."""
    return "AutoModel" + name.removeprefix("Mate").removeprefix("Model")


class MateForTask(TaskModel, MateModel):
    """Base class of transformers models: a network of mate with the head of a task.

    Attributes:
        default_task: class of the task whose head is added if the checkpoint has no head of this type.
        has_classes: whether `num_labels` and `id2label` of the configuration determine the head.
        labels_name: field of `TableBatch` that contains the labels.
    """

    default_task: ClassVar[str]
    has_classes: ClassVar[bool] = False
    labels_name: ClassVar[str] = "label_ids"

    accepts_loss_kwargs = False
    """Whether `forward` accepts the number of items by which transformers' Trainer normalizes the loss."""

    def add_heads(self) -> None:
        """Add the heads of the configured task or of `default_task`, named as in checkpoints of runs.

        Raises:
            ConfigError: `num_labels` is set, but the head has no classes.
        """
        kind: Any = get_class(self.config.task["_target_"]) if self.config.task else None
        self.has_foreign_head = kind is None or CLASS_PREFIX + str(kind.spec.auto_class) != type(self).__name__
        if self.has_foreign_head:
            self.config.task = {"_target_": self.default_task}
            self.config.num_labels = self.config.num_labels if self.has_classes else UNUSED_NUM_LABELS
        elif not self.has_classes and self.config.num_labels != UNUSED_NUM_LABELS:
            problem = f"{type(self).__name__} has no classes"
            raise ConfigError(problem, where="num_labels", remedy="Use AutoModelForSequenceClassification")
        self.share_modules(self.build_task())

    def build_task(self) -> Any:  # noqa: ANN401 - see `task`
        """Build the task of the configuration, with its heads on the encoder of this model."""
        return instantiate(self.config.task, _partial_=True)(TaskContext(self.encoder))

    def named_modules(
        self, memo: set[nn.Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Module]]:
        """Iterate over named modules. Without deduplication, the head also has the names `HEAD_ALIASES`.

        PEFT uses these aliases to train and save heads. It finds modules by the end of their name, so the inner layer
        `head.score` is omitted. Otherwise PEFT would wrap this layer in addition to the head.

        Args:
            memo: modules that were already yielded.
            prefix: prefix of the names.
            remove_duplicate: whether each module appears once.
        """
        modules = super().named_modules(memo, prefix, remove_duplicate)
        if remove_duplicate or is_exported():
            yield from modules
            return
        start = f"{prefix}." if prefix else ""
        yield from (item for item in modules if not LAYER_OF_HEAD.match(item[0].removeprefix(start)))
        yield from ((f"{start}{name}", self.head) for name in HEAD_ALIASES)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as in torch
        """Return an attribute of the model. The names in `HEAD_ALIASES` are aliases of the head."""
        return super().__getattr__("head" if name in HEAD_ALIASES else name)

    def __setattr__(self, name: str, value: Any) -> None:  # noqa: ANN401 - as in torch
        """Set an attribute of the model. The names in `HEAD_ALIASES` are aliases of the head."""
        super().__setattr__("head" if name in HEAD_ALIASES else name, value)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        labels: Tensor | None = None,
        cell_features: Tensor | None = None,
        **inputs: Any,
    ) -> ModelOutput:
        """Compute the logits of a batch, and the loss if labels are passed.

        Args:
            input_ids: see `MateModel.forward`.
            attention_mask: see `MateModel.forward`.
            token_type_ids: see `MateModel.forward`.
            position_ids: see `MateModel.forward`.
            labels: class of each statement, [B], or original ids of masked tokens, [B, T]. -100: ignored by the loss.
            cell_features: see `MateModel.forward`.
            **inputs: further inputs of `MateModel.forward`.

        Returns:
            `logits`, `loss` if labels are passed, and the requested `hidden_states` and `attentions`.
        """
        tensors = (input_ids, attention_mask, token_type_ids, position_ids, cell_features)
        return super().forward(*tensors, labels=labels, **inputs)

    def batch_of(self, *inputs: Tensor | None, labels: Tensor | None = None, **arrays: Tensor | None) -> TableBatch:
        """Convert the inputs of `forward`, including labels, to a `TableBatch`.

        Args:
            *inputs: see `MateModel.batch_of`.
            labels: see `forward`.
            **arrays: see `MateModel.forward`.
        """
        batch = super().batch_of(*inputs, **arrays)
        fields: dict[str, Any] = {} if labels is None else {self.labels_name: self.known_labels(labels.long())}
        return replace(batch, **fields)

    def scores(self, output: EncoderOutput, length: int) -> dict[str, Tensor]:
        """Compute logits, and the loss if the batch has labels, under transformers' output names.

        Args:
            output: output of the encoder.
            length: number of tokens T. Logits of tokens have shape [B, T].

        Raises:
            ConfigError: the model is exported by torch, and the computation of the head depends on the data.
        """
        has_labels = getattr(output.batch, self.labels_name) is not None
        try:
            loss = {"loss": self.task.compute_loss(output)} if has_labels else {}
            return loss | self.task.auto_scores(output, length)
        except Exception as error:
            if not is_exported():
                raise
            problem = f"the head of {type(self.task).__name__} cannot be exported: its computation depends on the data"
            raise ConfigError(problem, remedy="Export AutoModel, without the head") from error

    def known_labels(self, labels: Tensor) -> Tensor:
        """Convert labels of transformers to labels of the task: -100 (ignored) becomes 0."""
        return labels.clamp(min=0)


def _check_table(token_type_ids: Tensor | None) -> Tensor:
    """Return `token_type_ids` (rows and columns of tokens), or raise `ValueError` if it is None.

    Raises:
        ValueError: the token types are missing.
    """
    if token_type_ids is None:
        raise ValueError(
            "token_type_ids is missing: without it there is no table. PEFT drops it for QUESTION_ANS. "
            "Leave task_type out, or use TOKEN_CLS for cells"
        )
    return token_type_ids


def _classes(labels: Tensor) -> Tensor:
    """Convert class labels of transformers, [B] or [B, 1], to classes [B]: -100 (unknown) becomes -1."""
    return labels.long().flatten().clamp(min=-1)


class MateForTableQuestionAnswering(MateForTask):
    """Encoder with heads for cell selection and aggregation, as in `TapasForQuestionAnswering`.

    The logits of the tokens of predicted answer cells are above 0.
    """

    default_task = "mate_cli.lit_modules.table_qa.TableQA"

    output_class = TableQuestionAnsweringOutput

    def forward(  # type: ignore[override]
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        labels: Tensor | None = None,
        float_answer: Tensor | None = None,
        numeric_values: Tensor | None = None,
        numeric_values_scale: Tensor | None = None,
        cell_features: Tensor | None = None,
        **inputs: Any,
    ) -> ModelOutput:
        """Compute the logits of a batch, and the loss if labels are passed.

        Args:
            input_ids: token ids, [B, T].
            attention_mask: 1 on real tokens, [B, T].
            token_type_ids: token types, [B, T, 7].
            position_ids: positions, [B, T].
            labels: 1 on tokens of the answer, [B, T].
            float_answer: numeric answer, [B]. NaN if the answer is no number.
            numeric_values: number in the cell of each token, [B, T]. NaN if the cell contains no number.
            numeric_values_scale: output of transformers' TAPAS tokenizer. It is not used, because this class counts the
                tokens of each cell itself.
            cell_features: features of each token's cell, [B, T, F].
            **inputs: inputs of `MateForTask.forward`, and `aggregation_labels`, the correct aggregation, [B], -1 if
                unknown. They are not in the signature, because transformers' Trainer expects all labels in a signature,
                and most datasets have no aggregation labels.

        Returns:
            `logits`, `logits_aggregation` if the task has aggregations, `loss` if labels are passed, and the requested
            `hidden_states` and `attentions`.

        Raises:
            ValueError: `float_answer` is passed without `numeric_values`, or `token_type_ids` is missing.
        """
        _check_table(token_type_ids)
        if labels is None and self.training and torch.is_grad_enabled():
            warnings.warn(UNSMOOTHED, stacklevel=2)
        inputs |= {"float_answer": float_answer, "numeric_values": numeric_values}
        return super().forward(input_ids, attention_mask, token_type_ids, position_ids, labels, cell_features, **inputs)

    def batch_of(
        self,
        *inputs: Tensor | None,
        float_answer: Tensor | None = None,
        numeric_values: Tensor | None = None,
        aggregation_labels: Tensor | None = None,
        **arrays: Tensor | None,
    ) -> TableBatch:
        """Convert the inputs of `forward`, including answers and aggregation labels, to a `TableBatch`.

        Args:
            *inputs: see `MateModel.batch_of`.
            float_answer: see `forward`.
            numeric_values: see `forward`.
            aggregation_labels: see `forward`.
            **arrays: see `MateModel.forward`.

        Raises:
            ValueError: `float_answer` is passed without `numeric_values`.
        """
        batch = super().batch_of(*inputs, **arrays)
        if float_answer is not None and numeric_values is None:
            raise ValueError("float_answer needs numeric_values of the tokens")
        unknown = torch.full_like(batch.input_ids, -1)
        values = unknown * torch.nan if numeric_values is None else numeric_values
        return replace(
            batch,
            aggregation_ids=_classes(unknown[:, 0] if aggregation_labels is None else aggregation_labels),
            answer_numbers=unknown[:, 0] * torch.nan if float_answer is None else float_answer.flatten(),
            numeric_values=values,
        )


class MateForSequenceClassification(MateForTask):
    """Encoder with a classifier of statements, as in `TapasForSequenceClassification`."""

    default_task = "mate_cli.lit_modules.entailment.Entailment"
    output_class, labels_name = SequenceClassifierOutput, "class_ids"
    has_classes = True

    def build_task(self) -> Any:  # noqa: ANN401 - see `task`
        """Build the task with the classes that `id2label` of the configuration specifies.

        Raises:
            ConfigError: `problem_type` is a regression or a multi-label classification.
        """
        if self.config.problem_type not in (None, "single_label_classification"):
            problem = f"{self.config.problem_type} is not supported"
            raise ConfigError(problem, where="problem_type", remedy="Use single_label_classification")
        task, labels = super().build_task(), self.config.id2label
        if task.auto_config["id2label"] != labels:
            self.config.task = self.config.task | {"labels": [labels[index] for index in range(len(labels))]}
            task = super().build_task()
        return task

    def known_labels(self, labels: Tensor) -> Tensor:
        """Convert class labels of transformers, [B] or [B, 1], to classes [B]: -100 (unknown) becomes -1."""
        return _classes(labels)


class MateForMaskedLM(MateForTask):
    """Encoder with a masked language modeling head, which computes vocabulary logits of every token."""

    default_task = "mate_cli.lit_modules.masked_lm.MaskedLM"
    output_class = MaskedLMOutput


@dataclass
class SpanScores(QuestionAnsweringModelOutput):
    """The output of a span reader: transformers' start and end logits, and logits of spans.

    Args:
        span_logits: logit [B, T, L] at (t, l) of the span of l + 1 tokens that starts at token t, among the tokens that
            the network does not prune.
    """

    span_logits: Tensor | None = None


class MateForQuestionAnswering(MateForTask):
    """Encoder with a span reader, which computes logits of first tokens, last tokens and spans of answers."""

    default_task = "mate_cli.lit_modules.span_reading.SpanReading"
    output_class = SpanScores

    def forward(  # type: ignore[override]
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        cell_features: Tensor | None = None,
        **inputs: Any,
    ) -> ModelOutput:
        """Compute the logits of a batch, and the loss if answers are passed.

        Args:
            input_ids: token ids, [B, T].
            attention_mask: 1 on real tokens, [B, T].
            token_type_ids: token types, [B, T, 7].
            position_ids: positions, [B, T].
            start_positions: index of the first token of the answer, [B] or [B, 1].
            end_positions: index of the last token of the answer, [B] or [B, 1].
            cell_features: features of each token's cell, [B, T, F].
            **inputs: inputs of `MateForTask.forward`. `labels`, 1 on the tokens of each answer, [B, T], replace both
                positions. They are not in the signature, because transformers' Trainer expects all labels in a
                signature, and labels and positions exclude each other.

        Returns:
            `start_logits`, `end_logits`, `span_logits`, `loss` if answers are passed, and the requested `hidden_states`
            and `attentions`.

        Raises:
            ValueError: `token_type_ids` is missing.
        """
        types, labels = _check_table(token_type_ids), inputs.pop("labels", None)
        if labels is None and start_positions is not None and end_positions is not None:
            indices = torch.arange(types.shape[1], device=types.device)
            labels = (indices >= start_positions.view(-1, 1)) & (indices <= end_positions.view(-1, 1))
        return super().forward(input_ids, attention_mask, types, position_ids, labels, cell_features, **inputs)


AutoConfig.register(MateConfig.model_type, MateConfig, exist_ok=True)
AutoModel.register(MateConfig, MateModel, exist_ok=True)
AutoModelForTableQuestionAnswering.register(MateConfig, MateForTableQuestionAnswering, exist_ok=True)
AutoModelForSequenceClassification.register(MateConfig, MateForSequenceClassification, exist_ok=True)
AutoModelForMaskedLM.register(MateConfig, MateForMaskedLM, exist_ok=True)
AutoModelForQuestionAnswering.register(MateConfig, MateForQuestionAnswering, exist_ok=True)
# The pipeline of transformers checks this mapping instead of the registered models before it rejects a model.
MODEL_FOR_TABLE_QUESTION_ANSWERING_MAPPING_NAMES[MateConfig.model_type] = MateForTableQuestionAnswering.__name__
