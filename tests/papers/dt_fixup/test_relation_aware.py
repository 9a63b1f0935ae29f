"""The network over words, columns and tables, and the task that makes queries of it."""

from dataclasses import replace

import pytest
import torch
from music_questions import examples

from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.data.loading.collate import collate
from mate_cli.errors import ConfigError
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.base.table_encoder import TaskContext
from mate_cli.models.initialization.initial_weights import Initializer, LoadReport
from mate_cli.models.layers.low_rank import freeze
from mate_cli.papers.dt_fixup.models.extra import Extra
from mate_cli.papers.dt_fixup.models.relation_aware import RelationAware
from mate_cli.papers.dt_fixup.models.schemes import mu_of
from mate_cli.papers.dt_fixup.models.tree_decoder import Scores, Steps
from mate_cli.papers.dt_fixup.models.tree_search import ScoredDerivation
from mate_cli.papers.dt_fixup.schema.relations import ACTIONS, COLUMN, NODE_KINDS, NODE_TABLES, TABLE, WORD
from mate_cli.papers.dt_fixup.schema.serializer import SchemaSerializer
from mate_cli.papers.dt_fixup.sql_parsing import ScoredSteps, SqlParsing, derivation_loss
from mate_cli.tokenization.vocabulary import load_tokenizer

SIZE = EncoderSize(24, 1, 2, 48, 128)
EXTRA = Extra(
    layers=2, width=16, heads=4, inner=32, input_dropout=0.0, dropout=0.0, attention_dropout=0.0, activation="relu"
)
DECODER = {"action_width": 8, "type_width": 8, "state_width": 32, "attention_width": 16, "readout_width": 32}


class Random(Initializer):
    def load(self, encoder, task=None):
        return LoadReport(new=tuple(encoder.state_dict()))


def without(batch, array):
    """A batch of which nobody knows one array."""
    return replace(batch, more={one: values for one, values in batch.more.items() if one is not array})


@pytest.fixture(scope="module")
def encodings():
    return SchemaSerializer(load_tokenizer("sample"), max_tokens=128).encode(examples())


def batch_of(encodings):
    return collate(encodings, reset_positions=False, max_positions=128)


def network(extra=EXTRA, **options):
    torch.manual_seed(0)
    vocabulary = load_tokenizer("sample").vocab_size
    return RelationAware(SIZE, attention=Sdpa(), vocab_size=vocabulary, extra=extra, hidden_dropout=0.0, **options)


def task(**options):
    return SqlParsing(TaskContext(network(**options)), dropout=0.0, heads=4, **DECODER)


def test_the_output_is_of_nodes(encodings):
    batch = batch_of(encodings)
    output = network().eval()(batch)
    kinds = output.batch.more[NODE_KINDS]
    assert output.states.shape == (*kinds.shape, 16)
    assert output.batch.attention_mask.sum(1).tolist() == [len(one.more[NODE_KINDS]) for one in encodings]
    words = [int((kinds[row] == WORD).sum()) for row in range(len(encodings))]
    first = [int(batch.input_ids[0, place]) for place in (1, 2)]
    assert output.batch.input_ids[0, :2].tolist() == first
    assert words[0] == 6
    assert not output.states[kinds == 0].any()


def test_an_example_does_not_know_its_batch(encodings):
    model = network().eval()
    together = model(batch_of(encodings))
    for row, encoding in enumerate(encodings):
        alone = model(batch_of([encoding])).states[0]
        torch.testing.assert_close(together.states[row, : len(alone)], alone, atol=1e-5, rtol=1e-5)


def test_columns_have_their_table_added(encodings):
    model = network(Extra(1, 16, 4, 32, "standard", "none", 0.0, 0.0, 0.0)).eval()
    for parameter in model.extra.parameters():
        parameter.data.zero_()  # the layers hand on what they are given
    nodes = model(batch_of(encodings[:1]))
    kinds, tables = nodes.batch.more[NODE_KINDS][0], nodes.batch.more[NODE_TABLES][0]
    given = torch.cat([name[None] for name in model.name_map(model.extra_inputs(batch_of(encodings[:1]))[1])])
    first = int((kinds == WORD).sum())
    for place in (kinds == COLUMN).nonzero().flatten().tolist():
        expected = given[place - first] + given[int(tables[place]) - first]
        torch.testing.assert_close(nodes.states[0, place], expected)
    for place in (kinds == TABLE).nonzero().flatten().tolist():
        torch.testing.assert_close(nodes.states[0, place], given[place - first])


def test_mu_is_measured_over_words_and_names_before_their_maps(encodings):
    model = network()
    words, names = model.extra_inputs(batch_of(encodings))
    assert (words.shape[1], names.shape[1]) == (24, 16)
    assert len(words) + len(names) == sum(len(one.more[NODE_KINDS]) for one in encodings)
    one_by_one = mu_of(model, [batch_of([one]) for one in encodings])
    assert mu_of(model, [batch_of(encodings)]) == pytest.approx(one_by_one, rel=1e-5)
    said = Random().prepare(model, [batch_of(encodings)], LoadReport())
    assert said["dt_fixup"].startswith(f"mu {one_by_one:.3g}")


def frozen(**options):
    model = network(**options)
    freeze(model, ["embeddings", "encoder"])
    return model.train()


def test_what_is_frozen_is_computed_once_and_learns_nothing(encodings, tmp_path):
    batch = batch_of(encodings)
    kept = frozen()
    kept.set_cache_folder(tmp_path)
    plain = frozen()
    torch.testing.assert_close(kept.train()(batch).states, plain(batch).states, atol=1e-2, rtol=1e-2)
    assert not kept.embeddings.training
    assert len(list(tmp_path.rglob("*.npy"))) == len(encodings)
    encode, kept._encode = kept._encode, None
    again = kept(batch_of(encodings[::-1][:2]))
    again.states.sum().backward()
    assert all(one.grad is None for part in (kept.embeddings, kept.encoder) for one in part.parameters())
    assert kept.word_map.weight.grad.any()
    kept._encode = encode
    with torch.no_grad():
        kept.embeddings.word_embeddings.weight.add_(1)
    kept(batch)
    assert len(list(tmp_path.rglob("*.npy"))) == 2 * len(encodings)
    kept(without(replace(batch, input_ids=batch.input_ids + 1), ACTIONS))  # nobody knows the queries
    assert len(list(tmp_path.rglob("*.npy"))) == 2 * len(encodings)


def test_what_is_frozen_has_no_dropout(encodings):
    model = frozen(attention_dropout=0.5)
    assert model.training
    assert not [name for name, module in model.encoder.named_modules() if module.training]
    assert not model.embeddings.training
    batch = batch_of(encodings)
    torch.testing.assert_close(model.token_states(batch), model.eval().token_states(batch), rtol=0, atol=0)
    half = network(attention_dropout=0.5)
    freeze(half, "embeddings")
    assert half.train().encoder.training


def test_encodings_without_nodes_are_refused(encodings):
    with pytest.raises(ConfigError, match="have no nodes"):
        network()(without(batch_of(encodings), NODE_KINDS))


def test_the_loss_is_that_of_every_action(encodings):
    own = task()
    batch = batch_of(encodings)
    scored = own.head(own.encoder(batch))
    found = derivation_loss(scored, 0.2)
    for row, encoding in enumerate(encodings):
        expected, columns = 0.0, int((encoding.more[NODE_KINDS] == COLUMN).sum())
        for step, (rule, column, *_) in enumerate(encoding.more[ACTIONS].tolist()):
            rules, chosen = scored.scores.rules[row, step], scored.scores.columns[row, step, :columns]
            expected -= rules[rule] if rule >= 0 else 0.8 * chosen[column] + 0.2 * chosen.mean()
        torch.testing.assert_close(found[row], expected)


def test_columns_share_among_those_of_their_own_schema():
    """Schemas of one and of three columns in one batch; the share of a padded column counts nowhere."""
    columns = torch.tensor([[True, False, False], [True, True, True]])
    scores = Scores(torch.zeros(2, 1, 1), torch.tensor([[[-1.0, -50.0, -50.0]], [[-1.0, -2.0, -3.0]]]))
    steps = Steps(torch.full((2, 1), -1), torch.tensor([[0], [2]]), frontier=None)
    found = derivation_loss(ScoredSteps(steps, scores, columns), 0.2)
    torch.testing.assert_close(found, torch.tensor([1.0, 0.8 * 3.0 + 0.2 * 2.0]))


@pytest.mark.trains
@pytest.mark.long
def test_it_learns_its_questions_by_heart_with_24_layers(encodings):
    torch.manual_seed(0)
    wider = DECODER | {"state_width": 64, "attention_width": 32, "readout_width": 64, "action_width": 16}
    encoder = network(extra=replace(EXTRA, layers=24, width=32, inner=64))
    own = SqlParsing(TaskContext(encoder), smoothing=0.0, dropout=0.0, heads=4, **wider)
    batch, known = batch_of(encodings), {one.example_id: one for one in examples()}
    Random().prepare(own.encoder, [batch], LoadReport())
    optimizer = torch.optim.Adam(own.parameters(), lr=3e-3)
    for _ in range(240):
        optimizer.zero_grad()
        own.loss(batch).backward()
        torch.nn.utils.clip_grad_norm_(own.parameters(), 5.0)
        optimizer.step()
    own.eval()
    scores = own.score(own.predict(batch), known)
    assert scores["exact_set_match"] == scores["exact_set_match/easy"] == 1.0
    assert scores["sketch_error"] == 0.0


def test_predictions_become_sql_and_scores(encodings):
    own = task().eval()
    known = {one.example_id: one for one in examples()}
    predictions = own.predict(batch_of(encodings))
    right = [
        replace(one, derivations=(ScoredDerivation(known[one.example_id].actions, 0.0),)) for one in predictions[:3]
    ]
    assert own.answers(right, known)["0"] == "SELECT count(*) FROM singer"
    assert all(own.is_correct(one, known[one.example_id]) for one in right)
    scores = own.score([*right, replace(predictions[3], derivations=())], known)
    assert scores["exact_set_match"] == pytest.approx(3 / 5)
    assert scores["column_and_sketch_error"] == pytest.approx(2 / 5)
    assert own.skip_reason(replace(known["0"], actions=None)) == "a query that the grammar cannot make"


@pytest.mark.parametrize("scheme", ["standard", "dt_fixup"])
def test_without_new_layers_the_output_is_what_the_encoder_says(encodings, scheme):
    model = network(replace(EXTRA, layers=0, scheme=scheme)).eval()
    batch = batch_of(encodings)
    output = model(batch)
    assert output.states.shape == (*output.batch.more[NODE_KINDS].shape, 16)
    assert not [name for name, _ in model.named_parameters() if name.startswith("extra.")]
    assert model.extra.prepare(model, [batch], lambda measure: measure()) == {}
    words, names = model.extra_inputs(batch)
    assert len(words) + len(names) == int((output.batch.more[NODE_KINDS] > 0).sum())
    is_word = output.batch.more[NODE_KINDS] == WORD
    torch.testing.assert_close(output.states[is_word], model.word_map(words))
