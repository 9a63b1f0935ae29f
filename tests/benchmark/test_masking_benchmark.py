"""The benchmark of masked examples, on few of them."""

from mate_cli.benchmark.masking import MaskingBenchmark


def test_both_epochs_are_measured_at_every_length(tmp_path, capsys):
    options = {"sources": ["sample"], "tokenizer": "sample", "lengths": [32, 64], "tables": 32, "batch": 8}
    (short, long) = MaskingBenchmark(tmp_path, tmp_path / "cache", **options)
    for length, found in ((32, short), (64, long)):
        speeds = [found[f"masking/{length}/{epoch}_epoch/examples_per_second"] for epoch in ("first", "later")]
        assert min(speeds) > 0
        assert 8 < found[f"masking/{length}/mean_tokens"] <= length
    assert "Masked examples made per second" in capsys.readouterr().out
