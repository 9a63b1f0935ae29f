"""The same encodings as the tokenizer in transformers, on tables as they are found on Wikipedia."""

import sys
from dataclasses import replace

import pytest
from golden import ROOT, shared

from mate_cli.benchmark.cases import real_questions
from mate_cli.tables.table import Cell
from mate_cli.tables.text import is_empty
from mate_cli.tokenization.serializers.tapas import TapasSerializer
from mate_cli.tokenization.vocabulary import load_tokenizer

sys.path.append(str(ROOT / "tools" / "benchmarks"))


def without_empty_cells(table):
    """Transformers leaves empty cells out, so that its budget is another one."""
    rows = tuple(tuple(Cell("x") if is_empty(cell.text) else cell for cell in row) for row in table.rows)
    return replace(table, header=tuple(Cell(cell.text or "x") for cell in table.header), rows=rows)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("max_tokens", [pytest.param(512, marks=pytest.mark.long), 150])
def test_encodings_equal_transformers(max_tokens):
    from tokenization import equal_encodings, transformers_encoder

    vocabulary = load_tokenizer("minilm")
    examples = real_questions("wtq", shared("data", "wtq"), 80)[::4]
    tables = {id(example.table): without_empty_cells(example.table) for example in examples}
    examples = [replace(example, table=tables[id(example.table)]) for example in examples]
    ours = TapasSerializer(vocabulary, sentences=0, max_tokens=max_tokens).encode(examples)
    theirs = transformers_encoder(examples, vocabulary, max_tokens)()
    different = [
        example.example_id
        for example, one, other in zip(examples, ours, theirs, strict=True)
        if not equal_encodings(one, other, vocabulary.empty_id)
    ]
    assert not different
