"""Renew the record of what every experiment and sweep resolves to, tests/cli/resolved/; git diff shows the change.

PYTHONPATH=.:tests python tools/record_resolved_values.py
"""

import composed_once
import resolved_values

if __name__ == "__main__":
    composed_once.install()
    resolved_values.write_records()
