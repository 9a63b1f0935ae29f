"""Renew the record of what every experiment and sweep resolves to, tests/cli/resolved/; git diff shows the change.

PYTHONPATH=.:tests python tools/record_resolved_values.py
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import composed_once
import resolved_values

if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        composed_once.install(Path(folder))
        resolved_values.write_records()
