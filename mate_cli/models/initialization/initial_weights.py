"""Initial weights of a network: random, or from a checkpoint.

Supported checkpoints are those of BERT, RoBERTa, TAPAS, MiniLM and earlier runs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from mate_cli.errors import CheckpointError, ConfigError
from mate_cli.models.base.sizes import SIZES, EncoderSize
from mate_cli.models.base.table_encoder import TableEncoder
from mate_cli.models.checkpoints.heads import LoadedHeads, heads_inside, load_heads, shapes_match
from mate_cli.models.checkpoints.settings import RUN, Origin
from mate_cli.tokenization.layout import TOKEN_TYPES, TableBatch

if TYPE_CHECKING:
    from mate_cli.models.checkpoints.files import CheckpointFiles

EXTRA = "extra."
"""Prefix of the parameters of added layers and their projections."""
ADDED_LAYERS = f"{EXTRA}encoder.layer."
"""Prefix of the parameters of an added layer, followed by the index of the layer."""


@dataclass(frozen=True)
class LoadReport:
    """Report about initialization: names of loaded, new and unused weights, and their origins.

    Args:
        loaded: parameters loaded from a checkpoint, completely or in part.
        new: parameters that are not in the checkpoint.
        unused: tensors of the checkpoint that the network does not have.
        origins: origins of the loaded weights.
        notes: human-readable differences from the settings with which the weights were trained.
    """

    loaded: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    origins: tuple[Origin, ...] = ()
    notes: tuple[str, ...] = ()

    def summary(self) -> str:
        """Return the numbers of loaded, new and unused tensors as one line of text."""
        parts = [f"{len(self.loaded)} tensors loaded"]
        for word, names in (("new", self.new), ("unused", self.unused)):
            if names:
                parts.append(f"{len(names)} {word} ({', '.join(names[:3])}{', ...' * (len(names) > 3)})")
        return ", ".join(parts)


def combine_reports(reports: Iterable[LoadReport]) -> LoadReport:
    """Merge the load reports of all encoders of a network into one report.

    A weight that any report lists as loaded is not listed as new.
    """
    reports = list(reports)
    loaded_names = dict.fromkeys(name for report in reports for name in report.loaded)
    return LoadReport(
        tuple(loaded_names),
        tuple(dict.fromkeys(name for report in reports for name in report.new if name not in loaded_names)),
        tuple(dict.fromkeys(name for report in reports for name in report.unused)),
        tuple({origin.source: origin for report in reports for origin in report.origins}.values()),
    )


class Initializer(ABC):
    """Base class of the options of the config group `init`, which initialize the weights of a network.

    `load` runs before data is read, and `prepare` afterwards, with the training data.
    """

    tokenizer: str

    @abstractmethod
    def load(self, encoder: TableEncoder, task: nn.Module | None = None) -> LoadReport:
        """Load weights in place into a randomly initialized network and the heads of its task.

        Args:
            encoder: network to initialize.
            task: task whose heads are loaded if the checkpoint contains them. None: load no heads.

        Returns:
            The names of the loaded, new and unused weights.

        Raises:
            ConfigError: the options are invalid.
            CheckpointError: the weights are missing, damaged or of another size.
        """

    def prepare(
        self,
        encoder: TableEncoder,
        batches: Iterable[TableBatch],
        report: LoadReport,
        agree: Callable[[Callable[[], list[float]]], list[float]] = lambda measure: measure(),
    ) -> Mapping[str, str]:
        """Initialize the added layers of a network (`model.extra`) in place, depending on the training data.

        This runs once, before the first step. Resumed runs and predictions skip this step.

        Args:
            encoder: network after `load`.
            batches: batches of the whole training split, generated on iteration.
            report: report of `load`. Loaded weights of added layers are not changed.
            agree: function that runs a measurement on rank 0 and returns its result on all ranks. Default: run the
                measurement in this process.

        Returns:
            Human-readable notes for the record of the run, by topic.
        """
        added_layers, loaded_names = encoder.extra, set(report.loaded)
        layer_names = (name.removeprefix(ADDED_LAYERS) for name in loaded_names if name.startswith(ADDED_LAYERS))
        loaded_layers = {name.split(".")[0] for name in layer_names}
        if added_layers is None or len(loaded_layers) == len(added_layers.encoder.layers):
            return {}
        weights = {
            name: weight.clone() for name, weight in added_layers.state_dict().items() if EXTRA + name in loaded_names
        }
        notes = added_layers.prepare(encoder, batches, agree)
        added_layers.load_state_dict(weights, strict=False)
        return notes


PARALLEL = "module."
"""Prefix of parameter names saved by torch's DataParallel."""
WORDS = "embeddings.word_embeddings.weight"
POSITIONS = "embeddings.position_embeddings.weight"
BERT_TYPES = "embeddings.token_type_embeddings.weight"
ROBERTA, ROBERTA_PADDING = "roberta", 1
"""Model type of RoBERTa in config.json, and its padding id: positions up to this id are not used."""
TYPE_TABLES = tuple(f"embeddings.token_type_embeddings_{i}.weight" for i in range(len(TOKEN_TYPES)))


@dataclass(frozen=True)
class InitialWeights(Initializer):
    """Random weights, or the weights of BERT, RoBERTa, TAPAS, MiniLM or an earlier run.

    Args:
        kind: random, bert, roberta, tapas, minilm, or path (an earlier run, or any folder).
        checkpoint: folder, file, prefix of a TensorFlow checkpoint, or name on the Hugging Face Hub. None: `kind` needs
            no checkpoint.
        tokenizer: tokenizer of the checkpoint.
        new_token_types: initialization of token types that the checkpoint lacks: zero or normal.
        heads: heads of the task to load: auto (all heads that fit), true (all, or raise an error), false (none).
        inner: initial weights of encoders inside the network that the checkpoint lacks, by name, such as `pruner`.
            Inner encoders without an entry are initialized from the checkpoint of the network.
    """

    kind: Literal["random", "bert", "roberta", "tapas", "path", "minilm"] = "random"
    checkpoint: str | None = None
    tokenizer: str = "bert-base-uncased"
    new_token_types: Literal["zero", "normal"] = "normal"
    heads: bool | Literal["auto"] = "auto"
    inner: Mapping[str, InitialWeights] | None = None

    def load(self, encoder: TableEncoder, task: nn.Module | None = None) -> LoadReport:
        """Load weights in place into a network and the heads of its task.

        Args:
            encoder: network to initialize.
            task: task whose heads are loaded if the checkpoint contains them. None: load no heads.

        Returns:
            The names of the loaded, new and unused weights.

        Raises:
            ConfigError: the options are invalid.
            CheckpointError: the weights are missing, damaged or of another size.
            MissingDependencyError: the package of the minilm weights is not installed.
        """
        files, inner_inits = self._files(encoder), self.inner or {}
        tensors = {} if files is None else _unprefixed_tensors(files, encoder)
        reports = [self._fill(encoder, "", files, tensors, task)]
        for prefix in [prefix for prefix in encoder.encoders if prefix]:
            prefixed_tensors = {
                name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)
            }
            inner_weights = inner_inits.get(prefix.removesuffix("."))
            if prefixed_tensors:
                reports.append(self._fill(encoder, prefix, files, prefixed_tensors))
            elif inner_weights is None:
                reports.append(replace(self._fill(encoder, prefix, files, tensors), unused=()))
            else:
                inner_encoder = encoder.encoders[prefix]
                inner_files = inner_weights._files(inner_encoder)
                inner_tensors = {} if inner_files is None else _unprefixed_tensors(inner_files, inner_encoder)
                reports.append(inner_weights._fill(encoder, prefix, inner_files, inner_tensors, heads_inside(encoder)))
        return combine_reports(reports)

    def _files(self, encoder: TableEncoder) -> CheckpointFiles | None:
        """Return the files of the checkpoint that initializes an encoder, or None if its weights are random."""
        for name, weights in (self.inner or {}).items():
            if not isinstance(weights, InitialWeights):
                hint = f"Set _target_: {InitialWeights.__module__}.{InitialWeights.__name__}"
                raise ConfigError("has no _target_", where=f"init.inner.{name}", remedy=hint)
        files = _read_checkpoint(self)
        if files is not None and WORDS not in encoder.state_dict():
            problem = "this network reads no words, so these weights do not fit"
            raise ConfigError(problem, where="init", remedy="Use init=random")
        return files

    def _fill(
        self,
        network: TableEncoder,
        prefix: str,
        files: CheckpointFiles | None,
        tensors: dict[str, Tensor],
        task: nn.Module | None = None,
    ) -> LoadReport:
        """Load the weights of one encoder of a network, and the heads of a task if one is passed."""
        encoder = network.encoders[prefix]
        inner_prefixes = tuple(name for name in network.encoders if name) if not prefix else ()
        state = {name: value for name, value in encoder.state_dict().items() if not name.startswith(inner_prefixes)}
        if files is None:
            return LoadReport(new=tuple(prefix + name for name in state))
        weights = {name: tensor for name, tensor in tensors.items() if not name.startswith(inner_prefixes)}
        if encoder.size.first_layers:
            weights = _first_layers(weights, encoder.size.num_layers)
        _check_fit(encoder, weights, files, is_inner=bool(prefix))
        if files.config.get("model_type") == ROBERTA:
            weights = _from_roberta(weights, state, alike=self.new_token_types == "zero")
        for name in TYPE_TABLES if self.new_token_types == "zero" else ():
            if name in state and name not in weights:
                state[name].zero_()
        # BERT has only segments.
        if BERT_TYPES in weights and TYPE_TABLES[0] not in weights:
            weights[TYPE_TABLES[0]] = weights.pop(BERT_TYPES)
        heads = LoadedHeads() if task is None else load_heads(task, weights, self.heads)
        report = _copy(encoder, state, weights)
        loaded_names, new_names = (tuple(prefix + name for name in names) for names in (report.loaded, report.new))
        unused_names = tuple(name for name in report.unused if name not in heads.used)
        if files.config.get("model_type") in (RUN, "mate_cli"):
            _check_unused(unused_names, files.source)
        return LoadReport(
            loaded_names + heads.loaded, new_names + heads.new, unused_names, (Origin(files.source, files.config),)
        )


def _check_unused(unused_names: tuple[str, ...], source: str) -> None:
    """Raise `CheckpointError` if weights of an earlier run, except its heads, have no parameter in the network."""
    names = (name for name in unused_names if name.startswith(("embeddings.", "encoder.", EXTRA)))
    if required_names := [name for name in names if name not in TYPE_TABLES]:
        lexical = "Set model.lexical_features=true, or use" if "embeddings.lexical." in required_names[0] else "Use"
        problem = f"the network has no parameters for {len(required_names)} of its tensors, such as {required_names[0]}"
        raise CheckpointError(problem, where=source, remedy=f"{lexical} init=run:FOLDER, which sets the model too")


def _read_checkpoint(init: InitialWeights) -> CheckpointFiles | None:
    if init.kind == "random":
        return None
    from mate_cli.models.checkpoints.files import read_hub, read_minilm, read_path

    if init.kind == "minilm":
        return read_minilm()
    if not init.checkpoint:
        raise ConfigError(f"{init.kind} weights need a checkpoint", where="init.checkpoint", remedy="Set it")
    return read_path(Path(init.checkpoint)) if init.kind == "path" else read_hub(init.checkpoint)


def _unprefixed_tensors(files: CheckpointFiles, encoder: TableEncoder) -> dict[str, Tensor]:
    """Rename the tensors of a checkpoint to the parameter names of a network.

    The prefix of the encoder (`bert.`, `tapas.`, `encoder.`, ...) is removed. Names of inner encoders still start with
    the prefix of the inner encoder, such as `pruner.`.
    """
    tensors = {name.removeprefix(PARALLEL): tensor for name, tensor in files.tensors.items()}
    prefixes = sorted((name.removesuffix(WORDS) for name in tensors if name.endswith(WORDS)), key=len)
    if not prefixes or not all(prefix.startswith(prefixes[0]) for prefix in prefixes):
        problem, hint = f"it has {len(prefixes)} encoders", "Name the weights of one BERT-like encoder"
        raise CheckpointError(problem, where=files.source, remedy=hint)
    renamed = {"gamma": "weight", "beta": "bias"}
    unprefixed = {}
    for name, tensor in tensors.items():
        *parts, leaf = name.removeprefix(prefixes[0]).split(".")
        unprefixed[".".join([*parts, renamed.get(leaf, leaf)])] = tensor
    return dict(encoder.convert_released_names(unprefixed))


def _check_fit(model: TableEncoder, tensors: dict[str, Tensor], files: CheckpointFiles, *, is_inner: bool) -> None:
    """Raise `CheckpointError` if a checkpoint and a network have different architectures.

    For an encoder inside a network (`is_inner`), the number of heads is unknown and not compared.

    Raises:
        CheckpointError: the size, the vocabulary, the activation or the epsilon of norms differs.
    """
    heads = None if is_inner else files.config.get("num_attention_heads")
    shape = _size_of(tensors, heads, model.size)
    names = [name for name, size in SIZES.items() if replace(size, max_positions=shape.max_positions) == shape]
    size_hint = f"Set model.size={names[0]}" if names else f"The sizes are {', '.join(SIZES)}"
    word_counts = len(tensors[WORDS]), model.embeddings.word_embeddings.num_embeddings
    vocab_sizes = [f"{count} word pieces" for count in word_counts]
    activation = files.config.get("hidden_act", model.activation)
    epsilon = files.config.get("layer_norm_eps", model.layer_norm_epsilon)
    for setting, checkpoint_value, network_value, hint in (
        ("size", _describe(shape), _describe(model.size), size_hint),
        ("vocabulary", vocab_sizes[0], vocab_sizes[1], "Set init.tokenizer to that of the weights"),
        ("activation", activation, model.activation, f"Set model.activation={activation}"),
        ("epsilon of norms", epsilon, model.layer_norm_epsilon, f"Set model.layer_norm_epsilon={epsilon}"),
    ):
        if checkpoint_value != network_value:
            problem = f"its {setting} is {checkpoint_value}, the network's is {network_value}"
            raise CheckpointError(problem, where=files.source, remedy=hint)


def _size_of(tensors: dict[str, Tensor], heads: int | None, network_size: EncoderSize) -> EncoderSize:
    """Infer the size of a checkpoint's encoder from the shapes of its tensors.

    The number of positions is copied from `network_size`, because it may differ, and the number of heads if `heads` is
    None.
    """
    intermediate_bias = tensors.get("encoder.layer.0.intermediate.dense.bias", torch.empty(0))
    return EncoderSize(
        hidden_size=tensors[WORDS].shape[1],
        num_layers=len({name.split(".")[2] for name in tensors if name.startswith("encoder.layer.")}),
        num_heads=heads or network_size.num_heads,
        intermediate_size=len(intermediate_bias),
        max_positions=network_size.max_positions,
    )


def _first_layers(tensors: dict[str, Tensor], layers: int) -> dict[str, Tensor]:
    """Remove the tensors of all layers after the first `layers` layers."""
    names = [name.split(".") for name in tensors]
    late = {".".join(name) for name in names if name[:2] == ["encoder", "layer"] and int(name[2]) >= layers}
    return {name: tensor for name, tensor in tensors.items() if name not in late}


def _describe(size: EncoderSize) -> str:
    return f"{size.hidden_size} wide, {size.num_layers} layers, {size.num_heads} heads, {size.intermediate_size} inside"


def _from_roberta(tensors: dict[str, Tensor], state: Mapping[str, Tensor], *, alike: bool) -> dict[str, Tensor]:
    """Convert RoBERTa's segment and position embeddings to the format of BERT's embeddings.

    The only segment embedding is copied to all segments if `alike`, else it is removed and segment embeddings are new.
    Positions of RoBERTa start after the padding id, and positions of mate at 0, so the first rows are removed.
    """
    segment = tensors.pop(BERT_TYPES, None)
    if alike and segment is not None and TYPE_TABLES[0] in state:
        tensors[BERT_TYPES] = segment.expand(len(state[TYPE_TABLES[0]]), -1)
    return {name: tensor[ROBERTA_PADDING + 1 :] if name == POSITIONS else tensor for name, tensor in tensors.items()}


@torch.no_grad()
def _copy(model: TableEncoder, state: dict[str, Tensor], tensors: dict[str, Tensor]) -> LoadReport:
    """Copy tensors to the parameters of a network with the same names.

    If position or token type tables have different lengths, only the first rows, which both have, are copied.
    """
    loaded_names = [name for name in state if name in tensors]
    for name in loaded_names:
        tensor = tensors[name].reshape(state[name].shape) if shapes_match(state[name], tensors[name]) else tensors[name]
        rows = min(len(state[name]), len(tensor))
        if name not in (POSITIONS, *TYPE_TABLES) and state[name].shape != tensor.shape:
            problem = f"it is {tuple(tensor.shape)}, the network's {tuple(state[name].shape)}"
            hint = model.shape_remedies.get(name.partition(".")[0], "Name weights of this architecture")
            raise CheckpointError(problem, where=name, remedy=hint)
        state[name][:rows] = tensor[:rows]
    pairs = ((state, tensors), (tensors, state))
    new_names, unused_names = (tuple(name for name in a if name not in b) for a, b in pairs)
    return LoadReport(tuple(loaded_names), new_names, unused_names)
