"""SAT: against google-research/tapas, and what reaches what through its layers."""

import pytest
import torch
from batches import batch_from, exact_backends
from test_encoder_golden import SIZE as GOLDEN_SIZE
from test_encoder_golden import check, network

from mate_cli.attention.backends.eager import Eager
from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.attention.patterns.full import Full
from mate_cli.attention.patterns.same_row_or_column import SameRowOrColumn
from mate_cli.attention.patterns.sat import SatLayer
from mate_cli.attention.plan import AttentionPlan
from mate_cli.errors import ConfigError
from mate_cli.models.mate import Mate
from mate_cli.models.sat import Sat, WithPattern
from mate_cli.models.sizes import EncoderSize
from mate_cli.models.table_encoder import TableEncoder

BACKENDS = exact_backends(SameRowOrColumn(GOLDEN_SIZE.num_heads))


def table(rows=3, columns=3, question=2):
    """Int [1, T] ids of a question, a header and one token in every cell."""
    cells = [(0, 0, 0)] * question
    cells += [(1, row, column) for row in range(rows + 1) for column in range(1, columns + 1)]
    segments, row_ids, column_ids = ([[cell[i] for cell in cells]] for i in range(3))
    return batch_from(row_ids, column_ids, segments, [[1] * len(cells)], input_ids=[range(1, len(cells) + 1)])


def make(variant, layers=1, **options):
    torch.manual_seed(0)
    return Sat(EncoderSize(16, layers, 2, 32, 40), attention=Sdpa(), vocab_size=50, variant=variant, **options).eval()


def reached(model, batch, token):
    """Which tokens' states change with the word of one token."""
    words = batch.input_ids.clone()
    words[:, token] = 49
    changed = batch_from(batch.row_ids, batch.column_ids, batch.segment_ids, batch.attention_mask, input_ids=words)
    with torch.no_grad():
        difference = model(changed).states - model(batch).states
    return difference.abs().amax(-1)[0] > 1e-7


@pytest.mark.parametrize("name", BACKENDS)
def test_the_tapas_variant_is_the_reference(name):
    check("same", network(Sat, BACKENDS[name]), reset=False)


@pytest.mark.parametrize("variant", ["tapas", "original"])
def test_one_layer_carries_news_where_its_mask_lets_it(variant):
    model, batch = make(variant), table()
    for token in range(batch.input_ids.shape[1]):
        seen = model.pattern.mask(batch)[0, 0, :, token]
        assert torch.equal(reached(model, batch, token), seen)


def test_lower_layers_see_rows_and_upper_layers_columns_too():
    batch = table(question=0)
    cell, below = 2 * 3, 3 * 3  # the first cells of the second and the third row
    two = make("original", layers=2)
    assert reached(two, batch, cell)[below]
    two.encoder.layer = two.encoder.layer[:1]
    assert reached(two, batch, cell).nonzero().flatten().tolist() == [cell, cell + 1, cell + 2]


@pytest.mark.parametrize(("layers", "lower"), [(1, 0), (2, 1), (3, 1), (12, 6)])
def test_the_lower_half_is_the_first(layers, lower):
    model = make("original", layers)
    own = [layer.attention["self"].backend.__class__.__name__ for layer in model.encoder.layer]
    assert own == ["WithPattern"] * lower + ["Sdpa"] * (layers - lower)


@pytest.mark.parametrize("backend", [Eager(), Sdpa()], ids=["eager", "sdpa"])
def test_each_half_has_its_own_plan(backend):
    torch.manual_seed(1)
    size, batch = EncoderSize(16, 4, 2, 32, 40), table()
    model = Sat(size, attention=backend, vocab_size=50, variant="original").eval()
    plain = TableEncoder(size, Full(2), attention=backend, vocab_size=50).eval()
    plain.load_state_dict(model.state_dict())
    plans = [AttentionPlan(SatLayer(2, columns=columns), batch) for columns in (False, False, True, True)]
    states = model.embeddings(batch, plans[0].packing)
    for layer, plan in zip(plain.encoder.layer, plans, strict=True):
        states = layer(states, plan, None)
    torch.testing.assert_close(model(batch).states[0], states)
    torch.testing.assert_close(model(model.planner(batch)).states[0], states)


def test_what_a_half_prepares_goes_with_the_batch():
    class Notes(Sdpa):
        def prepare(self, plan):
            plan.derive("note", lambda plan: plan.pattern)

    lower = SatLayer(2, columns=False)
    plan = AttentionPlan(SatLayer(2, columns=True), table())
    WithPattern(Notes(), lower).prepare(plan)
    assert plan.derived[lower, "note"] is lower


def test_the_original_embeds_no_rows_columns_or_ranks():
    batch = table()
    shifted = batch_from(
        batch.row_ids,
        batch.column_ids,
        batch.segment_ids,
        batch.attention_mask,
        input_ids=batch.input_ids,
        column_ranks=batch.row_ids,
        numeric_relations=batch.row_ids,
    )
    for variant, same in (("original", True), ("tapas", False)):
        model = make(variant)
        with torch.no_grad():
            assert torch.equal(model(batch).states, model(shifted).states) == same
    model = make("original")
    before = model(batch).states
    with torch.no_grad():
        model.embeddings.token_type_embeddings_1.weight.normal_()
    assert torch.equal(model(batch).states, before)
    before[..., 0].sum().backward()
    assert not model.embeddings.token_type_embeddings_2.weight.grad.any()
    assert model.embeddings.token_type_embeddings_0.weight.grad.any()


def test_it_has_the_parameters_of_the_others():
    mate = Mate(EncoderSize(16, 1, 2, 32, 40), attention=Sdpa(), vocab_size=50)
    for variant in ("tapas", "original"):
        assert make(variant).state_dict().keys() == mate.state_dict().keys()


def test_messages():
    with pytest.raises(ConfigError, match="Use tapas or original"):
        make("TAPAS")

    class Refuses(Sdpa):
        def supports(self, pattern, dropout=0.0):
            if not getattr(pattern, "columns", True):
                raise ConfigError("no", where="attention", remedy="other")

    with pytest.raises(ConfigError, match="other"):
        Sat(EncoderSize(16, 2, 2, 32), attention=Refuses(), vocab_size=50, variant="original")
