import numpy as np
import torch
from golden import tapas
from hypothesis import given
from hypothesis import strategies as st

from mate_cli.lit_modules.losses import correct_spans, hard_em, marginal_likelihood, span_loss

SEEDS = st.integers(0, 10_000)


def random_cells(seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(3, 7, generator=generator, dtype=torch.float64)
    mask = torch.rand(3, 7, generator=generator) < 0.8
    mask[:, 0] = True
    candidates = (torch.rand(3, 7, generator=generator) < 0.4) & mask
    return logits, mask, candidates


@given(SEEDS)
def test_gradient_is_that_of_the_marginal_likelihood(seed):
    logits, mask, candidates = random_cells(seed)
    logits.requires_grad_()
    (gradient,) = torch.autograd.grad(marginal_likelihood(logits, mask, candidates).sum(), logits)
    log_p = logits.masked_fill(~mask, -torch.inf).log_softmax(-1)
    known = candidates.any(-1)
    direct = -torch.where(candidates, log_p, -torch.inf)[known].logsumexp(-1).sum()
    (expected,) = torch.autograd.grad(direct, logits) if known.any() else (torch.zeros_like(logits),)
    torch.testing.assert_close(gradient, expected)


@given(SEEDS)
def test_one_candidate_makes_both_losses_cross_entropy(seed):
    logits, mask, candidates = random_cells(seed)
    candidates = torch.zeros_like(candidates)
    candidates[:, 0] = True
    expected = -logits.masked_fill(~mask, -torch.inf).log_softmax(-1)[:, 0]
    torch.testing.assert_close(marginal_likelihood(logits, mask, candidates), expected)
    torch.testing.assert_close(hard_em(logits, mask, candidates), expected)


def test_hard_em_follows_the_best_candidate():
    logits = torch.tensor([[3.0, 1.0, 2.0]])
    candidates = torch.tensor([[False, True, True]])
    expected = -logits.log_softmax(-1)[0, 2]
    torch.testing.assert_close(hard_em(logits, torch.ones(1, 3, dtype=torch.bool), candidates), expected[None])


def test_no_candidate_is_no_loss():
    logits, mask, _ = random_cells(0)
    logits.requires_grad_()
    none = torch.zeros_like(mask)
    for criterion in (marginal_likelihood, hard_em):
        loss = criterion(logits, mask, none)
        assert loss.tolist() == [0.0, 0.0, 0.0]
        (gradient,) = torch.autograd.grad(loss.sum(), logits)
        assert not gradient.any()


@given(st.lists(st.integers(0, 1), min_size=1, max_size=12), st.integers(1, 5))
def test_correct_spans_start_and_end_with_a_run(labels, longest):
    found = {(s, s + n) for s, n in correct_spans(torch.tensor([labels]), longest)[0].nonzero().tolist()}
    padded = [0, *labels, 0]
    starts = [i for i in range(len(labels)) if padded[i + 1] and not padded[i]]
    ends = [i for i in range(len(labels)) if padded[i + 1] and not padded[i + 2]]
    assert found == {(s, e) for s in starts for e in ends if s <= e < s + longest}


def test_span_loss_equals_the_reference():
    data = np.load(tapas("g4_losses.npz"))
    indexes, logits = data["span/span_indexes"][0], data["span/span_logits"]
    labels = torch.from_numpy(data["in/label_ids"].astype(np.int64))
    longest = int((indexes[:, 1] - indexes[:, 0]).max()) + 1
    table = torch.full((*labels.shape, longest), -1e9, dtype=torch.float64)
    table[:, indexes[:, 0], indexes[:, 1] - indexes[:, 0]] = torch.from_numpy(logits).double()
    expected = torch.tensor(float(data["span/total_loss"]), dtype=torch.float64)
    torch.testing.assert_close(span_loss(table, labels).mean(), expected, rtol=1e-4, atol=2e-5)
