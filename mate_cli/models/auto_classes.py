"""Our networks for users of transformers: importing this module lets its `Auto` classes and pipelines load them."""

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
from transformers.utils import can_return_tuple

from mate_cli.errors import ConfigError
from mate_cli.models.auto_encoder import MateConfig, MateModel
from mate_cli.models.base.table_encoder import EncoderOutput, TaskContext, is_exported
from mate_cli.models.base.task_model import TaskModel
from mate_cli.tokenization.layout import TableBatch

CLASS_PREFIX = "MateFor"
HEAD_ALIASES = ("classifier", "qa_outputs")
"""Names that PEFT and transformers give to heads of classes and of spans."""
LAYER_OF_HEAD = re.compile(r"(early_)?head\..*(score|classifier)$")
UNUSED_NUM_LABELS = 2
"""Number of classes that transformers assumes in a configuration without any."""
UNSMOOTHED = "training without labels has no loss. Label smoothing of Trainer does not fit scores of tokens: use 0"


def auto_name(name: str) -> str:
    """Return the class of transformers that loads a class of ours, such as `AutoModelForMaskedLM`."""
    return "AutoModel" + name.removeprefix("Mate").removeprefix("Model")


class MateForTask(TaskModel, MateModel):
    """A network of ours with the head of its task.

    Attributes:
        output_class: what `forward` returns.
        default_task: the class of the task of a new head, for an encoder without a head of this type.
        has_classes: `num_labels` and `id2label` of the configuration determine the head.
        labels_name: the field of a batch that holds the labels.
    """

    output_class: ClassVar[type[ModelOutput]]
    default_task: ClassVar[str]
    has_classes: ClassVar[bool] = False
    labels_name: ClassVar[str] = "label_ids"

    accepts_loss_kwargs = False
    """Tell whether transformers' Trainer may say what losses are divided by."""

    def add_heads(self) -> None:
        """Add the modules of the task by their names there, so that weights have the names of a run's.

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
        """Build the task that the configuration names, for the encoder."""
        return instantiate(self.config.task, _partial_=True)(TaskContext(self.encoder))

    def named_modules(
        self, memo: set[nn.Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Module]]:
        """Iterate over modules; with duplicates, also over the names by which PEFT finds heads to train and save.

        PEFT finds modules by the end of their name. It would wrap a layer `head.score` in addition to the head.
        """
        modules = super().named_modules(memo, prefix, remove_duplicate)
        if remove_duplicate or is_exported():
            yield from modules
            return
        start = f"{prefix}." if prefix else ""
        yield from (item for item in modules if not LAYER_OF_HEAD.match(item[0].removeprefix(start)))
        yield from ((f"{start}{name}", self.head) for name in HEAD_ALIASES)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as in torch
        """Return an attribute, or the head by another name."""
        return super().__getattr__("head" if name in HEAD_ALIASES else name)

    def __setattr__(self, name: str, value: Any) -> None:  # noqa: ANN401 - as in torch
        """Set an attribute, or the head by another name."""
        super().__setattr__("head" if name in HEAD_ALIASES else name, value)

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        labels: Tensor | None = None,
        cell_features: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        **arrays: Tensor | None,
    ) -> ModelOutput:
        """Score a batch; the inputs are those of `MateModel`, and what can be learnt from.

        Labels are the class of each statement [B]; of masked pieces what they were [B, T]. Both are -100 where nothing
        is to be learnt.

        Returns:
            `loss` where there are labels, `logits`, and what was requested.
        """
        batch = self.batch_of(
            input_ids, attention_mask, token_type_ids, position_ids, cell_features, inputs_embeds, **arrays
        )
        if labels is not None:
            known: dict[str, Any] = {self.labels_name: self.known_labels(labels.long())}
            batch = replace(batch, **known)
        output, states, attentions = self.encode(batch, output_hidden_states, output_attentions)
        return self.output_class(
            loss=None if labels is None else self.task.loss_of(output),
            **self.scores(output, batch.input_ids.shape[1]),
            hidden_states=states,
            attentions=attentions,
        )

    def scores(self, output: EncoderOutput, length: int) -> dict[str, Tensor]:
        """Return the scores of the head by the names that transformers has for them, those of tokens [B, length].

        Raises:
            ConfigError: it is to be exported, and its computation depends on the data.
        """
        try:
            scores: dict[str, Tensor] = self.task.auto_scores(output, length)
            return scores
        except Exception as error:
            if not is_exported():
                raise
            problem = f"the head of {type(self.task).__name__} cannot be exported: its computation depends on the data"
            raise ConfigError(problem, remedy="Export AutoModel, without the head") from error

    def known_labels(self, labels: Tensor) -> Tensor:
        """Return labels of tokens as the task reads them: 0 where nothing is known."""
        return labels.clamp(min=0)


def _check_table(token_type_ids: Tensor | None) -> Tensor:
    """Return the token types, by which the network reads the table.

    Raises:
        ValueError: there are none.
    """
    if token_type_ids is None:
        raise ValueError(
            "token_type_ids is missing: without it there is no table. PEFT drops it for QUESTION_ANS. "
            "Leave task_type out, or use TOKEN_CLS for cells"
        )
    return token_type_ids


def _classes(labels: Tensor) -> Tensor:
    """Return one class for each example [B], also of [B, 1].

    -1 where it is not known, as where transformers has -100.
    """
    return labels.long().flatten().clamp(min=-1)


class MateForTableQuestionAnswering(MateForTask):
    """Scores of tokens, above zero on those of the answer, and of aggregations."""

    default_task = "mate_cli.lit_modules.table_qa.TableQA"

    output_class = TableQuestionAnsweringOutput

    def forward(
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
        """Score a batch; the inputs are those of `MateForTask`, and what can be learned from.

        Args:
            input_ids: [B, T].
            attention_mask: [B, T].
            token_type_ids: [B, T, 7].
            position_ids: [B, T].
            labels: 1 on tokens of the answer, [B, T].
            float_answer: the number that answers [B], NaN where there is none.
            numeric_values: of the cell of each token [B, T], NaN where there is none.
            numeric_values_scale: of TAPAS's tokenizer; not used, as the tokens of a cell are counted here.
            cell_features: [B, T, F].
            **inputs: those of `MateForTask`, and `aggregation_labels`, the right aggregation [B], -1 where not known.
                Transformers' Trainer waits for all labels that a signature names, and most tables have none of these.

        Returns:
            `loss` where there are labels, `logits`, with aggregations `logits_aggregation`, and what was requested.

        Raises:
            ValueError: a number answers, and those of the cells are not given; or no cells are.
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
        """Build the batch, with the answers that are numbers and the aggregations; see `forward`."""
        batch = super().batch_of(*inputs, **arrays)
        if float_answer is not None and numeric_values is None:
            raise ValueError("float_answer needs numeric_values of the tokens")
        unknown = torch.full(batch.input_ids.shape, torch.nan, device=batch.input_ids.device)
        known = torch.full_like(batch.input_ids[:, 0], -1)
        if aggregation_labels is not None:
            known = _classes(aggregation_labels)
        number = unknown[:, 0] if float_answer is None else float_answer.flatten()
        values = unknown if numeric_values is None else numeric_values
        return replace(batch, aggregation_ids=known, answer_numbers=number, numeric_values=values)


class MateForSequenceClassification(MateForTask):
    """Scores of the classes of a statement."""

    default_task = "mate_cli.lit_modules.entailment.Entailment"
    output_class, labels_name = SequenceClassifierOutput, "class_ids"
    has_classes = True

    def build_task(self) -> Any:  # noqa: ANN401 - see `task`
        """Build the task with the classes of the configuration.

        Raises:
            ConfigError: the configuration is of a regression or of examples with several labels.
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
        """Return the class of each statement [B], also of [B, 1]; -1 where it is not known."""
        return _classes(labels)


class MateForMaskedLM(MateForTask):
    """Scores of all pieces for each token."""

    default_task = "mate_cli.lit_modules.masked_lm.MaskedLM"
    output_class = MaskedLMOutput


@dataclass
class SpanScores(QuestionAnsweringModelOutput):
    """The output of a reader for a batch.

    Args:
        span_logits: of the span from token t of l + 1 tokens, [B, T, L], for the tokens that the network keeps.
    """

    span_logits: Tensor | None = None


class MateForQuestionAnswering(MateForTask):
    """Scores of the first and the last token of an answer, and of every span within one cell."""

    default_task = "mate_cli.lit_modules.span_reading.SpanReading"
    output_class = SpanScores

    def forward(
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
        """Score a batch; the inputs are those of `MateForTask`.

        Args:
            input_ids: [B, T].
            attention_mask: [B, T].
            token_type_ids: [B, T, 7].
            position_ids: [B, T].
            start_positions: the first token of the answer, [B] or [B, 1].
            end_positions: its last token, [B] or [B, 1].
            cell_features: [B, T, F].
            **inputs: those of `MateForTask`. `labels`, 1 on the tokens of each answer [B, T], replace both positions:
                transformers' Trainer waits for all labels that a signature names, and these two exclude each other.

        Returns:
            `loss` where the answer is told, `start_logits`, `end_logits`, `span_logits`, and what was requested.

        Raises:
            ValueError: no cells are given.
        """
        types, labels = _check_table(token_type_ids), inputs.pop("labels", None)
        if labels is None and start_positions is not None and end_positions is not None:
            places = torch.arange(types.shape[1], device=types.device)
            labels = (places >= start_positions.view(-1, 1)) & (places <= end_positions.view(-1, 1))
        return super().forward(input_ids, attention_mask, types, position_ids, labels, cell_features, **inputs)


AutoConfig.register(MateConfig.model_type, MateConfig, exist_ok=True)
AutoModel.register(MateConfig, MateModel, exist_ok=True)
AutoModelForTableQuestionAnswering.register(MateConfig, MateForTableQuestionAnswering, exist_ok=True)
AutoModelForSequenceClassification.register(MateConfig, MateForSequenceClassification, exist_ok=True)
AutoModelForMaskedLM.register(MateConfig, MateForMaskedLM, exist_ok=True)
AutoModelForQuestionAnswering.register(MateConfig, MateForQuestionAnswering, exist_ok=True)
# The pipeline of transformers looks here, and not where models are registered, before it says that one is not known.
MODEL_FOR_TABLE_QUESTION_ANSWERING_MAPPING_NAMES[MateConfig.model_type] = MateForTableQuestionAnswering.__name__
