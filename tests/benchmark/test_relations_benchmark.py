"""What relations cost: figures of every variant, in shares of plain attention's."""

from mate_cli.benchmark.relations import RelationsBenchmark


def test_figures_of_every_variant():
    parts = list(RelationsBenchmark(nodes=4, examples=2, width=16, heads=2, rounds=1, seconds=5))
    figures = {name: value for part in parts for name, value in part.items()}
    assert {name.rpartition("/")[0] for name in figures} == {
        f"relations/{kind}/{name}" for kind in ("attention", "layer") for name in ("eager", "sdpa", "relations")
    }
    assert figures["relations/layer/eager/time"] == 1.0
    assert all(value >= 0 for value in figures.values())
