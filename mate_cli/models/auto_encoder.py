"""mate's networks with the inputs, outputs and files of transformers."""

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
from transformers.modeling_outputs import BaseModelOutputWithPooling, ModelOutput
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, cached_file, can_return_tuple

from mate_cli.errors import CheckpointError, ConfigError
from mate_cli.files.renamed import rename_targets
from mate_cli.files.targets import check_targets
from mate_cli.models.base.sizes import SIZES
from mate_cli.models.base.table_encoder import EncoderOutput, TableEncoder, build_network, initialise, is_exported
from mate_cli.models.layer_outputs import encode_with_layers
from mate_cli.tokenization.layout import TOKEN_TYPES, TableBatch, make_position_ids

DENSE = {"eager": "mate_cli.attention.backends.eager.Eager", "sdpa": "mate_cli.attention.backends.sdpa.Sdpa"}
"""Dense attention backends, by their `attn_implementation` names in transformers."""

DOWNLOADING = ("cache_dir", "force_download", "local_files_only", "revision", "subfolder", "token")


def _refuse_pickles(name: str | Path, options: Mapping[str, Any]) -> None:
    """Check that the weight index of a sharded checkpoint lists only safetensors files.

    transformers would load other files as pickles, which can execute code.

    Raises:
        CheckpointError: the index lists another file.
    """
    quiet = {"_raise_exceptions_for_missing_entries": False, "_raise_exceptions_for_connection_errors": False}
    index = cached_file(name, SAFE_WEIGHTS_INDEX_NAME, **options, **quiet)
    files = json.loads(Path(index).read_bytes()).get("weight_map", {}).values() if index else ()
    if unsafe := sorted({file for file in files if not str(file).endswith(".safetensors")}):
        raise CheckpointError(f"{unsafe[0]} is not a safetensors file", where=str(index), remedy="Export again")


@torch.no_grad()
def _initialize(model: MateModel, names: Collection[str]) -> None:
    """Reset the named weights to the random initialization of a newly built model."""
    if names:
        initial, weights = type(model)(model.config).state_dict(), model.state_dict()
        for name in names:
            weights[name].copy_(initial[name])


class MateConfig(PretrainedConfig):
    """Configuration of transformers (config.json) for any network of mate.

    The size of the network is also stored under the names that transformers uses.

    Args:
        model: values of a `conf/model` option, including `_target_`.
        attention: values of a `conf/attention` option.
        vocab_size: number of tokens of the vocabulary.
        reset_position_index_per_cell: whether positions restart in every cell.
        task: values of a `conf/task` option, which determine the head. Empty or None: no head.
        encoding: values of a `conf/encoding` option, which determine how tables become tokens.
        **others: options of `PretrainedConfig`, and options that the pipelines of transformers read.
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
        if aggregations := others.get("aggregation_labels"):  # JSON keys are strings.
            others["aggregation_labels"] = {int(index): name for index, name in aggregations.items()}
        super().__init__(**others)

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **options: Any) -> Any:  # noqa: ANN401 - as in transformers
        """Build a configuration from a dictionary and options that replace its values.

        Raises:
            ConfigError: an option such as `hidden_size` would have no effect, because `model` determines it.
        """
        if fixed := sorted(options.keys() & {*SIZES["tiny"].standard_numbers, "max_position_embeddings", "hidden_act"}):
            raise ConfigError("is determined by the option model", where=fixed[0], remedy="Change the option model")
        return super().from_dict(config_dict, **options)


class MateModel(PreTrainedModel):
    """Model of transformers that wraps any network of mate, with the inputs of `TapasModel`."""

    config_class = MateConfig
    base_model_prefix = "encoder"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    encoder: TableEncoder
    output_class: ClassVar[type[ModelOutput]] = BaseModelOutputWithPooling
    """Output class of `forward`."""
    has_foreign_head = False
    """Whether the configuration belongs to a task with another type of head, so that the head is new."""

    def __init__(self, config: MateConfig) -> None:
        super().__init__(config)
        sized = [config.model, config.vocab_size]
        nodes = {"model": sized, "attention": config.attention, "task": config.task, "encoding": config.encoding}
        check_targets(nodes, "config.json")
        attention = instantiate(config.attention)
        self.encoder = build_network(config.model, attention=attention, vocab_size=config.vocab_size)
        self.add_heads()
        self.post_init()
        self._no_split_modules = {type(self.encoder).__name__}  # A packed batch needs the whole encoder on one device.

    def add_heads(self) -> None:
        """Add the output heads of a task. This class adds no head."""

    @classmethod
    def from_pretrained(cls, name: str | Path | None, *inputs: Any, **options: Any) -> Any:  # noqa: ANN401 - or a tuple
        """Load a model as in transformers, but raise an error for missing or damaged weights.

        The weights of a new head are initialized if the checkpoint has no head or a head of another type.

        Args:
            name: export folder of `mate export`, model name on the Hugging Face Hub, or PEFT adapter of such a model.
                None if the configuration and the weights are passed.
            *inputs: see `PreTrainedModel.from_pretrained`.
            **options: see `PreTrainedModel.from_pretrained`. Only safetensors files are read, regardless of
                `use_safetensors`.

        Raises:
            CheckpointError: the weights are damaged or belong to another network.
        """
        if name is not None:
            _refuse_pickles(name, {key: options[key] for key in DOWNLOADING if key in options})
        with_info, may_differ = (options.get(key) for key in ("output_loading_info", "ignore_mismatched_sizes"))
        # Mismatched sizes are reported below. A pickle is never loaded.
        options |= {"output_loading_info": True, "ignore_mismatched_sizes": True, "use_safetensors": True}
        try:
            with torch.random.fork_rng(devices=[]):  # Loading must not change the random state of the caller.
                model, info = super().from_pretrained(name, *inputs, **options)
        except SafetensorError as error:
            problem = f"the weights cannot be loaded: {error}"
            raise CheckpointError(problem, where=str(name), remedy="Export again") from error
        head = {key for key in model.state_dict() if not key.startswith(f"{cls.base_model_prefix}.")}
        is_new = model.has_foreign_head or head <= set(info["missing_keys"])
        new_keys = head if is_new else set()
        if absent := sorted(set(info["missing_keys"]) - new_keys):
            raise CheckpointError(f"the weights lack {absent[0]}", where=str(name), remedy="Export again")
        mismatched = [mismatch for mismatch in sorted(info["mismatched_keys"]) if mismatch[0] not in new_keys]
        if mismatched and not may_differ:
            key, size, expected = mismatched[0]
            problem = f"{key} is {tuple(size)}, the network's {tuple(expected)}"
            raise CheckpointError(problem, where=str(name), remedy="Set ignore_mismatched_sizes=True to randomize it")
        _initialize(model, new_keys.union(key for key, *_ in mismatched))
        return (model, info) if with_info else model

    def get_submodule(self, target: str) -> nn.Module:
        """Return a submodule by its name. Raise `ValueError` for a request of PEFT's prompt tuning.

        Raises:
            ValueError: PEFT requests the word embeddings for prompt tuning, which is not supported.
        """
        if target == "embeddings.word_embeddings":
            raise ValueError("prompt tuning drops token_type_ids, by which the network reads a table. Use LoRA")
        return super().get_submodule(target)

    def get_input_embeddings(self) -> nn.Module:
        """Return the word embedding module of the network."""
        return self.encoder.embeddings.word_embeddings

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the word embedding module of the network.

        Raises:
            ValueError: see `resize_token_embeddings`.
        """
        self._check_vocabulary_can_change()
        self.encoder.embeddings.register_module("word_embeddings", value)

    def resize_token_embeddings(self, *args: Any, **options: Any) -> nn.Embedding:
        """Resize the word embeddings, as in transformers. After an error the network is unchanged.

        Raises:
            ValueError: the network has no word embeddings, or another part of it also depends on the vocabulary size.
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
        """Initialize a resized word embedding. All other weights are initialized when the network is built."""
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
    ) -> ModelOutput:
        """Compute hidden states and pooled states of a batch of tokenized tables.

        Args:
            input_ids: token ids, [B, T].
            attention_mask: 1 on real tokens and 0 on padding, [B, T]. None: no padding.
            token_type_ids: token types in the order of `TOKEN_TYPES`, [B, T, 7]. None: zeros.
            position_ids: positions, [B, T]. None: positions as in training.
            cell_features: features of each token's cell, for networks that read them, [B, T, F].
            inputs_embeds: word embeddings that replace `input_ids`, [B, T, D].
            output_attentions: also return the attention weights of each layer, [B, N, T, T]. None: as configured.
            output_hidden_states: also return the input of the first layer and the output of each layer, [B, T, D].
                None: as configured.
            **arrays: additional inputs of the network, by their names in `TableEncoder.arrays`, with batch dimension B.

        Returns:
            `last_hidden_state` [B, T, D], which is zero on padding and on tokens that the network prunes, or [B, K, D]
            for the nodes of a network on nodes. Also `pooler_output` [B, D], and the requested `hidden_states` and
            `attentions`.
        """
        inputs = (input_ids, attention_mask, token_type_ids, position_ids, cell_features, inputs_embeds)
        return self.compute(self.batch_of(*inputs, **arrays), output_hidden_states, output_attentions)

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
        """Convert the inputs of `forward` to a `TableBatch`. Integer inputs may have any integer dtype.

        Args:
            input_ids: see `forward`.
            attention_mask: see `forward`.
            token_type_ids: see `forward`.
            position_ids: see `forward`.
            cell_features: see `forward`.
            inputs_embeds: see `forward`.
            **arrays: see `forward`.

        Raises:
            TypeError: the network does not read one of the arrays.
            ValueError: `input_ids` and `inputs_embeds` are both set or both missing, `inputs_embeds` is set but the
                network has several word embeddings, or the shapes of the inputs differ.
        """
        array_of = {array.name: array for array in self.encoder.arrays}
        if unknown := {name for name, tensor in arrays.items() if tensor is not None} - array_of.keys():
            raise TypeError(f"{type(self).__name__}.forward does not accept {', '.join(sorted(unknown))}")
        if inputs_embeds is not None and len(self.encoder.encoders) > 1:
            raise ValueError(f"{type(self.encoder).__name__} has several word embeddings. Give input_ids")
        words: Any = input_ids if inputs_embeds is None else inputs_embeds
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds")
        ids = words.new_zeros(words.shape[:2], dtype=torch.long) if input_ids is None else input_ids.long()
        for name, tensor in {"attention_mask": attention_mask, "token_type_ids": token_type_ids}.items():
            if tensor is not None and tensor.shape[:2] != ids.shape:
                raise ValueError(f"{name} is {list(tensor.shape)} where input_ids is {list(ids.shape)}")
        known_types = ids.new_zeros(*ids.shape, len(TOKEN_TYPES)) if token_type_ids is None else token_type_ids.long()
        types: dict[str, Any] = dict(zip(TOKEN_TYPES, known_types.unbind(-1), strict=True))
        if position_ids is None:
            size, restart = self.encoder.size.max_positions, self.config.reset_position_index_per_cell
            position_ids = make_position_ids(types["row_ids"], types["column_ids"], size, restart=restart)
        return TableBatch(
            input_ids=ids,
            **types,
            position_ids=position_ids.long(),
            attention_mask=torch.ones_like(ids) if attention_mask is None else attention_mask.long(),
            word_states=inputs_embeds,
            cell_features=cell_features,
            more={array_of[name]: tensor.long() for name, tensor in arrays.items() if tensor is not None},
        )

    def compute(self, batch: TableBatch, hidden_states: bool | None, attentions: bool | None) -> ModelOutput:
        """Encode a batch and return the output class of transformers, as `forward` does.

        Args:
            batch: batch of `batch_of`.
            hidden_states: whether to return hidden states. None: as configured.
            attentions: whether to return attention weights. None: as configured.
        """
        if is_exported():
            self.encoder.check_exportable()
        output, states, weights = encode_with_layers(
            self.encoder,
            batch,
            hidden_states=self.config.output_hidden_states if hidden_states is None else hidden_states,
            attentions=self.config.output_attentions if attentions is None else attentions,
        )
        length = batch.input_ids.shape[1]
        states = states and tuple(output.with_states(state).spread(length) for state in states)
        return self.output_class(**self.scores(output, length), hidden_states=states, attentions=weights)

    def scores(self, output: EncoderOutput, length: int) -> dict[str, Tensor]:
        """Return hidden states [B, length, D] and pooled states [B, D] under the names of transformers.

        Args:
            output: output of the encoder.
            length: number of tokens of the input.
        """
        return {"last_hidden_state": output.spread(length), "pooler_output": output.pooled}
