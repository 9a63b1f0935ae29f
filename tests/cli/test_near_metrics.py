"""The metrics that are offered for one that no run has."""

import pytest

from mate_cli.reports.compare.report import near_metrics

KNOWN = {
    f"{split}/{name}{part}" for split in ("dev", "test") for name in ("em", "f1", "hits@1") for part in ("", "/table")
}


@pytest.mark.parametrize(
    ("asked", "first"),
    [
        ("test/em2", "test/em"),
        ("em", "dev/em or test/em"),
        ("dev/hit@1", "dev/hits@1"),
        ("test/f1/tabel", "test/f1/table"),
    ],
)
def test_near_ones_are_offered(asked, first):
    said = near_metrics(asked, KNOWN)
    assert said.startswith(f"Did you mean {first}")
    assert said.count(" or ") <= 2


def test_of_a_name_like_none_all_are_listed_but_those_of_subsets():
    assert near_metrics("zzz", KNOWN) == "Choose from dev/em, dev/f1, dev/hits@1, test/em, test/f1, test/hits@1"
