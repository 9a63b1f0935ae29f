"""Hidden states and attention weights of a trained network as files, for probes of other programs."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from mate_cli.errors import ConfigError
from mate_cli.files.atomic import replace_file
from mate_cli.models.layer_outputs import encode_with_layers, require_attention_weights
from mate_cli.pipelines.inference.tables import LoadedModel
from mate_cli.pipelines.machine import get_device
from mate_cli.tables.example import TableExample
from mate_cli.terminal.progress import track

STATES, ATTENTION = "states", "attention"
TOKEN_ARRAYS = ("input_ids", "segment_ids", "row_ids", "column_ids", "label_ids")
"""Arrays of a batch that are written for each token."""


def dump_layers(
    model: LoadedModel,
    examples: Sequence[TableExample],
    to: Path,
    *,
    names: Collection[str] = (STATES,),
    layers: Sequence[int] | None = None,
    part_megabytes: int = 256,
) -> int:
    """Write hidden states and attention weights of examples to a folder, without padding.

    `part-NNNNN.safetensors` contains the tokens of several examples one after another: `input_ids`, `segment_ids`,
    `row_ids`, `column_ids` and `label_ids` [P], and `states.LAYER` [P, D]. Attention weights have a tensor per example,
    `attention.LAYER.EXAMPLE` [N, T, T], with the number of the example in `index.jsonl`. Each line of `index.jsonl` has
    `id`, `part`, `start` and `end` (token indices in the part), and the texts of the tokens.

    Args:
        model: trained model.
        examples: examples to encode.
        to: path of the new folder. It appears when all files are complete.
        names: "states", "attention" or both.
        layers: layers to write, from 1. Layer 0 is the input of the first layer, which has states only. Negative
            numbers count from the end. None: all layers.
        part_megabytes: size in MB at which the part is complete.

    Returns:
        The number of examples.

    Raises:
        ConfigError: a layer does not exist, or the network has no attention weights for pairs of tokens.
    """
    encoder, count = model.task.encoder, len(model.task.encoder.layers)
    for layer in layers or ():
        if not -count - 1 <= layer <= count:
            raise ConfigError(f"has no layer {layer}", where="layers", remedy=f"Choose from 0 to {count}, or -1")
    layer_numbers = sorted({layer % (count + 1) for layer in layers}) if layers is not None else [*range(count + 1)]
    if ATTENTION in names:
        require_attention_weights(encoder, "dump")
    device = get_device(model.settings.hardware)
    model.task.to(device).eval()
    vocabulary = model.parts.serializer.tokenizer.tokens
    total = 0
    with replace_file(to) as draft:
        draft.mkdir()
        with (draft / "index.jsonl").open("w", encoding="utf-8") as index:
            part, tokens, size = 0, list[dict[str, Tensor]](), 0
            weights = dict[str, Tensor]()

            def write_part() -> None:
                arrays = {name: torch.cat([entry[name] for entry in tokens]) for name in tokens[0]}
                save_file({**arrays, **weights}, draft / f"part-{part:05}.safetensors")

            for example_id, arrays, attention in _iterate_examples(model, examples, layer_numbers, names, device):
                if size >= part_megabytes * 10**6:
                    write_part()
                    part, tokens, size, weights = part + 1, [], 0, {}
                start = sum(len(entry["input_ids"]) for entry in tokens)
                texts = [vocabulary[token] for token in arrays["input_ids"].tolist()]
                entry = {"id": example_id, "part": part, "start": start, "end": start + len(texts), "tokens": texts}
                index.write(json.dumps(entry, ensure_ascii=False) + "\n")
                tokens.append(arrays)
                weights |= {f"{name}.{total}": tensor for name, tensor in attention.items()}
                size += sum(tensor.nbytes for tensor in (*arrays.values(), *attention.values()))
                total += 1
            if tokens:
                write_part()
    return total


def _iterate_examples(
    model: LoadedModel,
    examples: Sequence[TableExample],
    layers: Sequence[int],
    names: Collection[str],
    device: torch.device,
) -> Iterator[tuple[str, dict[str, Tensor], dict[str, Tensor]]]:
    """Yield the id, arrays per token, and attention weights of each example.

    The arrays have no padding and are on the CPU.
    """
    wants_states, wants_attention = STATES in names, ATTENTION in names
    for batch in track(model.parts.data.build_eval_loader(examples, "dump"), "reading", "batches"):
        with torch.inference_mode():
            output, states, attentions = encode_with_layers(
                model.task.encoder,
                batch.to(device),
                hidden_states=wants_states,
                attentions=wants_attention,
                layers=layers,
            )
        output_batch = output.batch
        batch_arrays = ((name, getattr(output_batch, name)) for name in TOKEN_ARRAYS)
        token_arrays = {name: array for name, array in batch_arrays if array is not None}
        token_arrays |= {
            f"{STATES}.{layer}": tensor for layer, tensor in zip(layers, states or (), strict=wants_states)
        }
        heads = dict(zip([layer for layer in layers if layer], attentions or (), strict=wants_attention))
        for number, example_id in enumerate(output_batch.example_ids):
            is_token = output_batch.attention_mask[number] == 1
            arrays = {name: tensor[number][is_token].cpu() for name, tensor in token_arrays.items()}
            pairs = {
                f"{ATTENTION}.{layer}": tensor[number][:, is_token][:, :, is_token] for layer, tensor in heads.items()
            }
            yield example_id, arrays, {name: tensor.cpu().contiguous() for name, tensor in pairs.items()}
