"""Benchmarks look for garbage before they measure: let them find what is theirs, not walk through all other tests."""

import gc

import pytest


@pytest.fixture(scope="module", autouse=True)
def _only_own_garbage():
    gc.collect()
    gc.freeze()
