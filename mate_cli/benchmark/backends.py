"""Networks and attention backends of `conf/`, and encoders of `transformers`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from hydra import compose
from hydra.core.global_hydra import GlobalHydra
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from torch import Tensor, nn

from mate_cli.attention.base import AttentionBackend
from mate_cli.benchmark.cases import VOCABULARY
from mate_cli.errors import ConfigError
from mate_cli.files.targets import find_beside, find_targets
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.base.table_encoder import TableEncoder, build_network
from mate_cli.tokenization.layout import TOKEN_TYPES, TableBatch


def find_backends(names: Sequence[str]) -> dict[str, AttentionBackend]:
    """Return instances of the attention backends with the given names in `conf/attention`.

    Hydra must be initialized.

    Raises:
        ConfigError: a name is unknown.
    """
    options = list_backends()
    for name in names:
        if name not in options:
            hint = f"Choose from {', '.join(options)}"
            raise ConfigError(f"unknown attention {name!r}", where="benchmark", remedy=hint)
    return {name: instantiate(_composed("attention", [f"+attention={name}"])) for name in names}


def list_backends() -> list[str]:
    """List the attention backends in `conf/attention`, including user-defined backends."""
    return sorted(GlobalHydra.instance().config_loader().get_group_options("attention"))


def _composed(group: str, words: list[str]) -> DictConfig:
    """Compose the benchmark configuration, and return its config group, such as `attention`.

    Modules of its classes in the working directory become importable.
    """
    node: DictConfig = compose("benchmark", words)[group]
    find_beside(find_targets(OmegaConf.to_container(node, resolve=True)))
    return node


def find_network(
    name: str, attention: AttentionBackend, length: int, settings: Mapping[str, object], **options: Any
) -> TableEncoder:
    """Build a network of `conf/model` that uses the given attention backend.

    Hydra must be initialized.

    Args:
        name: name from `list_networks`.
        attention: attention backend.
        length: number of tokens of the longest input.
        settings: values by key that replace values of the file in `conf/model`.
        **options: constructor arguments of the network that replace values of the file.

    Raises:
        ConfigError: the file lacks a key of `settings`, or the network has no encoder layers.
    """
    words = [f"+model={name}", f"+encoding.max_tokens={length}"]
    node = _composed("model", words)
    for key, value in settings.items():
        try:
            OmegaConf.update(node, key, value)
        except OmegaConfBaseException as error:
            raise ConfigError(f"conf/model/{name}.yaml has no key {key}", where="benchmark.networks") from error
    network = build_network(node, attention=attention, **options)
    if not network.layers:
        raise ConfigError(f"{name} has no layers with known operation counts", where="benchmark", remedy="Leave it out")
    return network


def list_networks() -> list[str]:
    """Return the names of all networks in `conf/model`, including user-defined networks."""
    return sorted(GlobalHydra.instance().config_loader().get_group_options("model"))


class TransformersBert(nn.Module):
    """Encoder to benchmark: `BertModel` of `transformers` with dense, fused attention (SDPA)."""

    def __init__(self, size: EncoderSize, positions: int) -> None:
        from transformers import BertConfig, BertModel

        super().__init__()
        numbers = {**size.standard_numbers, "vocab_size": VOCABULARY, "max_position_embeddings": positions}
        config = BertConfig(**numbers, attn_implementation="sdpa")
        self.model = BertModel(config, add_pooling_layer=False)

    def forward(self, batch: TableBatch) -> Tensor:
        """Encode a batch, and return the hidden states of the last layer [B, T, D]."""
        return self.model(batch.input_ids, attention_mask=batch.attention_mask).last_hidden_state


class TransformersTapas(nn.Module):
    """Encoder to benchmark: `TapasModel` of `transformers` with its default attention.

    Row and column ids are clamped to the number of rows of the embedding tables of `TapasModel`.
    """

    def __init__(self, size: EncoderSize, positions: int) -> None:
        from transformers import TapasConfig, TapasModel

        super().__init__()
        self.model = TapasModel(TapasConfig(vocab_size=VOCABULARY, **size.standard_numbers), add_pooling_layer=False)

    def forward(self, batch: TableBatch) -> Tensor:
        """Encode a batch, and return the hidden states of the last layer [B, T, D]."""
        types = [getattr(batch, name).clamp(max=rows - 1) for name, rows in TOKEN_TYPES.items()]
        output = self.model(batch.input_ids, attention_mask=batch.attention_mask, token_type_ids=torch.stack(types, -1))
        return output.last_hidden_state


PEERS: dict[str, Callable[[EncoderSize, int], nn.Module]] = {
    "transformers_tapas": TransformersTapas,
    "transformers_bert": TransformersBert,
}
"""Classes of `transformers` encoders by variant name.

Their arguments are the encoder size and the maximum number of positions.
"""
