"""Random TAPAS models of transformers, and the tasks of ours that their weights were loaded into."""

from collections import defaultdict

import pandas as pd
import torch
from transformers import TapasConfig, TapasForQuestionAnswering, TapasForSequenceClassification, TapasTokenizer

from mate_cli.attention.backends.segments import Segments
from mate_cli.data.loading.collate import collate
from mate_cli.lit_modules.entailment import Entailment
from mate_cli.lit_modules.table_qa import TableQA
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.base.table_encoder import TaskContext
from mate_cli.models.initialization.initial_weights import InitialWeights
from mate_cli.models.tapas import Tapas
from mate_cli.tables.example import AGGREGATIONS
from mate_cli.tokenization.layout import TOKEN_TYPES
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer

SIZE = EncoderSize(16, 2, 4, 24, 512)
SHAPE = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 512,
}
MAX_TOKENS = 192
SEED = 5
"""With it some cells, classes and aggregations are chosen and others are not."""


def questions_twin(folder, config, options, activation="gelu"):
    """A TapasForQuestionAnswering and our task; the label weighting is that of transformers."""
    aggregation = options.get("aggregation", "none")
    if aggregation != "none":
        config = {**config, "num_aggregation_labels": 4, "use_answer_as_supervision": aggregation == "weak"}
    theirs = TapasForQuestionAnswering(TapasConfig(**SHAPE, hidden_act=activation, **config))
    options = {"label_weighting": "intended", **options}
    return _twin(folder, theirs, lambda context: TableQA(context, **options), activation)


def statements_twin(folder):
    """A TapasForSequenceClassification and our task."""
    return _twin(folder, TapasForSequenceClassification(TapasConfig(**SHAPE)), Entailment, "gelu")


def _twin(folder, theirs, task_of, activation):
    _randomise(theirs)
    theirs.save_pretrained(folder)
    encoder = Tapas(SIZE, attention=Segments(), activation=activation)
    task = task_of(TaskContext(encoder))
    report = InitialWeights("tapas", str(folder), heads=True).load(encoder, task)
    assert not report.new
    return theirs.eval(), task.eval()


@torch.no_grad()
def _randomise(model):
    """Weights with which tokens differ, so that some cells are chosen and others are not."""
    generator = torch.Generator().manual_seed(SEED)
    for name, parameter in model.named_parameters():
        scale = 0.3 if ".layer." in name or "bias" in name else 1.0
        noise = torch.randn(parameter.shape, generator=generator) * scale
        parameter.copy_(1 + 0.1 * noise if name.endswith("LayerNorm.weight") else noise)


def batches(examples, size, *, reset_positions=True):
    """Encode examples as we do, so many at a time."""
    encodings = TapasSerializer(load_tokenizer("minilm"), max_tokens=MAX_TOKENS, sentences=0).encode(examples)
    parts = (encodings[place : place + size] for place in range(0, len(encodings), size))
    return [collate(part, reset_positions=reset_positions, max_positions=512) for part in parts]


def inputs(batch, *, labels=True):
    """What a TapasForQuestionAnswering takes, from a batch of ours."""
    fields = {
        "input_ids": batch.input_ids,
        "attention_mask": batch.attention_mask,
        "token_type_ids": torch.stack([getattr(batch, name) for name in TOKEN_TYPES], dim=-1),
    }
    if not labels:
        return fields
    pairs = zip(batch.row_ids, batch.column_ids, strict=True)
    return fields | {
        "labels": batch.label_ids.float(),  # of whole numbers their free selection makes an error of torch
        "float_answer": batch.answer_numbers,
        "numeric_values": batch.numeric_values,
        "numeric_values_scale": torch.tensor([_tokens_of_cells(*ids) for ids in pairs]),
        "aggregation_labels": batch.aggregation_ids.clamp(min=0),
    }


def _tokens_of_cells(rows, columns):
    """How many tokens the body cell of each token has; 1 outside."""
    cells = list(zip(rows.tolist(), columns.tolist(), strict=True))
    sizes = defaultdict(int)
    for cell in cells:
        sizes[cell] += 1
    return [float(sizes[cell]) if cell[0] else 1.0 for cell in cells]


def tokenizer(folder):
    """Their tokenizer with our vocabulary."""
    vocabulary = load_tokenizer("minilm")
    (folder / "vocab.txt").write_text("\n".join(vocabulary.tokens), encoding="utf-8")
    return TapasTokenizer(str(folder / "vocab.txt"), empty_token=vocabulary.tokens[vocabulary.empty_id])


def frame(table):
    """A table as their tokenizer takes it."""
    rows = [[cell.text for cell in row] for row in table.rows]
    return pd.DataFrame(rows, columns=[cell.text for cell in table.header])


def answers(reader, fields, output):
    """What their tokenizer makes of their scores: cells and aggregations."""
    scores = output.logits_aggregation
    found = reader.convert_logits_to_predictions(
        {name: fields[name] for name in ("input_ids", "attention_mask", "token_type_ids")},
        output.logits.detach().clone(),
        None if scores is None else scores.detach(),
    )
    places = found[1] if scores is not None else [0] * len(found[0])
    return [(tuple(cells), AGGREGATIONS[place]) for cells, place in zip(found[0], places, strict=True)]
