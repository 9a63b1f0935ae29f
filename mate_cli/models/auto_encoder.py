"""Our networks behind the inputs, outputs and files of transformers."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from hydra.utils import instantiate
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, cached_file, can_return_tuple

from mate_cli.errors import CheckpointError, ConfigError
from mate_cli.files.renamed import rename_targets
from mate_cli.files.targets import check_targets
from mate_cli.models.base.sizes import SIZES
from mate_cli.models.base.table_encoder import EncoderOutput, TableEncoder, initialise, is_exported
from mate_cli.models.layer_outputs import LayerTensors, encode_with_layers
from mate_cli.tokenization.layout import TOKEN_TYPES, TableBatch, cell_position_ids

DENSE = {"eager": "mate_cli.attention.backends.eager.Eager", "sdpa": "mate_cli.attention.backends.sdpa.Sdpa"}
"""Attention over all pairs, by the names that transformers has for it."""

DOWNLOADING = ("cache_dir", "force_download", "local_files_only", "revision", "subfolder", "token")


def _refuse_pickles(name: str | Path, options: Mapping[str, Any]) -> None:
    """Refuse an index of weights that names other files than safetensors, which transformers would read as pickles.

    Raises:
        CheckpointError: it does.
    """
    quiet = {"_raise_exceptions_for_missing_entries": False, "_raise_exceptions_for_connection_errors": False}
    index = cached_file(name, SAFE_WEIGHTS_INDEX_NAME, **options, **quiet)
    files = json.loads(Path(index).read_bytes()).get("weight_map", {}).values() if index else ()
    if others := sorted({file for file in files if not str(file).endswith(".safetensors")}):
        raise CheckpointError(f"{others[0]} is no safetensors file", where=str(index), remedy="Export again")


@torch.no_grad()
def _initialize(model: MateModel, names: Collection[str]) -> None:
    """Initialize weights by their names, as in a new model."""
    if names:
        initial, weights = type(model)(model.config).state_dict(), model.state_dict()
        for name in names:
            weights[name].copy_(initial[name])


class MateConfig(PretrainedConfig):
    """The configuration of a network of ours; its size is there under the names that transformers uses, too.

    Args:
        model: a `conf/model` with all values, `_target_` among them.
        attention: a `conf/attention`.
        vocab_size: word pieces.
        reset_position_index_per_cell: positions restart in every cell.
        task: a `conf/task`: the head, and what is made of it; empty for none.
        encoding: a `conf/encoding`: how tables become tokens.
        **others: those of every configuration of transformers, and those that its pipelines ask for.
    """

    model_type = "mate_cli"
    keys_to_ignore_at_inference: ClassVar[list[str]] = ["span_logits"]

    def __init__(
        self,
        model: Mapping[str, Any] | None = None,
        attention: Mapping[str, Any] | None = None,
        vocab_size: int = 30522,
        reset_position_index_per_cell: bool = False,
        task: Mapping[str, Any] | None = None,
        encoding: Mapping[str, Any] | None = None,
        **others: Any,
    ) -> None:
        parts = ({**(part or {})} for part in (model, attention, task, encoding))
        self.model, self.attention, self.task, self.encoding = map(rename_targets, parts)
        self.vocab_size, self.reset_position_index_per_cell = vocab_size, reset_position_index_per_cell
        if implementation := others.pop("attn_implementation", None):
            if implementation not in DENSE:
                raise ValueError(f"attn_implementation={implementation!r}: use {' or '.join(DENSE)}, or leave it out")
            self.attention = {"_target_": DENSE[implementation]}
        if aggregations := others.get("aggregation_labels"):  # keys of JSON are texts
            others["aggregation_labels"] = {int(place): name for place, name in aggregations.items()}
        super().__init__(**others)

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **options: Any) -> Any:  # noqa: ANN401 - as in transformers
        """Build a configuration from a dictionary and options that replace its values.

        Raises:
            ConfigError: an option such as `hidden_size` would have no effect.
        """
        if fixed := sorted(options.keys() & {*SIZES["tiny"].standard_numbers, "max_position_embeddings", "hidden_act"}):
            raise ConfigError("is determined by the option model", where=fixed[0], remedy="Change the option model")
        return super().from_dict(config_dict, **options)


class MateModel(PreTrainedModel):
    """Any network of ours behind the inputs that transformers' TAPAS takes."""

    config_class = MateConfig
    base_model_prefix = "encoder"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    encoder: TableEncoder
    has_foreign_head = False
    """The configuration is of a task with another type of head."""

    def __init__(self, config: MateConfig) -> None:
        super().__init__(config)
        sized = [config.model, config.vocab_size]
        built = {"model": sized, "attention": config.attention, "task": config.task, "encoding": config.encoding}
        check_targets(built, "config.json")
        attention = instantiate(config.attention)
        self.encoder = instantiate(config.model, attention=attention, vocab_size=config.vocab_size)
        self.add_heads()
        self.post_init()
        self._no_split_modules = {type(self.encoder).__name__}  # a batch is packed for the device of the whole encoder

    def add_heads(self) -> None:
        """Add what scores the states; nothing here."""

    @classmethod
    def from_pretrained(
        cls,
        name: str | Path | None,
        *inputs: Any,
        ignore_mismatched_sizes: bool = False,
        output_loading_info: bool = False,
        **options: Any,
    ) -> Any:  # noqa: ANN401 - the network, or a tuple
        """Load as any model of transformers is loaded; weights that are missing or damaged are refused.

        Args:
            name: a folder that `mate export` wrote, or a name on the hub, or an adapter of PEFT for it; None where
                both configuration and weights are given.
            *inputs: as in transformers.
            ignore_mismatched_sizes: initialize weights of another shape instead of raising an error.
            output_loading_info: return a tuple of the network and the names of weights that did not fit.
            **options: as in transformers; weights are safetensors, whatever they say.

        Raises:
            CheckpointError: the weights are damaged or belong to another network.
        """
        if name is not None:
            _refuse_pickles(name, {key: options[key] for key in DOWNLOADING if key in options})
        try:
            with torch.random.fork_rng(devices=[]):  # what is replaced at once draws nothing from anybody's numbers
                model, info = super().from_pretrained(
                    name,
                    *inputs,
                    ignore_mismatched_sizes=True,  # told below
                    output_loading_info=True,
                    **{**options, "use_safetensors": True},  # never a pickle
                )
        except SafetensorError as error:
            problem = f"the weights cannot be loaded: {error}"
            raise CheckpointError(problem, where=str(name), remedy="Export again") from error
        head = {key for key in model.state_dict() if not key.startswith(f"{cls.base_model_prefix}.")}
        is_new = model.has_foreign_head or head <= set(info["missing_keys"])
        new = head if is_new else set()
        if missing := sorted(set(info["missing_keys"]) - new):
            raise CheckpointError(f"the weights lack {missing[0]}", where=str(name), remedy="Export again")
        mismatched = [mismatch for mismatch in sorted(info["mismatched_keys"]) if mismatch[0] not in new]
        if mismatched and not ignore_mismatched_sizes:
            key, theirs, ours = mismatched[0]
            problem = f"{key} is {tuple(theirs)}, the network's {tuple(ours)}"
            raise CheckpointError(problem, where=str(name), remedy="Set ignore_mismatched_sizes=True to draw it anew")
        _initialize(model, new.union(key for key, *_ in mismatched))
        return (model, info) if output_loading_info else model

    def get_submodule(self, target: str) -> nn.Module:
        """Return a part by its name.

        Raises:
            ValueError: PEFT looks for word embeddings to put a prompt in front of.
        """
        if target == "embeddings.word_embeddings":
            raise ValueError("prompt tuning drops token_type_ids, by which the network reads a table. Use LoRA")
        return super().get_submodule(target)

    def get_input_embeddings(self) -> nn.Module:
        """Return the table of word pieces."""
        return self.encoder.embeddings.word_embeddings

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the table of word pieces.

        Raises:
            ValueError: see `resize_token_embeddings`.
        """
        self._check_vocabulary_can_change()
        self.encoder.embeddings.register_module("word_embeddings", value)

    def resize_token_embeddings(self, *args: Any, **options: Any) -> nn.Embedding:
        """Change how many word pieces there are, as in transformers; a network that refuses stays as it was.

        Raises:
            ValueError: it does not read word pieces, or something else in it has a place for each of them, too.
        """
        self._check_vocabulary_can_change()
        resized: nn.Embedding = super().resize_token_embeddings(*args, **options)
        return resized

    def _check_vocabulary_can_change(self) -> None:
        name = type(self.encoder).__name__
        if not hasattr(self.encoder.embeddings, "word_embeddings"):
            raise ValueError(f"{name} does not read word pieces")
        if len(self.encoder.encoders) > 1 or self.config.task.get("_target_", "").endswith("MaskedLM"):
            raise ValueError(f"{type(self).__name__} has several word embeddings, which cannot be resized")

    def _init_weights(self, module: nn.Module) -> None:
        """Draw embeddings that were added; the network has drawn all others by itself."""
        if isinstance(module, nn.Embedding):
            initialise(module)

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        cell_features: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        **arrays: Tensor | None,
    ) -> BaseModelOutputWithPooling:
        """Encode a batch.

        Args:
            input_ids: word pieces, [B, T].
            attention_mask: 1 on real tokens, [B, T]; all are real when it is None.
            token_type_ids: in the order of `TOKEN_TYPES`, [B, T, 7]; zeros when it is None.
            position_ids: [B, T]; those that the network was trained with when it is None.
            cell_features: of networks that read them, [B, T, F].
            inputs_embeds: states of word pieces in place of `input_ids`, [B, T, D].
            output_attentions: also return attention weights of each layer, [B, N, T, T].
            output_hidden_states: also return what goes into the first layer and comes out of each, [B, T, D].
            **arrays: others that the network reads, by their names (`TableEncoder.arrays`), with B in front.

        Returns:
            `last_hidden_state` [B, T, D], zero on padding and on tokens that the network does not keep, or of nodes
            [B, K, D]; `pooler_output` [B, D]; and what was asked for.
        """
        batch = self.batch_of(
            input_ids, attention_mask, token_type_ids, position_ids, cell_features, inputs_embeds, **arrays
        )
        output, states, attentions = self.encode(batch, output_hidden_states, output_attentions)
        return BaseModelOutputWithPooling(
            last_hidden_state=output.spread(batch.input_ids.shape[1]),
            pooler_output=output.pooled,
            hidden_states=states,
            attentions=attentions,
        )

    def batch_of(
        self,
        input_ids: Tensor | None,
        attention_mask: Tensor | None,
        token_type_ids: Tensor | None,
        position_ids: Tensor | None,
        cell_features: Tensor | None,
        inputs_embeds: Tensor | None = None,
        **arrays: Tensor | None,
    ) -> TableBatch:
        """Build the batch that the network reads; see `forward`. Integers may be of any type.

        Raises:
            TypeError: the network does not read one of the arrays.
            ValueError: there are both word pieces and states of them, or neither, or the network embeds them twice;
                or the inputs are not of the same tokens.
        """
        known = {array.name: array for array in self.encoder.arrays}
        if unknown := {name for name, tensor in arrays.items() if tensor is not None} - known.keys():
            raise TypeError(f"{type(self).__name__}.forward does not accept {', '.join(sorted(unknown))}")
        if inputs_embeds is not None and len(self.encoder.encoders) > 1:
            raise ValueError(f"{type(self.encoder).__name__} has several word embeddings. Give input_ids")
        if inputs_embeds is None and input_ids is not None:
            ids = input_ids.long()
        elif inputs_embeds is not None and input_ids is None:
            ids = torch.zeros(inputs_embeds.shape[:2], dtype=torch.long, device=inputs_embeds.device)
        else:
            raise ValueError("give either input_ids or inputs_embeds")
        for name, tensor in {"attention_mask": attention_mask, "token_type_ids": token_type_ids}.items():
            if tensor is not None and tensor.shape[:2] != ids.shape:
                raise ValueError(f"{name} is {list(tensor.shape)} where input_ids is {list(ids.shape)}")
        zeros = ids.new_zeros(*ids.shape, len(TOKEN_TYPES))
        types: dict[str, Any] = dict(
            zip(TOKEN_TYPES, (zeros if token_type_ids is None else token_type_ids.long()).unbind(-1), strict=True)
        )
        return TableBatch(
            input_ids=ids,
            **types,
            position_ids=self._positions(types) if position_ids is None else position_ids.long(),
            attention_mask=torch.ones_like(ids) if attention_mask is None else attention_mask.long(),
            word_states=inputs_embeds,
            cell_features=cell_features,
            more={known[name]: tensor.long() for name, tensor in arrays.items() if tensor is not None},
        )

    def encode(
        self, batch: TableBatch, hidden_states: bool | None, attentions: bool | None
    ) -> tuple[EncoderOutput, LayerTensors, LayerTensors]:
        """Encode a batch, with what is asked for here or by the configuration, the states where their tokens stood."""
        if is_exported():
            self.encoder.check_exportable()
        output, states, weights = encode_with_layers(
            self.encoder,
            batch,
            hidden_states=self.config.output_hidden_states if hidden_states is None else hidden_states,
            attentions=self.config.output_attentions if attentions is None else attentions,
        )
        length = batch.input_ids.shape[1]
        return output, states and tuple(output.with_states(state).spread(length) for state in states), weights

    def _positions(self, types: Mapping[str, Tensor]) -> Tensor:
        rows, columns = types["row_ids"], types["column_ids"]
        if self.config.reset_position_index_per_cell:
            return cell_position_ids(rows, columns, self.encoder.size.max_positions)
        return torch.arange(rows.shape[1], device=rows.device).expand_as(rows)
