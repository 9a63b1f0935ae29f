"""`mate inspect`: show how an example is tokenized, truncated, pruned and attended to, or dump all layers."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mate_cli.errors import ConfigError, DataError
from mate_cli.files.atomic import check_inside, replace_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from matplotlib.figure import Figure

    from mate_cli.cli.config.schema import Inspect
    from mate_cli.lit_modules.base import TableTask
    from mate_cli.pipelines.inference.tables import LoadedModel
    from mate_cli.reports.example import KeptTokens
    from mate_cli.runs.configuration import ModelConfig
    from mate_cli.tables.example import TableExample
    from mate_cli.tokenization.layout import TableEncoding
    from mate_cli.tokenization.serializers.masking import MaskingSerializer
    from mate_cli.tokenization.serializers.text_serializer import TextSerializer

    WordSerializer = TextSerializer | MaskingSerializer


FIXED_IN_TRAINING = "was fixed in training"
"""Error message for an override that a trained model cannot apply."""
DUMP_KEYS = ("dump", "layers", "part_megabytes")
OWN_KEYS = frozenset({"run", "checkpoint", "split", "example", "tokens", "hardware", "paths", "hydra", *DUMP_KEYS})
"""Keys that users may set together with `run`. With `checkpoint`, they may also set `data`."""


class ExampleReader(NamedTuple):
    """The objects that encode and predict the inspected examples.

    Args:
        config: configuration of the model.
        serializer: serializer that tokenizes an example.
        examples: examples of the split.
        task: task with trained weights. None without a run or checkpoint.
    """

    config: ModelConfig
    serializer: WordSerializer
    examples: list[TableExample]
    task: TableTask[Any, Any] | None = None


SOURCES = frozenset({"run", "checkpoint", "experiment", "data", "init", "scale", "sweep"})
"""Keys that select a model or a dataset."""
DEFAULT = "experiment=quickstart_cells"
"""Override to use if no key of `SOURCES` is set. The data and vocabulary are part of the package."""


def convert_arguments(arguments: Sequence[str]) -> list[str]:
    """Check the overrides of `mate inspect`, and select a default experiment if none is given.

    The override `DEFAULT` is added if no override sets a key of `SOURCES`.

    Raises:
        ConfigError: an override has no effect, because `run` or `checkpoint` is set.
    """
    pairs = [argument.partition("=") for argument in arguments if not argument.startswith("-")]
    overrides = {key.lstrip("+~"): value for key, sign, value in pairs if sign}
    for source, more in (("run", ()), ("checkpoint", ("data",))):
        strangers = [key for key in overrides if key.split(".")[0] not in {*OWN_KEYS, *more}]
        if overrides.get(source, "null") != "null" and strangers:
            raise ConfigError(FIXED_IN_TRAINING, where=strangers[0], remedy=f"Leave out this key or {source}=")
    if (key := next((key for key in DUMP_KEYS if key in overrides), None)) and not {"run", "checkpoint"} & {*overrides}:
        raise ConfigError("needs a trained network", where=key, remedy="Add run=FOLDER, or checkpoint=FOLDER data=NAME")
    arguments = [_convert_list(argument) for argument in arguments]
    return arguments if SOURCES & overrides.keys() else [DEFAULT, *arguments]


def _convert_list(argument: str) -> str:
    key, equals, value = argument.partition("=")
    is_list = equals and key in ("dump", "layers") and value[:1] != "[" and value != "null"
    return f"{key}=[{value}]" if is_list else argument


def run(cfg: Inspect) -> None:
    """Print one encoded example, and save a plot of it in outputs/inspect/.

    The plot shows the attention masks, or the graph of the example if the serializer builds a graph.

    Raises:
        DataError: the example cannot be encoded.
    """
    from mate_cli.runs.configuration import explain_places
    from mate_cli.tokenization.serializers.serializer import EncodingFailure

    with explain_places(cfg.run) if cfg.run is not None else nullcontext():
        if cfg.dump:
            write_dump(cfg)
            return
        reader = open_reader(cfg)
    example = find_example(reader.examples, cfg.example, cfg.split)
    (encoding,) = reader.serializer.encode([example])
    if isinstance(encoding, EncodingFailure):
        raise DataError(f"cannot be encoded: {encoding.reason}", where=example.example_id, remedy="Change encoding.*")
    figure: Figure | None
    if name := reader.serializer.view:
        figure = reader.serializer.draw(example, encoding, reader.task and reader.task.encoder.eval())
    else:
        kept_tokens = find_kept_tokens(reader, encoding) if reader.task else None
        show(example, encoding, reader.serializer, cfg.tokens, kept_tokens)
        figure, name = draw_masks(reader.config, example, encoding), "masks"
    if figure is None:
        print("attention masks: none, as no layer of this network has attention")
        return
    path = save_figure(figure, Path(cfg.paths.outputs), f"{example.example_id}_{name}")
    print(f"{'attention masks' if name == 'masks' else name}: {path}")


def save_figure(figure: Figure, outputs: Path, name: str) -> Path:
    """Save a figure in the folder `inspect` and return its path.

    Args:
        figure: figure to save.
        outputs: parent of the folder `inspect`.
        name: file name without suffix. Characters other than letters, digits and `._-` are replaced by `_`.

    Raises:
        RunError: `inspect` is a link that leads out of `outputs`.
    """
    path = outputs.expanduser() / "inspect" / f"{re.sub(r'[^0-9A-Za-z._-]+', '_', name)}.png"
    check_inside(outputs.expanduser(), path)
    with replace_file(path) as draft:
        figure.savefig(draft, dpi=160, facecolor="white")
    return path


def open_reader(cfg: Inspect) -> ExampleReader:
    """Load the run or checkpoint to inspect, or build a serializer from the configuration.

    Raises:
        ConfigError: both `run` and `checkpoint` are set, the experiment has several stages, or the encoding has no
            tokens.
        RunError: the run does not exist.
        CheckpointError: the checkpoint does not exist.
    """
    from hydra.utils import instantiate

    from mate_cli.pipelines.assembly import build_serializer
    from mate_cli.tokenization.serializers.masking import MaskingSerializer
    from mate_cli.tokenization.serializers.text_serializer import TextSerializer

    if cfg.run is not None or cfg.checkpoint is not None:
        model, examples = _load_model(cfg)
        serializer: Any = model.parts.serializer
        reader = ExampleReader(model.settings, serializer, examples, model.task)
    else:
        if cfg.stages:
            experiments = " or ".join(f"experiment={stage['experiment']}" for stage in cfg.stages.values() if stage)
            problem = "this experiment has several stages, each with its own encoding"
            raise ConfigError(problem, where="stages", remedy=f"Use {experiments}")
        examples = list(instantiate(cfg.data).examples(cfg.split))
        # The type of the serializer is checked below.
        serializer = build_serializer(cfg)
        reader = ExampleReader(cfg, serializer, examples)
    if not (reader.serializer.view or isinstance(reader.serializer, (TextSerializer, MaskingSerializer))):
        raise ConfigError("this encoding has no tokens to show", where="encoding", remedy="Use encoding=table")
    return reader


def _load_model(cfg: Inspect) -> tuple[LoadedModel, list[TableExample]]:
    """Load the configured run or checkpoint, and the examples of the inspected split."""
    from hydra.utils import instantiate

    from mate_cli.cli.config.validate import check_run_types
    from mate_cli.pipelines.inference.tables import LoadedModel
    from mate_cli.pipelines.machine import RuntimeOverrides

    if cfg.run is not None and cfg.checkpoint is None:
        check_run_types(cfg.run)
    hardware = cfg.hardware
    if cfg.dump and "attention" in cfg.dump:
        # The memory of attention weights grows quadratically with the input length.
        hardware = hardware.model_copy(update={"micro_batch": 1})
    model = LoadedModel.load(cfg.run, cfg.checkpoint, RuntimeOverrides(hardware, cfg.paths))
    dataset = instantiate(getattr(model.settings, "data", cfg.data))  # A checkpoint has no data.
    return model, model.task.evaluation_examples(list(dataset.examples(cfg.split)))


def write_dump(cfg: Inspect) -> None:
    """Write hidden states and attention weights of examples to a new folder.

    The folder is in outputs/inspect/.

    Raises:
        ConfigError: a layer does not exist, or the network has no attention weights for pairs of tokens.
    """
    from mate_cli.files.atomic import number_names
    from mate_cli.pipelines.inference.layer_dump import dump_layers
    from mate_cli.reports.format import plural

    assert cfg.dump is not None
    outputs = Path(cfg.paths.outputs).expanduser()
    name = re.sub(r"[^0-9A-Za-z._-]+", "_", f"{Path(cfg.run or str(cfg.checkpoint)).name}_{cfg.split}")
    to = next(path for path in number_names(outputs / "inspect" / name) if not path.exists())
    check_inside(outputs, to)
    model, examples = _load_model(cfg)
    if cfg.example is not None:
        examples = [find_example(examples, cfg.example, cfg.split)]
    count = dump_layers(model, examples, to, names=cfg.dump, layers=cfg.layers, part_megabytes=cfg.part_megabytes)
    print(f"{' and '.join(cfg.dump)} of {plural(count, 'example')}: {to}")


def find_kept_tokens(reader: ExampleReader, encoding: TableEncoding) -> KeptTokens | None:
    """Run the network on an encoded example, and return the tokens that remain after pruning.

    Return None if the network does not prune tokens.
    """
    import numpy as np
    import torch

    from mate_cli.data.loading.collate import collate
    from mate_cli.reports.example import KeptTokens
    from mate_cli.tokenization.serializers.serializer import OF_ANSWERS

    assert reader.task is not None
    encoder, positions = reader.task.encoder.eval(), reader.serializer.reset_positions
    batch = collate([encoding], reset_positions=positions, max_positions=encoder.size.max_positions)
    with torch.inference_mode():
        output = encoder(batch)
    if output.batch.places is None:
        return None
    is_kept = np.zeros(len(encoding), bool)
    is_kept[output.batch.places[0].numpy()] = True
    scores = None if output.scores is None else output.scores[0].float().numpy()
    assert encoding.label_ids is not None
    in_answer = (encoding.label_ids > 0) & (reader.task.spec.label in OF_ANSWERS)
    fields = encoding.kinds, encoding.row_ids, encoding.cells
    return KeptTokens(*fields, is_kept, scores, encoding.column_ids > 0, in_answer)


def find_example(examples: list[TableExample], wanted: str | int | None, split: str) -> TableExample:
    """Return the example with the requested id or index.

    Args:
        examples: examples of the split.
        wanted: example id, or index from 0. An id takes precedence. None for the first example.
        split: name of the split, for the error message.

    Raises:
        DataError: no example has this id or index.
    """
    by_id = {example.example_id: example for example in examples}
    if str(wanted) in by_id:
        return by_id[str(wanted)]
    by_index = {str(index): example for index, example in enumerate(examples)}
    index = str(0 if wanted is None else wanted)
    if index not in by_index:
        hint = f"Give an id, or an index from 0 to {len(examples) - 1}"
        raise DataError(f"split {split} has no example {wanted}", where="example", remedy=hint)
    return by_index[index]


def show(
    example: TableExample,
    encoding: TableEncoding,
    serializer: WordSerializer,
    tokens: int,
    kept_tokens: KeptTokens | None = None,
) -> None:
    """Print an example with its table, linked texts and first tokens.

    Args:
        example: example to print.
        encoding: encoding of the example. If tokens are masked for pre-training, their originals are printed too.
        serializer: serializer that made the encoding.
        tokens: number of tokens to print.
        kept_tokens: tokens that remain after pruning. None without pruning.
    """
    from mate_cli.reports.example import print_cut, print_example, print_kept, print_sentences, print_tokens
    from mate_cli.terminal.console import report_console
    from mate_cli.tokenization.fitting.truncation import describe_cut
    from mate_cli.tokenization.serializers.masking import MaskingSerializer
    from mate_cli.tokenization.serializers.text_serializer import TextSerializer

    console = report_console()
    linked_texts = serializer.find_additions(example) if isinstance(serializer, TextSerializer) else {}
    additions = {link: " ".join(texts) for link, texts in linked_texts.items()}
    lengths = cell_lengths(example, encoding, serializer, additions)
    print_example(example, {cell for cell, (count, _) in lengths.items() if count}, console)
    if encoding.cut is not None:
        print_cut(f"{describe_cut(encoding.cut)}; at most {serializer.max_tokens:,} tokens", console)
    print_sentences(example, additions, lengths, console)
    words = serializer.tokenizer.tokens
    texts = [words[token] for token in encoding.input_ids]
    if isinstance(serializer, MaskingSerializer) and encoding.label_ids is not None:
        labels = encoding.label_ids.tolist()
        texts = [f"{token} for {words[label]}" if label else token for token, label in zip(texts, labels, strict=True)]
    if kept_tokens is not None:
        print_kept(kept_tokens, texts, console)
    print_tokens(vars(encoding), encoding.kinds, texts, tokens, console, kept_tokens)


def cell_lengths(
    example: TableExample, encoding: TableEncoding, serializer: WordSerializer, additions: dict[str, str]
) -> dict[tuple[int, int], tuple[int, int]]:
    """Count the tokens that each table cell has before and after truncation.

    Cells of the table header are not counted.

    Args:
        example: example with the table.
        encoding: encoding of the example.
        serializer: serializer that made the encoding.
        additions: text appended to cells, by link.

    Returns:
        (tokens after truncation, tokens before truncation) by (row, column), both from 0.
    """
    from collections import Counter

    counts = Counter(zip(encoding.row_ids.tolist(), encoding.column_ids.tolist(), strict=True))
    cells = list(example.table.cells())
    texts = [" ".join([cell.text, *(additions[x] for x in cell.links if x in additions)]) for _, _, cell in cells]
    token_lists = serializer.tokenizer.pieces(texts)
    return {(r, c): (counts[r + 1, c + 1], max(1, len(p))) for (r, c, _), p in zip(cells, token_lists, strict=True)}


def draw_masks(config: ModelConfig, example: TableExample, encoding: TableEncoding) -> Figure | None:
    """Plot the attention mask of each group of attention heads.

    Return None if the network has no attention.

    Args:
        config: configuration of the model.
        example: example, for the title.
        encoding: encoding of the example.
    """
    from mate_cli.reports.plots.attention_masks import attention_masks_figure

    kinds, rows = encoding.kinds, encoding.row_ids.tolist()
    title = f"{example.example_id}: attention masks, {len(kinds)} tokens"
    masks = head_masks(config, encoding)
    return attention_masks_figure(masks, kinds, rows, title) if masks else None


def head_masks(config: ModelConfig, encoding: TableEncoding) -> dict[str, np.ndarray]:
    """Return the attention mask Bool [T, T] of each group of attention heads, by name.

    Args:
        config: configuration of the model.
        encoding: encoding of an example with T tokens.
    """
    import torch
    from hydra.utils import instantiate

    from mate_cli.data.loading.collate import collate
    from mate_cli.models.base.table_encoder import build_network

    # Allocate no weights, because only the attention patterns are needed.
    with torch.device("meta"):
        model = build_network(config.model, attention=instantiate(config.attention), vocab_size=1)
    batch = collate([encoding], reset_positions=False, max_positions=len(encoding))
    masks: dict[str, np.ndarray] = {}
    for layers, pattern in model.patterns.items():
        names = [f"{layers}, {name}" if len(model.patterns) > 1 else name for name in pattern.group_labels()]
        masks |= zip(names, pattern.checked_masks(batch)[0].numpy(), strict=True)
    return masks
