"""The base of all networks: embeddings, layers and a pooler; they differ in what their layers see."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar, NamedTuple, Protocol

import torch
from pydantic import Field
from torch import Tensor, nn

from mate_cli.attention.backends.eager import Eager
from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.attention.base import Attention, AttentionBackend, Packing, Planner, Plans
from mate_cli.attention.patterns import AttentionPattern
from mate_cli.errors import ConfigError
from mate_cli.models.base.sizes import EncoderSize, encoder_size
from mate_cli.models.layers.added import AddedLayers, ExtraOptions
from mate_cli.models.layers.embeddings import LAYER_NORM_EPSILON, TableEmbeddings
from mate_cli.models.layers.encoder import Dropout, Encoder, EncoderLayer, FirstState, LayerOptions, LayerSpec, Pooler
from mate_cli.models.layers.low_rank import Lora
from mate_cli.tables.example import TableExample
from mate_cli.tokenization.layout import TOKEN_TYPES, Array, TableBatch
from mate_cli.tokenization.serializers.serializer import SpanSerializer

INITIAL_DEVIATION = 0.02
"""Standard deviation of all weights before training, as in BERT."""


class Reader(Protocol):
    """Layers that read one batch."""

    @property
    def layers(self) -> Sequence[EncoderLayer]:
        """The layers, in their order."""

    def plans(self, batch: TableBatch) -> Plans:
        """Return what they see of the batch."""


class TableEncoder(nn.Module):
    """A network over tables, with random weights until some are loaded.

    Args:
        size: a name in `SIZES`, or a size.
        layers: what each layer sees, made for the number of heads, and how it is computed; where all are alike, what
            makes it for a size, and layers can be added.
        vocab_size: word pieces.
        activation: of the feed-forward layers, by its name in transformers.
        hidden_dropout: after every dense layer and the embeddings.
        attention_dropout: on attention weights.
        layer_norm_epsilon: added to variances; 1e-12 in BERT, 1e-5 in RoBERTa.
        gradient_checkpointing: recompute layers in the backward pass, to save memory.
        token_types: those that are embedded.
        lexical_features: read those of encodings that have them (`encoding.lexical_features`).
        pooler: have one; where nothing would learn from it, the first token's state is the pooled one.
        extra: layers that are added behind the others, and the scheme they begin by; None for none.
        freeze: parameters that learn nothing, by names of modules and parameters, or patterns of names as in a shell:
            `*`, `?`, `[0-3]`; None for none.
        lora: low-rank adapters, trained instead of the loaded weights.

    Raises:
        ConfigError: there is no such size or activation, a backend cannot compute its pattern, or layers are added to a
            network that cannot have any.
    """

    max_tokens: int | None = None
    """Tokens of the longest input; None where any length will do."""

    arrays: ClassVar[Sequence[Array]] = ()
    """Arrays that it reads of a batch beside the fields of `TableBatch`."""

    shape_remedies: ClassVar[Mapping[str, str]] = {}
    """Remedies where weights of another shape are loaded, by the first part of their name."""

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
        built = (spec.build(self.size, options) for spec in specs)
        self.encoder = Encoder(built, gradient_checkpointing=gradient_checkpointing)
        self.pooler = Pooler(self.size) if pooler else FirstState()
        self.apply(initialise)
        self.extra: AddedLayers | None = None
        if extra is not None:
            if not callable(layers):
                problem = f"{type(self).__name__} cannot have added layers"
                raise ConfigError(problem, where="model.extra", remedy="Use model=deeper, tapas or mate")
            width, again = self.size.hidden_size, gradient_checkpointing
            self.extra = extra.build(width, layers, returned=width, gradient_checkpointing=again)

    @classmethod
    def standard_names(cls, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return tensors that others released, without the prefix of their encoder, with the names of this network."""
        return tensors

    def use_cache(self, folder: Path) -> None:
        """Keep in a folder what the network works out once for every input; most work out nothing."""

    @property
    def encoders(self) -> Mapping[str, TableEncoder]:
        """The encoders that it is made of, itself first, by what the names of their weights begin with."""
        return {"": self}

    @property
    def auxiliary_encoder(self) -> TableEncoder | None:
        """The encoder inside it whose states (`EncoderOutput.early`) are to learn the task by a head of their own."""
        return None

    def share_token_scorer(self, head: nn.Module) -> None:
        """Let a head of the early learner score by what chooses tokens, as far as both score the same."""

    @property
    def states_size(self) -> int:
        """The width of the states that it returns."""
        return self.size.hidden_size

    @property
    def layers(self) -> list[EncoderLayer]:
        """All layers in their order, added ones last."""
        return self.encoder.layers + (self.extra.encoder.layers if self.extra is not None else [])

    @property
    def specs(self) -> list[LayerSpec]:
        """The specification of each layer."""
        return [layer.spec for layer in self.layers]

    @property
    def planner(self) -> Planner:
        """The planner that prepares batches for this network where they are made; it takes no weights there."""
        return Planner(tuple(dict.fromkeys(spec.prepared for spec in self.specs)))

    def layer_inputs(self, batch: TableBatch) -> Sequence[tuple[Reader, TableBatch]]:
        """Give which of its layers read what of a batch, as far as work goes: each with as many tokens as it reads."""
        return [(self, batch)]

    def plans(self, batch: TableBatch) -> Plans:
        """Return what the layers see of a batch."""
        patterns = [spec.pattern for spec in self.specs]
        if is_traced(spec.backend for spec in self.specs):
            batch = keep_padding(batch, patterns)
        return Plans(patterns, batch)

    def check_exportable(self) -> None:
        """Refuse to be exported where work depends on the data.

        Raises:
            ConfigError: some of its attention is not over all pairs, or it reads in a way of its own.
        """
        name, known = type(self).__name__, type(self).forward is TableEncoder.forward
        if not known or any(type(layer) is not EncoderLayer for layer in self.layers):
            raise ConfigError(
                f"{name} cannot be exported: its computation depends on the data",
                remedy="Use model=mate or model=tapas",
            )
        others = {type(spec.backend).__name__ for spec in self.specs if not isinstance(spec.backend, ALL_PAIRS)}
        if others:
            problem = f"{name} with {', '.join(sorted(others))} attention cannot be exported"
            raise ConfigError(problem, remedy="Load it with attn_implementation='sdpa' or 'eager'")

    @property
    def patterns(self) -> Mapping[str, AttentionPattern]:
        """The pattern of each layer."""
        layers: dict[AttentionPattern, list[int]] = {}
        for place, spec in enumerate(self.specs, 1):
            layers.setdefault(spec.pattern, []).append(place)
        return {_format_layers(places, len(self.specs)): pattern for pattern, places in layers.items()}

    @property
    def backends(self) -> list[AttentionBackend]:
        """The backends of its layers, each once."""
        return list(dict.fromkeys(backend for _, backend in self.planner.layers if backend is not None))

    def facts(self) -> Mapping[str, str]:
        """Return what a record should say of the work of its backends so far, in words."""
        return {name: fact for backend in self.backends for name, fact in backend.facts().items()}

    def forward(self, batch: TableBatch) -> EncoderOutput:
        """Encode a batch; no work is spent on padding, whose states are zero."""
        plans = self.plans(batch)
        packed = self.encoder(self.embeddings(batch, plans.packing), plans)
        if self.extra is not None:
            packed = self.extra(packed, plans)
        states = plans.packing.unpack(packed)
        return EncoderOutput(states, self.pooler(states), batch)

    def extra_inputs(self, batch: TableBatch) -> Iterable[Tensor]:
        """Return what added layers are given of a batch, as far as their scheme measures it.

        Real tokens only, [P, width].
        """
        assert self.extra is not None
        plans = self.plans(batch)
        return [self.extra.scheme_inputs(self.encoder(self.embeddings(batch, plans.packing), plans))]


def check_network(network: nn.Module) -> None:
    """Refuse a network that training, exports and pictures of attention could not ask for its layers.

    Raises:
        ConfigError: it is no `TableEncoder`, or has something else in the place of its layers.
    """
    name = type(network).__name__
    if not isinstance(network, TableEncoder):
        remedy = f"Derive the class from {TableEncoder.__module__}.{TableEncoder.__name__}"
        raise ConfigError(f"{name} is not a TableEncoder", where="model", remedy=remedy)
    if not isinstance(network.encoder, Encoder):
        problem = f"{name}.encoder is {type(network.encoder).__name__}, not the layers that TableEncoder builds"
        raise ConfigError(problem, where="model", remedy="Give it another name, such as self.reader")


def _format_layers(layers: Sequence[int], count: int) -> str:
    """Return layers by their ascending numbers, from 1 to `count`, as people say them."""
    if len(layers) == count:
        return "all layers"
    first, last = layers[0], layers[-1]
    if len(layers) == 1:
        return f"layer {first}"
    run = len(layers) == last - first + 1
    return f"layers {first} to {last}" if run else f"layers {', '.join(map(str, layers))}"


def initialise(module: nn.Module) -> None:
    """Draw the weights of a dense or embedding layer from a truncated normal; biases are zero."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        bound = 2 * INITIAL_DEVIATION
        nn.init.trunc_normal_(module.weight, std=INITIAL_DEVIATION, a=-bound, b=bound)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


ALL_PAIRS = (Eager, Sdpa)
"""Attention that a graph can hold: over all pairs of tokens."""


@dataclass(frozen=True)
class PaddedBatch(Packing):
    """The packing that leaves nothing out: padding is computed, and zero wherever states are unpacked.

    Args:
        real: 1 on real tokens, [B, T].
    """

    real: Tensor

    def pack(self, padded: Tensor) -> Tensor:
        """Map [B, T, ...] to [B * T, ...]."""
        return padded.flatten(0, 1)

    def unpack(self, packed: Tensor) -> Tensor:
        """Map [B * T, ...] to [B, T, ...]."""
        states = packed.view(*self.shape, *packed.shape[1:])
        return states * self.real.view(*self.shape, *(1,) * (packed.ndim - 1)).to(states.dtype)


def is_traced(backends: Iterable[Attention]) -> bool:
    """Tell whether a graph is being made of a network whose attention can be in it: over all pairs."""
    making = torch.compiler.is_compiling() or torch.jit.is_tracing()  # type: ignore[attr-defined,no-untyped-call]
    return making and all(isinstance(backend, ALL_PAIRS) for backend in backends)


def is_exported() -> bool:
    """Tell whether a graph is being made that is to stand alone."""
    exporting = getattr(torch.compiler, "is_exporting", None)  # since torch 2.7
    alone = exporting is not None and exporting()
    return bool(alone or torch.jit.is_tracing())  # type: ignore[attr-defined,no-untyped-call]


def keep_padding(batch: TableBatch, patterns: Iterable[AttentionPattern]) -> TableBatch:
    """Return the batch, planned for these patterns without leaving out its padding."""
    examples, tokens = batch.input_ids.shape
    packing = PaddedBatch((examples, tokens), (examples * tokens,), None, batch.attention_mask)
    return replace(batch, prepared={(pattern, "packing"): packing for pattern in patterns})


class EncoderOutput(NamedTuple):
    """States, and the batch that they are of.

    A network may return fewer tokens than it was given, or others: heads and losses read masks, ids, labels and names
    from `batch`, never from what the network was given.

    Args:
        states: of every token of `batch`, [B, T, D].
        pooled: of every example, [B, D].
        batch: whose tokens the states are of; what was given where the network changes nothing.
        early: states of an earlier stage, with the batch that these are of, such as those by which a network chooses
            the tokens that it keeps: for a loss on the way, and for people to look at. None where there is no such
            stage.
        scores: by which tokens were chosen: the logarithm of the probability that each token of what was given matters,
            [B, T], without gradient. None where none are scored.
    """

    states: Tensor
    pooled: Tensor
    batch: TableBatch
    early: EncoderOutput | None = None
    scores: Tensor | None = None

    def with_states(self, states: Tensor) -> EncoderOutput:
        """Return the same with other states [B, T, D], such as after dropout."""
        return self._replace(states=states)

    def spread(self, length: int) -> Tensor:
        """Return the states where their tokens stand in the encodings, [B, length, D]; zero where no token was kept."""
        return self.spread_out(self.states, length, 0.0)

    def spread_out(self, values: Tensor, length: int, fill: float) -> Tensor:
        """Return what belongs to its tokens [B, T, ...] where these stand in the encodings, [B, length, ...].

        Else `fill`.
        """
        places = self.batch.places
        if places is None:
            return values
        empty = values.new_full((len(values), length, *values.shape[2:]), fill)
        return empty.scatter(1, places.reshape(*places.shape, *(1,) * (values.ndim - 2)).expand_as(values), values)


class NoSerializer:
    """Stands where nothing reads words."""

    def span_text(self, example: TableExample, start: int, end: int) -> str:
        """Refuse: there is nothing to read with."""
        raise RuntimeError("TaskContext needs a serializer to read words")


NO_SERIALIZER = NoSerializer()


@dataclass(frozen=True)
class TaskContext:
    """The surroundings of a task.

    Args:
        encoder: the network below its head.
        serializer: encodes its examples, and says what text their tokens are of.
        cache_dir: a folder for what is worked out of examples; None: it is worked out each time.
    """

    encoder: TableEncoder
    serializer: SpanSerializer = NO_SERIALIZER
    cache_dir: Path | None = None
