"""Our networks for users of transformers: importing this module lets `AutoModel.from_pretrained` load them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from hydra.utils import instantiate
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoConfig, AutoModel, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.utils import cached_file

from mate_cli.errors import CheckpointError
from mate_cli.files.targets import check_targets
from mate_cli.models.base.sizes import EncoderSize, encoder_size
from mate_cli.models.base.table_encoder import TableEncoder
from mate_cli.tokenization.layout import TOKEN_TYPES, TableBatch
from mate_cli.tokenization.serializers.positions import cell_position_ids

WEIGHTS = "model.safetensors"
ENCODER = "encoder."
"""What the names of the network's weights begin with; the others are those of a task."""
DOWNLOADING = ("cache_dir", "force_download", "local_files_only", "revision", "subfolder", "token")
IGNORED = ("trust_remote_code", "code_revision", "use_safetensors", "adapter_kwargs")


class MateConfig(PretrainedConfig):
    """The configuration of a network of ours; its size is there under the names that transformers uses, too.

    Args:
        model: a `conf/model` with all values, `_target_` among them.
        attention: a `conf/attention`.
        vocab_size: word pieces.
        reset_position_index_per_cell: positions restart in every cell.
    """

    model_type = "mate_cli"

    def __init__(
        self,
        model: Mapping[str, Any] | None = None,
        attention: Mapping[str, Any] | None = None,
        vocab_size: int = 30522,
        reset_position_index_per_cell: bool = False,
        **others: Any,  # noqa: ANN401 - those of every configuration of transformers
    ) -> None:
        self.model, self.attention = dict(model or {}), dict(attention or {})
        self.vocab_size, self.reset_position_index_per_cell = vocab_size, reset_position_index_per_cell
        super().__init__(**others)

    @classmethod
    def of(
        cls, model: Mapping[str, Any], attention: Mapping[str, Any], vocab_size: int, *, reset_positions: bool
    ) -> MateConfig:
        """The configuration of a network as our own configuration names it."""
        return cls(model, attention, vocab_size, reset_positions, **_shape(model))


def _shape(model: Mapping[str, Any]) -> dict[str, Any]:
    """The size of a network, under the names that all configurations of transformers share."""
    size = model.get("size")
    if size is None:  # a class of the user's own may call it otherwise
        return {}
    if isinstance(size, Mapping):
        size = EncoderSize(**{name: value for name, value in size.items() if name != "_target_"})
    shape = encoder_size(size)
    return {
        "hidden_size": shape.hidden_size,
        "num_hidden_layers": shape.num_layers,
        "num_attention_heads": shape.num_heads,
        "intermediate_size": shape.intermediate_size,
        "max_position_embeddings": shape.max_positions,
        "hidden_act": model.get("activation", "gelu"),
    }


class MateModel(PreTrainedModel):
    """Any network of ours behind the inputs that transformers' TAPAS takes.

    Args:
        config: which network.
    """

    config_class = MateConfig
    base_model_prefix = "mate"
    main_input_name = "input_ids"

    def __init__(self, config: MateConfig) -> None:
        super().__init__(config)
        check_targets({"model": [config.model, config.vocab_size], "attention": config.attention}, "config.json")
        attention = instantiate(config.attention)
        self.encoder: TableEncoder = instantiate(config.model, attention=attention, vocab_size=config.vocab_size)
        self.post_init()

    @classmethod
    def from_pretrained(
        cls,
        name: str,
        *_: Any,  # noqa: ANN401 - none are needed
        config: MateConfig | None = None,
        dtype: torch.dtype | None = None,
        torch_dtype: torch.dtype | None = None,
        **options: Any,  # noqa: ANN401 - those that AutoModel passes on
    ) -> MateModel:
        """Load a folder that `mate export` wrote, or the same on the Hugging Face hub.

        The weights are read in one go: transformers itself would fill the network tensor by tensor, and does not know
        that we keep queries, keys and values as one.

        Args:
            name: a folder, or a name on the hub.
            config: of the network; read from config.json when it is None.
            dtype: of the weights; float32 when it is None.
            torch_dtype: the older name of `dtype`.
            **options: where the files come from: `revision`, `cache_dir` and the like.

        Raises:
            CheckpointError: the weights are damaged or belong to another network.
            TypeError: an option is not known.
        """
        download = {key: options.pop(key) for key in DOWNLOADING if key in options}
        unknown = [key for key in options if not key.startswith("_") and key not in IGNORED]
        if unknown:
            raise TypeError(f"{cls.__name__}.from_pretrained takes no {', '.join(unknown)}")
        config = config or MateConfig.from_pretrained(name, **download)
        model = cls(config)
        _fill(model, str(cached_file(name, WEIGHTS, **download)))
        wanted = dtype or torch_dtype
        return model.to(wanted).eval() if isinstance(wanted, torch.dtype) else model.eval()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        cell_features: Tensor | None = None,
        relations: Tensor | None = None,
        node_kinds: Tensor | None = None,
        node_tables: Tensor | None = None,
    ) -> BaseModelOutputWithPooling:
        """Encode a batch.

        Args:
            input_ids: word pieces, [B, T].
            attention_mask: 1 on real tokens, [B, T]; all are real when it is None.
            token_type_ids: in the order of `TOKEN_TYPES`, [B, T, 7]; zeros when it is None.
            position_ids: [B, T]; those that the network was trained with when it is None.
            cell_features: of networks that read them, [B, T, F].
            relations: of networks that hop between rows, [B, K, K], see `TableBatch`; all to all when it is None. Of
                networks over the nodes of a schema, how these relate.
            node_kinds: of networks over the nodes of a schema, what each is, [B, K], see `TableBatch`.
            node_tables: of the same, the node of the table of each column, [B, K].

        Returns:
            `last_hidden_state` [B, T, D], zero on padding and on tokens that the network does not keep, or of nodes
            [B, K, D]; and `pooler_output` [B, D].
        """
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        zeros = input_ids.new_zeros(*input_ids.shape, len(TOKEN_TYPES))
        types: dict[str, Any] = dict(
            zip(TOKEN_TYPES, (zeros if token_type_ids is None else token_type_ids).unbind(-1), strict=True)
        )
        positions = self._positions(types) if position_ids is None else position_ids
        batch = TableBatch(
            input_ids=input_ids,
            **types,
            position_ids=positions,
            attention_mask=mask,
            cell_features=cell_features,
            relations=relations,
            node_kinds=node_kinds,
            node_tables=node_tables,
        )
        output = self.encoder(batch)
        states = output.spread(input_ids.shape[1])
        return BaseModelOutputWithPooling(last_hidden_state=states, pooler_output=output.pooled)

    def _positions(self, types: Mapping[str, Tensor]) -> Tensor:
        rows, columns = types["row_ids"], types["column_ids"]
        if self.config.reset_position_index_per_cell:
            return cell_position_ids(rows, columns, self.encoder.size.max_positions)
        return torch.arange(rows.shape[1], device=rows.device).expand_as(rows)


def _fill(model: MateModel, path: str) -> None:
    try:
        tensors = {name: tensor for name, tensor in load_file(path).items() if name.startswith(ENCODER)}
        model.load_state_dict(tensors)
    except Exception as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise CheckpointError(f"the weights cannot be loaded: {reason}", where=path, remedy="Export again") from error


AutoConfig.register(MateConfig.model_type, MateConfig, exist_ok=True)
AutoModel.register(MateConfig, MateModel, exist_ok=True)
