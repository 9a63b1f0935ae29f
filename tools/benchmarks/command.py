"""Start a measurement of this folder by `python tools/benchmarks/depth.py draws=4`: its fields are the keys."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from pydantic import TypeAdapter, ValidationError

from mate_cli.benchmark.measure import measure


def run(kind: type[Iterable[Any]]) -> Path:
    """Measure what the words of the command line say, and leave a record in a new folder of outputs/benchmark.

    Raises:
        SystemExit: a word is no field, or has no such value.
    """
    given: Any = OmegaConf.to_container(OmegaConf.from_cli())
    try:
        TypeAdapter(kind).validate_python(given)
    except ValidationError as error:
        problem = error.errors()[0]
        sys.exit(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}")
    config = {"benchmark": {"_target_": f"{kind.__module__}.{kind.__qualname__}", **given}}
    return measure(
        Path(sys.argv[0]).stem, config, Path("outputs"), seed=given.get("seed", 1), overrides=sys.argv[1:]
    ).path
