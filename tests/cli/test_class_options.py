"""Options that are read from source are those that the imported class has."""

import pytest
from configurations import targets
from pydantic.errors import PydanticSchemaGenerationError

from mate_cli.cli.config.class_options import load_options, read_options
from mate_cli.cli.config.validate import _adapter
from mate_cli.cli.config_dir import config_dir

UNREAD = {"size", "extra", "lora", "inner", "pruner", "queries"}
"""Parameters whose types are classes of ours."""


def can_be_written(hint):
    try:
        return _adapter(hint) is not None
    except PydanticSchemaGenerationError:  # a list of classes of ours, say
        return False


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", sorted(name for name in targets(config_dir()) if read_options(name).names))
def test_options_are_those_of_the_class(name):
    imported, read = load_options(name), read_options(name)
    assert read.takes_any or set(read.names) == set(imported.names)
    shared = read.hints.keys() & set(imported.names)
    assert {key: str(read.hints[key]) for key in shared} == {key: str(imported.hints[key]) for key in shared}
    plain = {key for key in imported.names if key in imported.hints and can_be_written(imported.hints[key])}
    assert plain - read.hints.keys() <= UNREAD
    assert read.docstrings
