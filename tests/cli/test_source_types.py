"""Types that are read from source are those that Python has."""

import pytest
from configurations import targets
from pydantic.errors import PydanticSchemaGenerationError

from mate_cli.cli.config.source_types import docstrings, parameter_types
from mate_cli.cli.config.validate import Parameters, _adapter, _import_target
from mate_cli.cli.config_dir import config_dir

UNREAD = {"size", "extra", "lora", "inner", "pruner", "queries"}
"""Parameters whose types are classes of ours."""


def can_be_written(hint):
    try:
        return _adapter(hint) is not None
    except PydanticSchemaGenerationError:  # a list of classes of ours, say
        return False


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", sorted(name for name in targets(config_dir()) if parameter_types(name)))
def test_types_are_those_of_the_class(name):
    imported, read = Parameters.of(_import_target(name)), parameter_types(name)
    shared = read.keys() & set(imported.names)
    assert {key: str(read[key]) for key in shared} == {key: str(imported.hints[key]) for key in shared}
    plain = {key for key in imported.names if key in imported.hints and can_be_written(imported.hints[key])}
    assert plain - read.keys() <= UNREAD
    assert docstrings(name)
