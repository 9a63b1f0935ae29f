"""Linformer: against lucidrains's and google-research/tapas's numbers, in its limit cases, and without leaks."""

import numpy as np
import pytest
import torch
from batches import batch_from
from golden import others
from largest_tensor import LargestTensor
from safetensors.torch import save_file
from test_encoder_golden import CONFIG, OUTPUTS, WEIGHTS, batch, torch_name
from test_encoder_golden import SIZE as GOLDEN_SIZE

from mate_cli.attention.backends.eager import Eager
from mate_cli.attention.backends.sdpa import Sdpa
from mate_cli.attention.base import AttentionPlan
from mate_cli.attention.patterns import Full
from mate_cli.errors import CheckpointError, ConfigError
from mate_cli.models.base.sizes import EncoderSize
from mate_cli.models.initialization.initial_weights import InitialWeights
from mate_cli.models.linformer import Linformer, MixedAttention, Mixer
from mate_cli.models.tapas import Tapas

SIZE = EncoderSize(16, 2, 4, 32, 40)
SHARING = pytest.mark.parametrize("sharing", ["headwise", "key_value", "layerwise"])


def make(sharing="key_value", length=24, slots=4, size=SIZE, seed=0, **options):
    torch.manual_seed(seed)
    options = {"vocab_size": 50, **options}
    return Linformer(size, attention=Sdpa(), length=length, slots=slots, sharing=sharing, **options).eval()


def flat(*lengths, total=None):
    """A batch of question tokens; padding up to `total` has words too, which nobody may read."""
    total = total or max(lengths)
    places = np.arange(total)
    words = np.random.default_rng(0).integers(1, 50, (len(lengths), 4096))[:, :total]
    zero, mask = np.zeros_like(words), places < np.array(lengths)[:, None]
    return batch_from(zero, zero, zero, mask, input_ids=words, position_ids=places + zero)


def mixer(keys, values=None):
    """A mixer of these weights, [k, n] each."""
    made = Mixer(keys.shape[1], keys.shape[0], shared=values is None)
    made.load_state_dict({"keys": keys} | ({} if values is None else {"values": values}))
    return made


GOLDEN = ["plain", "share_kv", "one_kv_head", "one_kv_head_share_kv", "identity_limit"]


def reference_layer(golden, x, lengths):
    """The layer of a golden file computed by our attention, with padding after `lengths`."""

    def heads(name):
        states = x @ golden[f"w.{name}.weight"].T
        return states.unflatten(-1, (-1, 4)).expand(-1, -1, 4, -1)

    key = heads("to_k")
    value = heads("to_v") if "w.to_v.weight" in golden else key
    plan = AttentionPlan(Full(4), flat(*lengths, total=x.shape[1]))
    qkv = plan.packing.pack(torch.stack([heads("to_q"), key, value], dim=2))
    mixing = [golden[f"w.{name}"].T for name in ("proj_k", "proj_v") if f"w.{name}" in golden]
    output = plan.packing.unpack(MixedAttention(mixer(*mixing)).forward(qkv, plan)).flatten(2)
    return output @ golden["w.to_out.weight"].T + golden["w.to_out.bias"]


@torch.no_grad()
@pytest.mark.parametrize("name", GOLDEN)
def test_the_layer_equals_another_implementation(name):
    golden = {key: torch.from_numpy(array) for key, array in np.load(others(f"linformer_{name}.npz")).items()}
    close = {"atol": 1e-5, "rtol": 1e-5}
    x = golden["x"]
    torch.testing.assert_close(reference_layer(golden, x, (12, 12)), golden["out"], **close)
    if name == "identity_limit":
        torch.testing.assert_close(golden["out"], golden["dense"], **close)
        return
    short = golden["out_short9"]
    torch.testing.assert_close(reference_layer(golden, x[:, :9], (9, 9)), short, **close)
    fives = torch.where((torch.arange(12) < 9)[:, None], x, 5.0)
    torch.testing.assert_close(reference_layer(golden, fives, (9, 9))[:, :9], short, **close)
    torch.testing.assert_close(reference_layer(golden, fives, (12, 12)), golden["out_pad_five"], **close)
    assert (golden["out_pad_five"][:, :9] - short).abs().max() > 0.1


def test_the_network_equals_the_reference():
    options = {"vocab_size": CONFIG["vocab_size"], "activation": "gelu_new"}
    model = make(length=32, slots=8, size=GOLDEN_SIZE, **options)
    state = {}
    for name in WEIGHTS.files:
        weight = torch.from_numpy(WEIGHTS[name].T if name.endswith("kernel") else WEIGHTS[name])
        if "proj_seq_length" in name:
            state[f"mixers.{name.split('layer_')[1][0]}.keys"] = weight
        elif "relative_bias" not in name:
            state[torch_name(name)] = weight
    model.load_state_dict(state)
    given = batch(reset=False)
    with torch.no_grad():
        output = model(given)
    real = given.attention_mask == 1
    assert not real.all()
    expected = torch.from_numpy(OUTPUTS["linformer_k8/layer1"])
    torch.testing.assert_close(output.states[real], expected[real], atol=2e-5, rtol=1e-4)
    pooled = torch.from_numpy(OUTPUTS["linformer_k8/pooled"])
    torch.testing.assert_close(output.pooled, pooled, atol=2e-5, rtol=1e-4)


@SHARING
def test_with_the_identity_it_is_full_attention(sharing):
    model, given = make(sharing, length=12, slots=12), flat(12, 7)
    dense = Tapas(SIZE, attention=Eager(), vocab_size=50).eval()
    dense.load_state_dict({n: t for n, t in model.state_dict().items() if not n.startswith("mixers")})
    with torch.no_grad():
        for weight in model.mixers.parameters():
            weight.copy_(torch.eye(12))
    torch.testing.assert_close(model(given).states[0], dense(given).states[0], atol=1e-5, rtol=1e-5)
    # The second example is shorter: its five unused slots hold zeros, which are attended to.
    assert not torch.allclose(model(given).states[1, :7], dense(given).states[1, :7], atol=1e-3)


def test_layers_share_one_mixer_and_its_gradient():
    model = make("layerwise")
    model(flat(10)).states[..., 0].sum().backward()
    assert model.mixers[0].keys.grad.any()
    backends = [layer.attention["self"].backend for layer in model.encoder.layer]
    assert all(backend.mixer is model.mixers[0] for backend in backends)


def largest(model, tokens):
    given = flat(tokens)
    with LargestTensor() as mode:
        model.train()(given).states.square().mean().backward()
    return mode.numel


def test_memory_grows_with_the_length_and_not_with_its_square():
    """With dropout the attention weights are stored, n times k of them; those of full attention are n times n."""
    lengths = (512, 1024, 2048)
    size = EncoderSize(16, 1, 4, 32, 40)
    linear = [largest(make(length=2048, slots=64, size=size), tokens) for tokens in lengths]
    dense = [largest(Tapas(size, attention=Eager(), vocab_size=50), tokens) for tokens in lengths[:2]]
    assert linear[1] <= 2 * linear[0]
    assert linear[2] == 2 * linear[1]
    assert dense[1] == 4 * dense[0]


@pytest.mark.parametrize("checkpointing", [False, True])
def test_bfloat16_and_float16_stay_near(checkpointing):
    model, given = make(gradient_checkpointing=checkpointing), flat(20, 13)
    expected = model(given).states
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", dtype):
            got = model(given).states
            got[..., 0].sum().backward()
        torch.testing.assert_close(got.float(), expected, atol=0.05, rtol=0.05)
        assert all(p.grad.isfinite().all() for p in model.mixers.parameters())


def test_keys_begin_at_their_own_scale():
    keys = torch.randn(2, 4, 2048, 8, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    mixed, _ = Mixer(2048, 256, shared=True)(keys, keys)
    assert 0.8 < mixed.std() < 1.1


@SHARING
def test_weights_of_bert_leave_only_the_mixers_new(tmp_path, sharing):
    dense = Tapas(SIZE, attention=Sdpa(), vocab_size=50)
    save_file(dense.state_dict(), tmp_path / "model.safetensors")
    model = make(sharing)
    report = InitialWeights("path", str(tmp_path)).load(model)
    assert all(name.startswith("mixers.") for name in report.new)
    assert not report.unused
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    again = make(sharing, seed=1)
    assert not InitialWeights("path", str(tmp_path)).load(again).new
    assert torch.equal(model(flat(10)).states, again(flat(10)).states)


@pytest.mark.parametrize("other", [{"length": 25}, {"slots": 5}])
def test_weights_of_another_length_are_refused(tmp_path, other):
    save_file(make(**other).state_dict(), tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"\(4, 24\).*encoding.max_tokens and model.slots"):
        InitialWeights("path", str(tmp_path)).load(make())


def test_the_longest_input_is_known_before_training():
    assert make(length=24).max_tokens == 24
    assert Tapas(SIZE, attention=Sdpa(), vocab_size=50).max_tokens is None


def test_messages():
    with pytest.raises(ConfigError, match="25 tokens, this Linformer has a length of 24"):
        make()(flat(25))
