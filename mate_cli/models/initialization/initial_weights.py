"""First weights of a network: random ones, or those of BERT, RoBERTa, TAPAS, MiniLM or an earlier run."""

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
from mate_cli.models.checkpoints.heads import LoadedHeads, fits, heads_inside, load_heads
from mate_cli.models.checkpoints.settings import RUN, Origin
from mate_cli.tokenization.layout import TOKEN_TYPES, TableBatch

if TYPE_CHECKING:
    from mate_cli.models.checkpoints.files import CheckpointFiles

EXTRA = "extra."
"""Prefix of all that is added."""
ADDED_LAYERS = f"{EXTRA}encoder.layer."
"""Prefix of the added layers; their number follows."""


@dataclass(frozen=True)
class LoadReport:
    """Names of the weights that were loaded, and of those that were not.

    Args:
        loaded: taken from the checkpoint, wholly or in part.
        new: not in the checkpoint.
        unused: in the checkpoint, without a place in the network.
        origins: where the weights came from.
        notes: settings that are otherwise than where the weights were trained, in words.
    """

    loaded: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    origins: tuple[Origin, ...] = ()
    notes: tuple[str, ...] = ()

    def summary(self) -> str:
        """Return one line for a log."""
        parts = [f"{len(self.loaded)} tensors loaded"]
        for word, names in (("new", self.new), ("unused", self.unused)):
            if names:
                parts.append(f"{len(names)} {word} ({', '.join(names[:3])}{', ...' * (len(names) > 3)})")
        return ", ".join(parts)


def combine_reports(reports: Iterable[LoadReport]) -> LoadReport:
    """Return one report of what several say of different weights; what is loaded in one is new in none."""
    reports = list(reports)
    loaded = dict.fromkeys(name for report in reports for name in report.loaded)
    return LoadReport(
        tuple(loaded),
        tuple(dict.fromkeys(name for report in reports for name in report.new if name not in loaded)),
        tuple(dict.fromkeys(name for report in reports for name in report.unused)),
        tuple({origin.source: origin for report in reports for origin in report.origins}.values()),
    )


class Initializer(ABC):
    """Gives a network its first weights: `load` before any data, `prepare` once the data is there."""

    tokenizer: str

    @abstractmethod
    def load(self, encoder: TableEncoder, task: nn.Module | None = None) -> LoadReport:
        """Fill a network with random weights in place, and with it the heads of its task that the weights have.

        Raises:
            ConfigError: the options are wrong.
            CheckpointError: the weights are missing, damaged or of another size.
        """

    def prepare(
        self,
        encoder: TableEncoder,
        batches: Iterable[TableBatch],
        report: LoadReport,
        agree: Callable[[Callable[[], list[float]]], list[float]] = lambda measure: measure(),
    ) -> Mapping[str, str]:
        """Change new weights in place by what the data is like: those of added layers, by their scheme.

        This runs once, when the data is there and before the first step: never in a run that is resumed, nor for a
        network that is only asked.

        Args:
            encoder: with the weights that `load` gave it.
            batches: of the whole training split, made when they are asked for.
            report: of `load`; what was loaded of added layers stays as it is.
            agree: measures in one process for all.

        Returns:
            What a record should say of it, in words.
        """
        extra, loaded = encoder.extra, set(report.loaded)
        begun = {name.removeprefix(ADDED_LAYERS).split(".")[0] for name in loaded if name.startswith(ADDED_LAYERS)}
        if extra is None or len(begun) == len(extra.encoder.layers):
            return {}
        weights = {name: weight.clone() for name, weight in extra.state_dict().items() if EXTRA + name in loaded}
        notes = extra.prepare(encoder, batches, agree)
        extra.load_state_dict(weights, strict=False)
        return notes


PARALLEL = "module."
"""Prefix of names where torch's DataParallel saved them."""
WORDS = "embeddings.word_embeddings.weight"
POSITIONS = "embeddings.position_embeddings.weight"
BERT_TYPES = "embeddings.token_type_embeddings.weight"
ROBERTA, ROBERTA_PADDING = "roberta", 1
"""Its name in configurations, and the id of padding, up to which no position is used."""
TYPE_TABLES = tuple(f"embeddings.token_type_embeddings_{i}.weight" for i in range(len(TOKEN_TYPES)))


@dataclass(frozen=True)
class InitialWeights(Initializer):
    """Random weights, or those of BERT, RoBERTa, TAPAS, MiniLM or an earlier run.

    Args:
        kind: random, bert, roberta, tapas, minilm, or path (an earlier run, or any folder).
        checkpoint: a folder, file, prefix of a TensorFlow checkpoint or name on the Hugging Face hub; None where the
            kind needs none.
        tokenizer: of the checkpoint.
        new_token_types: how token types that the checkpoint lacks begin: zero or normal.
        heads: which heads of the task are loaded: auto for those that fit, true for all or none at all, false for none.
        inner: of the encoders inside a network that the checkpoint lacks, by their names, such as `pruner`; those that
            are not named begin with the same weights as the network itself.
    """

    kind: Literal["random", "bert", "roberta", "tapas", "path", "minilm"] = "random"
    checkpoint: str | None = None
    tokenizer: str = "bert-base-uncased"
    new_token_types: Literal["zero", "normal"] = "normal"
    heads: bool | Literal["auto"] = "auto"
    inner: Mapping[str, InitialWeights] | None = None

    def load(self, encoder: TableEncoder, task: nn.Module | None = None) -> LoadReport:
        """Fill a network in place, and with it the heads of its task that the weights have.

        Raises:
            ConfigError: the options are wrong.
            CheckpointError: the weights are missing, damaged or of another size.
            MissingDependencyError: minilm is not installed.
        """
        files, inner = self._files(encoder), self.inner or {}
        tensors = {} if files is None else _plain_names(files, encoder)
        reports = [self._fill(encoder, "", files, tensors, task)]
        for prefix in [prefix for prefix in encoder.encoders if prefix]:
            held = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
            inner_weights = inner.get(prefix.removesuffix("."))
            if held:
                reports.append(self._fill(encoder, prefix, files, held))
            elif inner_weights is None:
                reports.append(replace(self._fill(encoder, prefix, files, tensors), unused=()))
            else:
                inner_files = inner_weights._files(encoder.encoders[prefix])
                plain = {} if inner_files is None else _plain_names(inner_files, encoder.encoders[prefix])
                reports.append(inner_weights._fill(encoder, prefix, inner_files, plain, heads_inside(encoder)))
        return combine_reports(reports)

    def _files(self, encoder: TableEncoder) -> CheckpointFiles | None:
        """Return what is read for an encoder; None for random weights."""
        for name, weights in (self.inner or {}).items():
            if not isinstance(weights, InitialWeights):
                remedy = f"Set _target_: {InitialWeights.__module__}.{InitialWeights.__name__}"
                raise ConfigError("has no _target_", where=f"init.inner.{name}", remedy=remedy)
        files = _read(self)
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
        """Fill one of the encoders of a network, and the heads of a task that the weights have."""
        encoder = network.encoders[prefix]
        inner = tuple(name for name in network.encoders if name) if not prefix else ()
        state = {name: value for name, value in encoder.state_dict().items() if not name.startswith(inner)}
        if files is None:
            return LoadReport(new=tuple(prefix + name for name in state))
        weights = {name: tensor for name, tensor in tensors.items() if not name.startswith(inner)}
        if encoder.size.first_layers:
            weights = _first_layers(weights, encoder.size.num_layers)
        _check_fit(encoder, weights, files, inside=bool(prefix))
        if files.config.get("model_type") == ROBERTA:
            weights = _from_roberta(weights, state, alike=self.new_token_types == "zero")
        for name in TYPE_TABLES if self.new_token_types == "zero" else ():
            if name in state and name not in weights:
                state[name].zero_()
        weights = _spread_bert_types(weights)
        heads = LoadedHeads() if task is None else load_heads(task, weights, self.heads)
        report = _copy(encoder, state, weights)
        loaded, new = (tuple(prefix + name for name in names) for names in (report.loaded, report.new))
        unused = tuple(name for name in report.unused if name not in heads.used)
        if files.config.get("model_type") in (RUN, "mate_cli"):
            _check_unused(unused, files.source)
        return LoadReport(loaded + heads.loaded, new + heads.new, unused, (Origin(files.source, files.config),))


def _check_unused(unused: tuple[str, ...], source: str) -> None:
    """Raise `CheckpointError` if the network lacks a part that the weights of a run were trained with."""
    needed = [
        name for name in unused if name.startswith(("embeddings.", "encoder.", EXTRA)) and name not in TYPE_TABLES
    ]
    if needed:
        lexical = "Set model.lexical_features=true, or use" if "embeddings.lexical." in needed[0] else "Use"
        problem = f"the network has no place for {len(needed)} of its tensors, such as {needed[0]}"
        raise CheckpointError(problem, where=source, remedy=f"{lexical} init=run:FOLDER, which sets what they need")


def _read(init: InitialWeights) -> CheckpointFiles | None:
    if init.kind == "random":
        return None
    from mate_cli.models.checkpoints.files import read_hub, read_minilm, read_path

    if init.kind == "minilm":
        return read_minilm()
    if not init.checkpoint:
        raise ConfigError(f"{init.kind} weights need a checkpoint", where="init.checkpoint", remedy="Set it")
    return read_path(Path(init.checkpoint)) if init.kind == "path" else read_hub(init.checkpoint)


def _plain_names(files: CheckpointFiles, encoder: TableEncoder) -> dict[str, Tensor]:
    """Drop the prefix that everything of the encoder has (`bert.`, `tapas.`, `encoder.` ...) and names of others.

    Encoders inside it keep what their names have beyond that prefix.
    """
    tensors = {name.removeprefix(PARALLEL): tensor for name, tensor in files.tensors.items()}
    prefixes = sorted((name.removesuffix(WORDS) for name in tensors if name.endswith(WORDS)), key=len)
    if not prefixes or not all(prefix.startswith(prefixes[0]) for prefix in prefixes):
        raise CheckpointError(
            f"it has {len(prefixes)} encoders",
            where=files.source,
            remedy="Name the weights of one BERT-like encoder",
        )
    renamed = {"gamma": "weight", "beta": "bias"}
    plain = {}
    for name, tensor in tensors.items():
        *parts, leaf = name.removeprefix(prefixes[0]).split(".")
        plain[".".join([*parts, renamed.get(leaf, leaf)])] = tensor
    return dict(encoder.standard_names(plain))


def _check_fit(model: TableEncoder, tensors: dict[str, Tensor], files: CheckpointFiles, *, inside: bool) -> None:
    """Compare what cannot be mended by copying; of an encoder inside a network the files may not tell the heads.

    Raises:
        CheckpointError: the size, the vocabulary or the activation is another.
    """
    heads = None if inside else files.config.get("num_attention_heads")
    shape = _size_of(tensors, heads, model.size)
    names = [name for name, size in SIZES.items() if replace(size, max_positions=shape.max_positions) == shape]
    choice = f"Set model.size={names[0]}" if names else f"The sizes are {', '.join(SIZES)}"
    words, own_words = len(tensors[WORDS]), model.embeddings.word_embeddings.num_embeddings
    activation = files.config.get("hidden_act", model.activation)
    epsilon = files.config.get("layer_norm_eps", model.layer_norm_epsilon)
    for what, theirs, ours, remedy in (
        ("size", _describe(shape), _describe(model.size), choice),
        ("vocabulary", f"{words} word pieces", f"{own_words} word pieces", "Set init.tokenizer to that of the weights"),
        ("activation", activation, model.activation, f"Set model.activation={activation}"),
        ("epsilon of norms", epsilon, model.layer_norm_epsilon, f"Set model.layer_norm_epsilon={epsilon}"),
    ):
        if theirs != ours:
            raise CheckpointError(f"its {what} is {theirs}, the network's is {ours}", where=files.source, remedy=remedy)


def _size_of(tensors: dict[str, Tensor], heads: int | None, wanted: EncoderSize) -> EncoderSize:
    """Return the size that the tensors have; heads are in the config only, positions need not agree."""
    inner = tensors.get("encoder.layer.0.intermediate.dense.bias", torch.empty(0))
    return EncoderSize(
        hidden_size=tensors[WORDS].shape[1],
        num_layers=len({name.split(".")[2] for name in tensors if name.startswith("encoder.layer.")}),
        num_heads=heads or wanted.num_heads,
        intermediate_size=len(inner),
        max_positions=wanted.max_positions,
    )


def _first_layers(tensors: dict[str, Tensor], layers: int) -> dict[str, Tensor]:
    """Drop what belongs to later layers."""
    names = [name.split(".") for name in tensors]
    late = {".".join(name) for name in names if name[:2] == ["encoder", "layer"] and int(name[2]) >= layers}
    return {name: tensor for name, tensor in tensors.items() if name not in late}


def _describe(size: EncoderSize) -> str:
    return f"{size.hidden_size} wide, {size.num_layers} layers, {size.num_heads} heads, {size.intermediate_size} inside"


def _from_roberta(tensors: dict[str, Tensor], state: Mapping[str, Tensor], *, alike: bool) -> dict[str, Tensor]:
    """Give all segments the one that RoBERTa has learnt (`alike`), or else make all new.

    RoBERTa counts positions from that of padding: the rows before are dropped, as ours are counted from 0.
    """
    only = tensors.pop(BERT_TYPES, None)
    if alike and only is not None and TYPE_TABLES[0] in state:
        tensors[BERT_TYPES] = only.expand(len(state[TYPE_TABLES[0]]), -1)
    return {name: tensor[ROBERTA_PADDING + 1 :] if name == POSITIONS else tensor for name, tensor in tensors.items()}


def _spread_bert_types(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Let BERT's one table of two segments become the beginning of the segment table."""
    if BERT_TYPES not in tensors or TYPE_TABLES[0] in tensors:
        return tensors
    return {TYPE_TABLES[0] if name == BERT_TYPES else name: tensor for name, tensor in tensors.items()}


@torch.no_grad()
def _copy(model: TableEncoder, state: dict[str, Tensor], tensors: dict[str, Tensor]) -> LoadReport:
    """Copy what has a place; tables of positions and types may be longer or shorter, then their common rows."""
    loaded = [name for name in state if name in tensors]
    for name in loaded:
        tensor = tensors[name].reshape(state[name].shape) if fits(state[name], tensors[name]) else tensors[name]
        rows = min(len(state[name]), len(tensor))
        if name not in (POSITIONS, *TYPE_TABLES) and state[name].shape != tensor.shape:
            raise CheckpointError(
                f"it is {tuple(tensor.shape)}, the network's {tuple(state[name].shape)}",
                where=name,
                remedy=model.shape_remedies.get(name.partition(".")[0], "Name weights of this architecture"),
            )
        state[name][:rows] = tensor[:rows]
    new, unused = (tuple(name for name in a if name not in b) for a, b in ((state, tensors), (tensors, state)))
    return LoadReport(tuple(loaded), new, unused)
