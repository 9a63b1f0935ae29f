"""The decoder of queries against the reference system, and its search."""

import numpy as np
import pytest
import torch
from golden import others
from torch import nn

from mate_cli.papers.dt_fixup.models.tree_decoder import (
    NONE,
    DecoderSize,
    DecoderState,
    Steps,
    TreeDecoder,
)
from mate_cli.papers.dt_fixup.models.tree_search import Search, ranked_derivations
from mate_cli.papers.dt_fixup.schema.serializer import action_rows
from mate_cli.papers.dt_fixup.sql.grammar import PRODUCTIONS, TYPES, Derivation
from mate_cli.papers.dt_fixup.sql_parsing import schema_shape

SIZE = DecoderSize(action=8, type=6, state=12, attention=10, heads=8, readout=40, dropout=0.0)
THEIRS = {
    "productions.weight": "production_embed.weight",
    "types.weight": "type_embed.weight",
    "query.weight": "att_over_enc.to_q.weight",
    "key.weight": "att_over_enc.to_k.weight",
    "value.weight": "att_over_enc.to_v.weight",
    "context.weight": "att_over_enc.unifyheads.weight",
    "context.bias": "att_over_enc.unifyheads.bias",
    "attended.weight": "att_vec_linear.weight",
    "readout.0.weight": "query_vec_to_action_embed.0.weight",
    "readout.0.bias": "query_vec_to_action_embed.0.bias",
    "readout.2.weight": "query_vec_to_action_embed.2.weight",
    "readout.2.bias": "query_vec_to_action_embed.2.bias",
    "production_bias": "linear.bias",
    "pointer.weight": "column_pointer_net.src_encoding_linear.weight",
    "column_action.weight": "column_rnn_input.weight",
    "used_gate.weight": "column_mem.weight",
}


def decoder():
    torch.manual_seed(0)
    made = TreeDecoder(16, len(PRODUCTIONS), len(TYPES), SIZE).eval()
    for parameter in made.parameters():
        nn.init.normal_(parameter, std=0.4)
    made.production_bias.data[made.reduce] += 6.0  # or random weights never come to an end
    return made


def memory(made, examples=3, nodes=7, columns=6, tables=2):
    torch.manual_seed(1)
    real = torch.arange(nodes) < torch.tensor([nodes - place for place in range(examples)])[:, None]
    are_columns = torch.arange(columns) < torch.tensor([columns - place for place in range(examples)])[:, None]
    states, of_columns = torch.randn(examples, nodes, 16), torch.randn(examples, columns, 16)
    return made.memory(states, real, of_columns, are_columns), [
        schema_shape(tables, count) for count in are_columns.sum(1).tolist()
    ]


def random_derivation(schema, seed):
    random, state = np.random.default_rng(seed), Derivation(schema)
    while not state.is_complete:
        legal = state.legal()
        state = state.apply(legal[random.integers(len(legal))] if state.step < 25 else legal[-1])
    return state.actions


def test_a_step_equals_the_reference():
    values = {name: torch.from_numpy(value) for name, value in np.load(others("dtfixup_decoder_step.npz")).items()}
    made = TreeDecoder(16, 45, 16, SIZE).eval()
    lstm = {f"lstm.{kind}": f"decoder_lstm.{kind}" for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
    made.load_state_dict({own: values[f"w.{name}"] for own, name in (THEIRS | lstm).items()})
    with torch.no_grad():
        given = made.memory(values["enc"], values["enc_mask"][:, 0].bool(), values["col_enc"], ~values["col_pad_mask"])
        action, attended, parent, kind, state = values["step_input"].split([8, 10, 8, 6, 12], 1)
        gates = made.gates(torch.cat([action, parent, kind], 1))
        carried = DecoderState(values["h0"], values["c0"], attended)
        found = made.step(given, made.recurrent_weights(), gates, state, carried)
        scores = made.scores(given, found.attended[:, None], values["col_appear"].bool()[:, None])
    expected = {
        "h1": found.state,
        "c1": found.cell,
        "att": found.attended,
        "apply_rule_logprob": scores.rules[:, 0],
        "column_logprob": scores.columns[:, 0],
    }
    for name, own in expected.items():
        torch.testing.assert_close(own, values[name], atol=1e-5, rtol=1e-5)


def test_scores_of_a_derivation_do_not_depend_on_its_neighbours():
    made = decoder()
    given, schemas = memory(made)
    rows = [torch.from_numpy(action_rows(random_derivation(one, 3), one)).long() for one in schemas]
    padded = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=NONE)
    with torch.no_grad():
        together = made(given, Steps.build(*padded.unbind(-1)))
        for place, own in enumerate(rows):
            alone = made(given.at(torch.tensor([place])), Steps.build(*own[None].unbind(-1)))
            torch.testing.assert_close(together.rules[place, : len(own)], alone.rules[0])
            torch.testing.assert_close(together.columns[place, : len(own)], alone.columns[0])


def score_of(made, given, schemas, place, actions, weight):
    rows = torch.from_numpy(action_rows(actions, schemas[place])).long()[None]
    with torch.no_grad():
        scores = made(given.at(torch.tensor([place])), Steps.build(*rows.unbind(-1)))
    rules, columns = rows[0, :, 0], rows[0, :, 1]
    times = torch.arange(len(rules))
    found = scores.rules[0, times, rules.clamp(min=0)] * (rules >= 0)
    return float((found + weight * scores.columns[0, times, columns.clamp(min=0)] * (columns >= 0)).sum())


@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_a_beam_finds_legal_queries_no_worse_than_greedily(weight):
    made = decoder()
    given, schemas = memory(made)
    greedy, beam = (
        [next(iter(ranked), None) for ranked in ranked_derivations(made, given, schemas, Search(width, 100, weight))]
        for width in (1, 5)
    )
    assert any(beam)
    for place, (one, other) in enumerate(zip(greedy, beam, strict=True)):
        for found in filter(None, (one, other)):
            state = Derivation(schemas[place])
            for action in found.actions:
                assert action in state.legal()
                state = state.apply(action)
            assert state.is_complete
            assert found.score == pytest.approx(score_of(made, given, schemas, place, found.actions, weight), abs=1e-3)
        assert one is None or other.score >= one.score


def test_a_search_without_steps_finds_nothing():
    made = decoder()
    given, schemas = memory(made)
    assert ranked_derivations(made, given, schemas, Search(5, 3)) == [[], [], []]
