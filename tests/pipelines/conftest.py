"""Exports that several files of tests share."""

import pytest
from tiny_exports import FRAME, QUESTIONS, export_tiny


@pytest.fixture(scope="session")
def exports(tmp_path_factory):
    """The folder of an export by the name of its kind; tests that change it copy it first."""
    made: dict[str, str] = {}

    def export(name: str) -> str:
        if name not in made:
            made[name] = str(export_tiny(name, tmp_path_factory.mktemp(name)))
        return made[name]

    return export


@pytest.fixture(scope="session")
def given(exports):
    """What transformers' tokenizer makes of all questions, padded."""
    pandas = pytest.importorskip("pandas")
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(exports("cells"))
    return dict(tokenizer(table=pandas.DataFrame(FRAME), queries=QUESTIONS, return_tensors="pt", padding=True))
