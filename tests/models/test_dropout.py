import pytest
import torch

from mate_cli.models.layers.encoder import FastDropout

SIZE = (333, 301)


def drop(p, dtype=torch.float32, seed=1):
    torch.manual_seed(seed)
    states = torch.full(SIZE, 2.0, dtype=dtype, requires_grad=True)
    dropped = FastDropout(p).train()(states)
    dropped.backward(torch.ones_like(dropped))
    return dropped.detach(), states.grad


@pytest.mark.parametrize("p", [0.003, 0.1, 0.5, 0.9])
def test_a_share_of_p_is_dropped_and_the_mean_stays(p):
    dropped, gradient = drop(p)
    sigma = (p * (1 - p) / dropped.numel()) ** 0.5
    assert (dropped == 0).float().mean().item() == pytest.approx(p, abs=4 * sigma + 1e-5)
    assert dropped.max().item() == pytest.approx(2 / (1 - p), rel=1e-3)
    assert torch.equal(2 * gradient, dropped)


def test_rows_columns_and_neighbours_are_dropped_alike():
    kept = (drop(0.5)[0] != 0).float()
    assert (kept.mean(0) - 0.5).abs().max() < 5 * 0.5 / SIZE[0] ** 0.5
    assert (kept.mean(1) - 0.5).abs().max() < 5 * 0.5 / SIZE[1] ** 0.5
    flat = kept.flatten() - 0.5
    for distance in (1, 2, 3, 4, 8):
        assert (flat[distance:] * flat[:-distance]).mean().abs() < 5 * 0.25 / flat.numel() ** 0.5


def test_the_seed_decides_whatever_the_number_of_threads():
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        first = drop(0.1)[0]
        torch.set_num_threads(2)
        assert torch.equal(drop(0.1)[0], first)
        assert not torch.equal(drop(0.1, seed=2)[0], first)
    finally:
        torch.set_num_threads(threads)


def test_the_type_stays_and_nothing_is_dropped_in_evaluation():
    assert drop(0.1, torch.bfloat16)[0].dtype == torch.bfloat16
    states = torch.randn(SIZE).t()
    assert FastDropout(0.1).eval()(states) is states
    assert FastDropout(0.0).train()(states).equal(states)
    assert FastDropout(0.1).train()(states).shape == states.shape
