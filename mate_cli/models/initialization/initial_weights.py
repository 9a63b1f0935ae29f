"""Begin with random weights, or with those of BERT, TAPAS, MiniLM or an earlier run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from mate_cli.errors import CheckpointError, ConfigError
from mate_cli.models.checkpoints.files import CheckpointFiles, read_hub, read_minilm, read_path
from mate_cli.models.checkpoints.heads import LoadedHeads, load_heads
from mate_cli.models.initialization.base import Initializer, LoadReport
from mate_cli.models.sizes import SIZES, EncoderSize
from mate_cli.tokenization.layout import TOKEN_TYPES

if TYPE_CHECKING:
    from mate_cli.models.table_encoder import TableEncoder

WORDS = "embeddings.word_embeddings.weight"
POSITIONS = "embeddings.position_embeddings.weight"
BERT_TYPES = "embeddings.token_type_embeddings.weight"
TYPE_TABLES = tuple(f"embeddings.token_type_embeddings_{i}.weight" for i in range(len(TOKEN_TYPES)))


@dataclass(frozen=True)
class InitialWeights(Initializer):
    """Random weights, or those of BERT, TAPAS, MiniLM or an earlier run.

    Args:
        kind: random, bert, tapas, minilm, or path (an earlier run, or any folder).
        checkpoint: a folder, file, prefix of a TensorFlow checkpoint or name on the Hugging Face hub; None where the
            kind needs none.
        tokenizer: of the checkpoint.
        new_token_types: how token types that the checkpoint lacks begin: zero or normal.
        heads: which heads of the task are loaded: auto for those that fit, true for all or none at all, false for none.
    """

    kind: Literal["random", "bert", "tapas", "path", "minilm"] = "random"
    checkpoint: str | None = None
    tokenizer: str = "bert-base-uncased"
    new_token_types: Literal["zero", "normal"] = "normal"
    heads: bool | Literal["auto"] = "auto"

    def load(self, encoder: TableEncoder, task: nn.Module | None = None) -> LoadReport:
        """Fill a network in place, and with it the heads of its task that the weights have.

        Raises:
            ConfigError: the options are wrong.
            CheckpointError: the weights are missing, damaged or of another size.
            MissingDependencyError: minilm is not installed.
        """
        _check_options(self)
        files = _read(self)
        if files is None:
            return LoadReport(new=tuple(encoder.state_dict()))
        if WORDS not in encoder.state_dict():
            problem = "this network reads no words, so no such weights fit"
            raise ConfigError(problem, where="init", remedy="Use init=random")
        tensors = _plain_names(files)
        if encoder.size.first_layers:
            tensors = _first_layers(tensors, encoder.size.num_layers)
        _check_fit(encoder, tensors, files)
        if self.new_token_types == "zero":
            _zero_missing_types(encoder, tensors)
        tensors = _spread_bert_types(tensors)
        heads = LoadedHeads() if task is None else load_heads(task, tensors, self.heads)
        report = _copy(encoder, tensors)
        unused = tuple(name for name in report.unused if name not in heads.used)
        return LoadReport(report.loaded + heads.loaded, report.new + heads.new, unused)


def _check_options(init: InitialWeights) -> None:
    for key, choices in (("new_token_types", ("zero", "normal")), ("heads", ("auto", True, False))):
        if getattr(init, key) not in choices:
            remedy = f"Choose {' or '.join(str(choice).lower() for choice in choices)}"
            raise ConfigError(f"{getattr(init, key)!r} is no choice", where=f"init.{key}", remedy=remedy)


def _read(init: InitialWeights) -> CheckpointFiles | None:
    if init.kind == "random":
        return None
    if init.kind == "minilm":
        return read_minilm()
    if init.kind not in ("bert", "tapas", "path"):
        raise ConfigError(
            f"{init.kind!r} is no kind of weights",
            where="init.kind",
            remedy="Choose random, bert, tapas, minilm or path",
        )
    if not init.checkpoint:
        raise ConfigError(f"{init.kind} weights need a checkpoint", where="init.checkpoint", remedy="Set it")
    return read_path(Path(init.checkpoint)) if init.kind == "path" else read_hub(init.checkpoint)


def _plain_names(files: CheckpointFiles) -> dict[str, Tensor]:
    """Drop the prefix that everything of the encoder has (`bert.`, `tapas.`, `encoder.` ...) and TensorFlow's names."""
    prefixes = [name.removesuffix(WORDS) for name in files.tensors if name.endswith(WORDS)]
    if len(prefixes) != 1:
        raise CheckpointError(
            f"there are {len(prefixes)} encoders in it",
            where=files.source,
            remedy="Name the weights of one BERT-like encoder",
        )
    renamed = {"gamma": "weight", "beta": "bias"}
    plain = {}
    for name, tensor in files.tensors.items():
        *parts, leaf = name.removeprefix(prefixes[0]).split(".")
        plain[".".join([*parts, renamed.get(leaf, leaf)])] = tensor
    return plain


def _check_fit(model: TableEncoder, tensors: dict[str, Tensor], files: CheckpointFiles) -> None:
    """Compare what cannot be mended by copying.

    Raises:
        CheckpointError: the size, the vocabulary or the activation is another.
    """
    found = _size_of(tensors, files.config, model.size)
    names = [name for name, size in SIZES.items() if replace(size, max_positions=found.max_positions) == found]
    choice = f"Set model.size={names[0]}" if names else f"The sizes are {', '.join(SIZES)}"
    words, own_words = len(tensors[WORDS]), model.embeddings.word_embeddings.num_embeddings
    activation = files.config.get("hidden_act", model.activation)
    for what, theirs, ours, remedy in (
        ("size", _describe(found), _describe(model.size), choice),
        ("vocabulary", f"{words} word pieces", f"{own_words} word pieces", "Set init.tokenizer to that of the weights"),
        ("activation", activation, model.activation, f"Set model.activation={activation}"),
    ):
        if theirs != ours:
            raise CheckpointError(f"its {what} is {theirs}, the network's is {ours}", where=files.source, remedy=remedy)


def _size_of(tensors: dict[str, Tensor], config: dict[str, Any], wanted: EncoderSize) -> EncoderSize:
    """The size that the tensors have; heads are in the config only, positions need not agree."""
    inner = tensors.get("encoder.layer.0.intermediate.dense.bias", torch.empty(0))
    return EncoderSize(
        hidden_size=tensors[WORDS].shape[1],
        num_layers=len({name.split(".")[2] for name in tensors if name.startswith("encoder.layer.")}),
        num_heads=config.get("num_attention_heads", wanted.num_heads),
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


def _zero_missing_types(model: TableEncoder, tensors: dict[str, Tensor]) -> None:
    state = model.state_dict()
    for name in TYPE_TABLES:
        if name in state and name not in tensors:
            state[name].zero_()


def _spread_bert_types(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """BERT's one table of two segments becomes the beginning of the segment table."""
    if BERT_TYPES not in tensors or TYPE_TABLES[0] in tensors:
        return tensors
    return {TYPE_TABLES[0] if name == BERT_TYPES else name: tensor for name, tensor in tensors.items()}


@torch.no_grad()
def _copy(model: TableEncoder, tensors: dict[str, Tensor]) -> LoadReport:
    """Copy what has a place; tables of positions and types may be longer or shorter, then their common rows."""
    state = model.state_dict()
    loaded = [name for name in state if name in tensors]
    for name in loaded:
        rows = min(len(state[name]), len(tensors[name]))
        if name not in (POSITIONS, *TYPE_TABLES) and state[name].shape != tensors[name].shape:
            raise CheckpointError(
                f"it is {tuple(tensors[name].shape)}, the network's {tuple(state[name].shape)}",
                where=name,
                remedy=model.shape_remedies.get(name.partition(".")[0], "Name weights of this architecture"),
            )
        state[name][:rows] = tensors[name][:rows]
    new, unused = (tuple(name for name in a if name not in b) for a, b in ((state, tensors), (tensors, state)))
    return LoadReport(tuple(loaded), new, unused)
