import pytest
from golden import shared

from mate_cli.data.datasets.hybridqa.reader import HybridQA


@pytest.fixture(scope="session")
def real():
    """The shared re-split of HybridQA; one pass over its archives serves every test."""
    return HybridQA(shared("data", "hybridqa"))
