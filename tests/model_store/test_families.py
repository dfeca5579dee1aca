"""Every family against golden logits of PyTorch transformers, on every backend, in prefill and cached steps."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import backends
from backends import Session
from backends.decoder import Decoder
from model_store import families
from model_store.checkpoint.checkpoint import Checkpoint
from model_store.checkpoint.rope import rope
from model_store.errors import UnsupportedCheckpoint
from support.arrays import near
from support.checkpoints import HERE, ROOT
from support.golden_logits import CASES, GOLDEN, TOLERANCE, GoldenSession, cases_of, golden, open_case

WAYS = [(case, backend) for case in CASES for backend in ("reference", *HERE) if case in cases_of(backend)]


@pytest.mark.parametrize(("case", "backend"), WAYS, scope="class")
class TestLogits:
    @pytest.fixture
    def session(self, case: str, backend: str, golden_session: GoldenSession) -> Session:
        return golden_session(case, backend)

    def test_prefill_and_cached_steps(self, case: str, session: Session) -> None:
        tokens, logits = golden(case)
        assert session.forward(tokens[:1, :16], last=16) == near(logits[:1, :16], abs=TOLERANCE)
        for i in range(16, 24):
            assert session.forward(tokens[:1, i : i + 1]) == near(logits[:1, i : i + 1], abs=TOLERANCE)

    def test_three_rows(self, case: str, session: Session) -> None:
        tokens, logits = golden(case)
        assert session.forward(tokens[:, :16], last=2) == near(logits[:, 14:16], abs=TOLERANCE)
        assert session.forward(tokens[:, 16:17]) == near(logits[:, 16:17], abs=TOLERANCE)
        assert session.forward(tokens[:, 17:20], last=2) == near(logits[:, 18:20], abs=TOLERANCE)

    def test_rewind_then_a_chunk(self, case: str, session: Session) -> None:
        tokens, logits = golden(case)
        session.forward(np.roll(tokens[:1, :20], 7, axis=1)[:, :5])
        session.rewind(0)
        session.forward(tokens[:1, :20])
        session.rewind(11)
        assert session.forward(tokens[:1, 11:15], last=4) == near(logits[:1, 11:15], abs=TOLERANCE)

    def test_rows_share_a_prefix_and_are_reordered(self, case: str, session: Session) -> None:
        tokens, logits = golden(case)
        session.forward(tokens[2:, :12])
        session.reorder([0, 0])
        for i in range(12, 16):
            steps = session.forward(tokens[[2, 1], i : i + 1]).copy()
        assert steps[0] == near(logits[2, 15:16], abs=TOLERANCE)
        session.reorder([1, 0, 0])
        steps = session.forward(tokens[[2, 2, 2], 16:17]).copy()
        assert steps[1:] == near(logits[[2, 2], 16:17], abs=TOLERANCE)
        session.reorder([2])
        assert session.forward(tokens[2:, 17:18]) == near(logits[2:, 17:18], abs=TOLERANCE)
        session.rewind(0)
        mixed = np.concatenate([tokens[2, :12], tokens[1, 12:16], tokens[2, 16:17]])[None]
        assert session.forward(mixed) == near(steps[:1], abs=TOLERANCE)

    def test_the_context_is_not_overrun(self, case: str, session: Session) -> None:
        tokens, logits = golden(case)
        full = np.resize(tokens[:1], (1, session.context_length - 1))
        session.forward(full)
        with pytest.raises(backends.ContextExceeded, match="do not fit the context"):
            session.forward(tokens[:1, :2])
        session.rewind(0)
        assert session.forward(tokens[:1, :4]) == near(logits[:1, 3:4], abs=TOLERANCE)


@pytest.mark.parametrize("backend", ["reference", *HERE])
def test_positions_that_no_table_ends_are_right_far_from_the_start(backend: str, tmp_path: Path) -> None:
    arrays = np.load(GOLDEN / "bloom" / "golden.npz")
    tokens, logits = arrays["long_tokens"], arrays["long_logits"]
    session = open_case("bloom", backend, tmp_path)
    assert session.forward(tokens[:, :290], last=290) == near(logits[:, :290], abs=TOLERANCE)
    for i in range(290, 300):
        assert session.forward(tokens[:, i : i + 1]) == near(logits[:, i : i + 1], abs=TOLERANCE)


@pytest.mark.parametrize("backend", ["reference", *HERE])
def test_impossible_calls_are_refused_and_change_nothing(backend: str, tmp_path: Path) -> None:
    session = open_case("llama", backend, tmp_path)
    tokens, logits = golden("llama")
    session.forward(tokens[:1, :10])
    impossible: list[Callable[[], object]] = [
        lambda: session.rewind(11),
        lambda: session.rewind(-1),
        lambda: session.reorder([1]),
        lambda: session.reorder([]),
        lambda: session.forward(tokens[:2, :1]),
        lambda: session.forward(tokens[:1, :0]),
        lambda: session.forward(tokens[:1, :2], last=3),
    ]
    for call in impossible:
        with pytest.raises(backends.BackendError):
            call()
    assert session.forward(tokens[:1, 10:11]) == near(logits[:1, 10:11], abs=TOLERANCE)


def decoder_of(case: str) -> Decoder:
    config = Checkpoint(GOLDEN / case).config
    return families.find(config).decoder(config)


def test_dynamic_scaling_leaves_the_trained_context_alone() -> None:
    config = {"rope_theta": 10_000.0, "max_position_embeddings": 64}
    dynamic = {**config, "rope_scaling": {"type": "dynamic", "factor": 4.0}}
    assert rope(dynamic, 16) == rope(config, 16)


def test_rope_scaling_is_read_from_old_and_new_fields() -> None:
    config = dict(Checkpoint(GOLDEN / "llama-tied_scaled").config)
    parameters = config.pop("rope_parameters")
    theta = parameters.pop("rope_theta")
    old = {**config, "rope_theta": theta, "rope_scaling": parameters}
    assert families.find(old).decoder(old) == decoder_of("llama-tied_scaled")


PARTIAL = {"partial_rotary_factor": 0.5, "rotary_pct": 0.5, "rotary_dim": 8}
THETA = {"rotary_emb_base": 77.0}
SCALED = {"rope_theta": 77.0, "rope_scaling": {"rope_type": "linear", "factor": 3.0}}
SCORES = {"scale_attn_weights": False, "scale_attn_by_inverse_layer_idx": True}
UNREAD: dict[str, dict[str, object]] = {
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3", "starcoder2", "smollm3", "gemma2"), {**PARTIAL, **THETA}),
    "gemma": {**PARTIAL, "hidden_activation": "relu"},
    "gemma2": {**PARTIAL, "hidden_act": "relu"},
    "gemma3_text": {**PARTIAL, "hidden_act": "relu", "attn_logit_softcapping": 2.0},
    "phi": {"rotary_pct": 0.25, "rotary_dim": 4},
    "phi3": {"rotary_pct": 0.25, "rotary_dim": 4},
    "gpt_neox": {"rotary_dim": 8, "rope_theta": 77.0},
    "gptj": {**SCALED, **SCORES, "partial_rotary_factor": 0.75},
    "codegen": {**SCALED, **SCORES},
    "gpt_bigcode": {"scale_attn_by_inverse_layer_idx": True},
}
"""Fields that other families have, and that transformers does not read in these."""


@pytest.mark.parametrize("case", UNREAD)
def test_fields_of_other_families_change_nothing(case: str) -> None:
    config = {**Checkpoint(GOLDEN / case).config, "rope_parameters": None}
    assert families.find(config).decoder({**config, **UNREAD[case]}) == families.find(config).decoder(config)


def test_of_old_and_new_fields_for_the_same_scaling_the_old_ones_count() -> None:
    config = {"max_position_embeddings": 64, "rope_theta": 50.0}
    old, new = {"type": "linear", "factor": 3.0}, {"rope_type": "linear", "factor": 5.0, "rope_theta": 7.0}
    both = rope({**config, "rope_scaling": old, "rope_parameters": new}, 16)
    assert both == rope({**config, "rope_scaling": old}, 16) != rope({**config, "rope_parameters": new}, 16)


@pytest.mark.parametrize(
    "fields",
    [
        {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 5.0}}},
        {"rope_scaling": {"rope_type": "linear", "factor": 2.0}, "partial_rotary_factor": 0.5},
    ],
)
def test_positions_that_transformers_cannot_compute_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(UnsupportedCheckpoint, match="rotary positions .* not supported here"):
        rope({"max_position_embeddings": 64, **fields}, 16)


@pytest.mark.parametrize("case", CASES)
def test_the_sequences_reach_past_every_window(case: str) -> None:
    windows = [layer.window for layer in decoder_of(case).layers]
    assert max(windows) < 16  # tokens of the prefill, after which 8 follow


def test_the_manual_tells_every_family_and_its_lines() -> None:
    manual = (ROOT / "docs" / "models.md").read_text("utf-8")
    told = dict(re.findall(r"^\| ([\w-]+) \| .+ \| (\d+) \|$", manual, re.MULTILINE))
    folder = ROOT / "model_store" / "families"
    lines = {
        name: len((folder / f"{name.replace('-', '_')}.py").read_text("utf-8").splitlines())
        for name in families.names()
    }
    assert {name: int(count) for name, count in told.items()} == lines


@pytest.mark.parametrize(
    ("case", "field"),
    [
        ("afmoe", "num_shared_experts"),
        ("deepseek_v2", "n_shared_experts"),
        ("ernie4_5_moe", "moe_num_shared_experts"),
        ("glm4_moe", "n_shared_experts"),
    ],
)
def test_a_mixture_may_have_no_expert_for_all_tokens(case: str, field: str) -> None:
    for count in 0, 1:
        config = {**Checkpoint(GOLDEN / case).config, field: count}
        experts = families.find(config).decoder(config).experts
        assert experts and experts.shared == bool(count)
