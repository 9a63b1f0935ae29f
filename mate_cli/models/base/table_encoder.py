"""Base class of all networks: embeddings, layers and a pooler.

Subclasses differ in the attention of their layers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import torch
from hydra.utils import instantiate
from pydantic import Field
from torch import Tensor, nn

from mate_cli.attention.backends.eager import Eager
from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.attention.base import AttentionBackend, Planner, Plans, plan_layers
from mate_cli.attention.patterns import AttentionPattern
from mate_cli.errors import ConfigError
from mate_cli.models.base.sizes import EncoderSize, encoder_size
from mate_cli.models.layers.added import AddedLayers, ExtraOptions
from mate_cli.models.layers.embeddings import TableEmbeddings
from mate_cli.models.layers.encoder import (
    LAYER_NORM_EPSILON,
    Dropout,
    Encoder,
    EncoderLayer,
    FirstState,
    LayerOptions,
    LayerSpec,
    Pooler,
)
from mate_cli.models.layers.low_rank import Lora
from mate_cli.tables.example import TableExample
from mate_cli.tokenization.layout import TOKEN_TYPES, Array, TableBatch
from mate_cli.tokenization.packing import BatchPlan, Packing
from mate_cli.tokenization.serializers.serializer import SpanSerializer

INITIAL_DEVIATION = 0.02
"""Standard deviation of randomly initialized weights, as in BERT."""


class TableEncoder(nn.Module):
    """Base class of networks: a BERT encoder with table embeddings and configurable attention.

    Args:
        size: size of the encoder, or a name in `SIZES`.
        layers: specification of each layer, or a function from a size to the specification of all layers. Only a
            function allows `extra`.
        vocab_size: number of tokens in the vocabulary.
        activation: activation of the feed-forward layers, by its name in transformers.
        hidden_dropout: dropout probability after every dense layer and the embeddings.
        attention_dropout: dropout probability of attention weights.
        layer_norm_epsilon: epsilon added to variances, 1e-12 in BERT, 1e-5 in RoBERTa.
        gradient_checkpointing: recompute layers in the backward pass, to save memory.
        token_types: names of the token types that are embedded.
        lexical_features: embed the lexical features of encodings that have them (`encoding.lexical_features`).
        pooler: whether to add a pooler with weights. False: the pooled state is the hidden state of the first token.
        extra: layers added after the other layers, and the scheme of their initialization. None: no added layers.
        freeze: parameters to freeze, as names of modules or parameters, or patterns of names as in a shell: `*`, `?`,
            `[0-3]`. None: train all parameters.
        lora: low-rank adapters, trained instead of the loaded weights.

    Raises:
        ConfigError: the size or the activation is unknown, a backend cannot compute its pattern, or `extra` is set for
            a network that does not support it.
    """

    max_tokens: int | None = None
    """Number of tokens of the longest input. None if any length is supported."""

    arrays: ClassVar[Sequence[Array]] = ()
    """Arrays of a batch that the network reads in addition to the fields of `TableBatch`."""

    shape_remedies: ClassVar[Mapping[str, str]] = {}
    """Hints for the error on loading weights of another shape, by the first part of the parameter name."""

    def __init__(
        self,
        size: str | EncoderSize,
        layers: Sequence[LayerSpec] | Callable[[EncoderSize], LayerSpec],
        *,
        vocab_size: int = 30522,
        activation: str = "gelu",
        hidden_dropout: Dropout = 0.1,
        attention_dropout: Dropout = 0.1,
        layer_norm_epsilon: Annotated[float, Field(gt=0)] = LAYER_NORM_EPSILON,
        gradient_checkpointing: bool = False,
        token_types: Collection[str] = tuple(TOKEN_TYPES),
        lexical_features: bool = False,
        pooler: bool = True,
        extra: ExtraOptions | None = None,
        freeze: str | Sequence[str] | None = None,
        lora: Lora | None = None,
    ) -> None:
        super().__init__()
        self.freeze, self.lora = freeze, lora or Lora()
        self.size, self.activation, self.layer_norm_epsilon = encoder_size(size), activation, layer_norm_epsilon
        self.embeddings = TableEmbeddings(
            self.size,
            vocab_size,
            hidden_dropout,
            token_types=token_types,
            lexical_features=lexical_features,
            epsilon=layer_norm_epsilon,
        )
        options = LayerOptions(activation, hidden_dropout, attention_dropout, epsilon=layer_norm_epsilon)
        specs = [layers(self.size)] * self.size.num_layers if callable(layers) else layers
        encoder_layers = (spec.build(self.size, options) for spec in specs)
        self.encoder = Encoder(encoder_layers, gradient_checkpointing=gradient_checkpointing)
        self.pooler = Pooler(self.size) if pooler else FirstState()
        self.apply(initialise)
        self.extra: AddedLayers | None = None
        if extra is not None:
            if not callable(layers):
                problem = f"{type(self).__name__} cannot have added layers"
                raise ConfigError(problem, where="model.extra", remedy="Use model=deeper, tapas or mate")
            width, checkpointing = self.size.hidden_size, gradient_checkpointing
            self.extra = extra.build(width, layers, returned=width, gradient_checkpointing=checkpointing)

    @classmethod
    def convert_released_names(cls, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Rename the tensors of a released checkpoint to the parameter names of this network.

        Args:
            tensors: tensors by name, without the prefix of the encoder such as `bert.`.
        """
        return tensors

    def set_cache_folder(self, folder: Path) -> None:
        """Set the folder in which the network may cache results per input. The default does nothing."""

    @property
    def encoders(self) -> Mapping[str, TableEncoder]:
        """All encoders, keyed by parameter prefix: the network itself (prefix "") and inner encoders."""
        return {"": self}

    @property
    def auxiliary_encoder(self) -> TableEncoder | None:
        """The inner encoder that a second head on `EncoderOutput.early` trains, or None."""
        return None

    def tie_token_scorer(self, head: nn.Module) -> None:
        """Share the layer that scores tokens for pruning with the head of the auxiliary encoder.

        The default does nothing.

        Args:
            head: second head of the task. It is unchanged if it does not score tokens or columns as the pruning does.
        """

    @property
    def states_size(self) -> int:
        """The width of the hidden states that the network returns."""
        return self.size.hidden_size

    @property
    def layers(self) -> list[EncoderLayer]:
        """The layers of the network in order, followed by added layers (`model.extra`)."""
        return self.encoder.layers + (self.extra.encoder.layers if self.extra is not None else [])

    @property
    def specs(self) -> list[LayerSpec]:
        """The specification (attention pattern, backend and class) of each layer."""
        return [layer.spec for layer in self.layers]

    @property
    def planner(self) -> Planner:
        """Planner with which data workers compute attention plans for this network, without weights."""
        return Planner(tuple(dict.fromkeys(spec.prepared for spec in self.specs)))

    def layer_inputs(self, batch: TableBatch) -> Sequence[tuple[Sequence[EncoderLayer], TableBatch]]:
        """Return pairs of layers and a batch of the tokens that these layers process.

        They are used to count operations.

        A group may process fewer tokens than the network, for example after pruning.
        """
        return [(self.layers, batch)]

    def plans(self, batch: TableBatch) -> Plans:
        """Create the attention plans of a batch, one per attention pattern of the layers."""
        return plan_layers([layer.spec.pattern for layer in self.layers], batch)

    def packed(self, batch: TableBatch) -> TableBatch:
        """Return a copy of a batch with the positions of its tokens that are not padding.

        The packing is computed only once. In an exported graph padding is not removed.
        """
        is_making_graph = torch.compiler.is_compiling() or torch.jit.is_tracing()  # type: ignore[attr-defined,no-untyped-call]
        if is_making_graph and all(isinstance(layer.spec.backend, ALL_PAIRS) for layer in self.layers):
            # A traced graph cannot depend on the lengths of the examples.
            examples, tokens = batch.input_ids.shape
            packing = PaddedBatch((examples, tokens), (examples * tokens,), None, batch.attention_mask)
            return replace(batch, plan=BatchPlan(packing, {}))
        return batch if batch.plan is not None else replace(batch, plan=BatchPlan(batch.packing, {}))

    def check_exportable(self) -> None:
        """Check that the network can be exported: its operations must not depend on the data.

        Raises:
            ConfigError: an attention backend is not dense, or the network overrides `forward` or the layer class.
        """
        name, has_standard_forward = type(self).__name__, type(self).forward is TableEncoder.forward
        if not has_standard_forward or any(type(layer) is not EncoderLayer for layer in self.layers):
            problem = f"{name} cannot be exported: its computation depends on the data"
            raise ConfigError(problem, remedy="Use model=mate or model=tapas")
        unsupported = {type(spec.backend).__name__ for spec in self.specs if not isinstance(spec.backend, ALL_PAIRS)}
        if unsupported:
            problem = f"{name} with {', '.join(sorted(unsupported))} attention cannot be exported"
            raise ConfigError(problem, remedy="Load it with attn_implementation='sdpa' or 'eager'")

    @property
    def patterns(self) -> Mapping[str, AttentionPattern]:
        """Attention patterns of the network, keyed by layer numbers such as "layers 1 to 6"."""
        layers: dict[AttentionPattern, list[int]] = {}
        for number, spec in enumerate(self.specs, 1):
            layers.setdefault(spec.pattern, []).append(number)
        return {_format_layers(numbers, len(self.specs)): pattern for pattern, numbers in layers.items()}

    @property
    def backends(self) -> list[AttentionBackend]:
        """The distinct attention backends that the layers of the network use."""
        return list(dict.fromkeys(backend for _, backend in self.planner.layers if backend is not None))

    def describe_usage(self) -> Mapping[str, str]:
        """Return human-readable usage counts of each attention backend, for the record of a run."""
        return {name: fact for backend in self.backends for name, fact in backend.describe_usage().items()}

    def forward(self, batch: TableBatch) -> EncoderOutput:
        """Encode a batch: embeddings, layers and pooler. Hidden states of padding are zero."""
        packed_batch = self.packed(batch)
        plans = self.plans(packed_batch)
        packed_states = self.encoder(self.embeddings(packed_batch), plans)
        if self.extra is not None:
            packed_states = self.extra(packed_states, plans)
        states = packed_batch.packing.unpack(packed_states)
        return EncoderOutput(states, self.pooler(states), batch)

    def extra_inputs(self, batch: TableBatch) -> Iterable[Tensor]:
        """Return the added layers' inputs, whose norms determine the initial scale of these layers.

        Each tensor is [P, width], for the P tokens of the batch that are not padding.
        """
        assert self.extra is not None
        return [self.extra.scheme_inputs(self.encoder(self.embeddings(batch), self.plans(batch)))]


def build_network(node: Mapping[str, Any], **options: Any) -> TableEncoder:
    """Build the randomly initialized network of a configuration.

    Args:
        node: values of a `conf/model` option, including `_target_`.
        **options: further arguments of the network, such as `attention` and `vocab_size`.

    Raises:
        ConfigError: the network is not a `TableEncoder`, or its `encoder` is not an `Encoder`, so that training, export
            and plots of attention cannot access its layers.
    """
    build = instantiate(node, _partial_=True)
    network = build(**options)
    name = type(network).__name__
    if not isinstance(network, TableEncoder):
        hint = f"Derive the class from {TableEncoder.__module__}.{TableEncoder.__name__}"
        raise ConfigError(f"{name} is not a TableEncoder", where="model", remedy=hint)
    if not isinstance(network.encoder, Encoder):
        problem = f"{name}.encoder is {type(network.encoder).__name__}, not the layers that TableEncoder builds"
        raise ConfigError(problem, where="model", remedy="Give it another name, such as self.reader")
    return network


def _format_layers(layers: Sequence[int], count: int) -> str:
    """Format ascending layer numbers, from 1 to `count`, such as "layers 1 to 6"."""
    if len(layers) == count:
        return "all layers"
    first_layer, last_layer = layers[0], layers[-1]
    if len(layers) == 1:
        return f"layer {first_layer}"
    is_range = len(layers) == last_layer - first_layer + 1
    return f"layers {first_layer} to {last_layer}" if is_range else f"layers {', '.join(map(str, layers))}"


def initialise(module: nn.Module) -> None:
    """Initialize a linear or embedding layer: truncated normal weights, zero biases. Ignore other modules."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        bound = 2 * INITIAL_DEVIATION
        nn.init.trunc_normal_(module.weight, std=INITIAL_DEVIATION, a=-bound, b=bound)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


ALL_PAIRS = (Eager, Sdpa)
"""Backends that an exported graph can contain: dense attention over all pairs of tokens."""


@dataclass(frozen=True)
class PaddedBatch(Packing):
    """A packing of a batch that does not remove padding, for exported graphs with fixed shapes.

    Hidden states of padding are computed, and set to zero when they are unpacked.

    Args:
        real: 1 on tokens and 0 on padding, [B, T].
    """

    real: Tensor

    def pack(self, padded: Tensor) -> Tensor:
        """Flatten the batch without removing padding: [B, T, ...] to [B * T, ...]."""
        return padded.flatten(0, 1)

    def unpack(self, packed: Tensor) -> Tensor:
        """Restore the batch axis and set padding to zero: [B * T, ...] to [B, T, ...]."""
        states = packed.view(*self.shape, *packed.shape[1:])
        return states * self.real.view(*self.shape, *(1,) * (packed.ndim - 1)).to(states.dtype)


def is_exported() -> bool:
    """Return whether torch is exporting or tracing the current call.

    The exported or traced graph will run without this code.
    """
    # torch.compiler.is_exporting exists since torch 2.7.
    exporting_check = getattr(torch.compiler, "is_exporting", None)
    is_exporting = exporting_check is not None and exporting_check()
    return bool(is_exporting or torch.jit.is_tracing())  # type: ignore[attr-defined,no-untyped-call]


class EncoderOutput(NamedTuple):
    """The output of a network: hidden states, pooled states, and the batch of the encoded tokens.

    A network may return fewer tokens than its input has. Heads and losses must therefore read masks, ids, labels and
    names from `batch`, never from the input of the network.

    Args:
        states: hidden states of every token of `batch`, [B, T, D].
        pooled: pooled state of every example, [B, D].
        batch: batch of the tokens in `states`. It is the input unless the network removes tokens.
        early: output of an earlier stage, such as the encoder that selects the tokens to keep. It serves an auxiliary
            loss and visualization. None if the network has no such stage.
        scores: log probability that each token of the input is relevant, by which tokens were selected, [B, T], without
            gradient. None if no tokens are scored.
    """

    states: Tensor
    pooled: Tensor
    batch: TableBatch
    early: EncoderOutput | None = None
    scores: Tensor | None = None

    def with_states(self, states: Tensor) -> EncoderOutput:
        """Return a copy with other hidden states [B, T, D], such as after dropout."""
        return self._replace(states=states)

    def spread(self, length: int) -> Tensor:
        """Put the hidden states back at their input positions, [B, length, D].

        Pruned tokens get zeros.
        """
        return self.spread_out(self.states, length, 0.0)

    def spread_out(self, values: Tensor, length: int, fill: float) -> Tensor:
        """Scatter the values of unpruned tokens to the positions of these tokens in the input.

        Args:
            values: values of the tokens, [B, T, ...].
            length: number of tokens of the input.
            fill: value of tokens that the network removed.

        Returns:
            The values by input position, [B, length, ...].
        """
        positions = self.batch.places
        if positions is None:
            return values
        empty = values.new_full((len(values), length, *values.shape[2:]), fill)
        index = positions.reshape(*positions.shape, *(1,) * (values.ndim - 2)).expand_as(values)
        return empty.scatter(1, index, values)


class NoSerializer:
    """Placeholder for the serializer of a `TaskContext` that has no serializer."""

    def span_text(self, example: TableExample, start: int, end: int) -> str:
        """Raise `RuntimeError`, because the text of a span is unknown without a serializer."""
        raise RuntimeError("TaskContext needs a serializer to read words")


NO_SERIALIZER = NoSerializer()


@dataclass(frozen=True)
class TaskContext:
    """The objects from which a task is built: network, serializer and cache folder.

    Args:
        encoder: network below the head of the task.
        serializer: serializer that encodes examples and returns the text of a span of tokens.
        cache_dir: folder in which results computed from examples are cached. None: no cache.
    """

    encoder: TableEncoder
    serializer: SpanSerializer = NO_SERIALIZER
    cache_dir: Path | None = None
