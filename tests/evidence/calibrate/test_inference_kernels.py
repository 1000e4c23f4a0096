"""What engines fuse: decode attention and layers of experts are fitted, and reported only."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from costmodel.documents.reader.library import read
from costmodel.equations.kernels.roofline import decode_attention_time, slowest_part
from costmodel.equations.layers.experts import drawing_share, load_variation, rank_variation
from costmodel.evidence.calibrate.fit_from_kernels import calibrated
from costmodel.evidence.calibrate.fit_from_runs import decide
from costmodel.evidence.calibrate.measured_kernels import EXPERTS, expert_columns

NAMES = ("tokens", "hidden", "inter", "topk", "experts", "tp", "ep", "skew")
LAYERS = [
    (tokens, hidden, inter, top_k, experts, tp, ep, skew)
    for tokens in (1.0, 64.0, 1024.0, 16384.0)
    for hidden, inter, top_k, experts in ((6144.0, 2560.0, 8.0, 160.0), (4096.0, 14336.0, 2.0, 8.0))
    for tp, ep in ((1.0, 1.0), (8.0, 1.0), (1.0, 8.0), (16.0, 8.0))
    for skew in (0.0, 1.01, 1.2)
]
TRUE = {"compute_share": 0.7, "memory_share": 0.8, "hot_share": 0.4, "start": 3e-5, "passes": 4.0}


def decode_table(folder: Path) -> str:
    """Decode attention of an engine on H200, as the form gives it; two types of keys and values, three kernels."""
    lines = ["gpu,q_dtype,kv_dtype,batch,seq,heads,kv_heads,head_dim,time_us,kernel"]
    for batch, seq, heads, kv_heads in product((1, 8, 64, 512), (64, 1024, 16384), (8, 64), (1, 8)):
        readers = heads if heads / kv_heads > 32 else kv_heads
        for kv_type, width in (("bfloat16", 2), ("fp8", 1)):
            cached = 2.0 * width * batch * seq * kv_heads * 128
            reading = readers / kv_heads * cached / 4.8e12 / (0.8 if cached > 50 * 2**20 else 2.0)
            time = decode_attention_time(batch, seq, readers, 132.0, reading, 3e-6, 4e-6, 9e-6)
            lines.append(
                f"h200-sxm,bfloat16,{kv_type},{batch},{seq},{heads},{kv_heads},128,{time * 1e6:.4f},torch_flow"
            )
    (folder / "decode.csv").write_text("\n".join(lines) + "\n", "utf-8")
    return str(folder / "decode.csv")


def test_decode_attention_is_fitted_by_kernel_and_type_of_keys_and_reported_only(tmp_path: Path) -> None:
    found = calibrated([decode_table(tmp_path)])
    names = {(fit.sample.key.entry, fit.sample.key.detail) for fit in found.fits}
    assert names == {(of, f"torch_flow {kind}") for of in ("bf16", "fp8") for kind in ("grouped", "ungrouped", "wide")}
    assert not found.left_out
    for decision in decide(found, replace=True):
        assert decision.why == "reported only"
        assert decision.fit.inside.p90 < 0.02
        assert decision.fit.constants["row"] == pytest.approx(3e-6, rel=0.1)


def expert_table(folder: Path) -> str:
    """Layers of experts on H200, as the form gives them; the last row is of a distribution that no form knows."""
    table = {name: np.array(values) for name, values in zip(NAMES, zip(*LAYERS, strict=True), strict=True)}
    table["gated"] = np.ones(len(LAYERS))
    times = 1e6 * EXPERTS.time(TRUE, expert_columns(table, read("accelerator", "h200-sxm"), "bf16"))
    lines = ["gpu,dtype,tokens,hidden,inter,topk,experts,tp,ep,distribution,time_us,kernel"]
    for (*sizes, skew), time in zip(LAYERS, times, strict=True):
        law = f"power_law_{skew}" if skew else "balanced"
        lines.append(f"h200-sxm,bfloat16,{','.join(f'{size:.0f}' for size in sizes)},{law},{time:.4f},cutlass")
    lines.append("h200-sxm,bfloat16,8,6144,2560,8,160,1,1,zipf,99,cutlass")
    (folder / "moe.csv").write_text("\n".join(lines) + "\n", "utf-8")
    return str(folder / "moe.csv")


def test_fused_experts_are_fitted_and_reported_only(tmp_path: Path) -> None:
    found = calibrated([expert_table(tmp_path)])
    (decision,) = decide(found, replace=True)
    assert (decision.written, decision.why) == (False, "reported only")
    assert decision.fit.points == len(LAYERS)
    for name, value in TRUE.items():
        assert decision.fit.constants[name] == pytest.approx(value, rel=0.1), name
    assert found.left_out == {"experts under the distribution 'zipf'": 1}


def test_a_reported_form_that_misses_is_said_to(tmp_path: Path) -> None:
    path = Path(expert_table(tmp_path))
    head, *lines = path.read_text("utf-8").splitlines()[:-1]
    noise = np.exp(np.random.default_rng(3).normal(0, 1.2, len(lines)))
    wild = []
    for line, off in zip(lines, noise, strict=True):
        *cells, time, kernel = line.split(",")
        wild.append(",".join([*cells, f"{float(time) * off:.3f}", kernel]))
    path.write_text("\n".join([head, *wild]) + "\n", "utf-8")
    (decision,) = decide(calibrated([str(path)]), replace=True)
    assert decision.why == "reported only; the form does not describe it"


def test_evenly_spread_tokens_read_the_weights_of_the_experts_hit_alone() -> None:
    table = {name: np.array(values) for name, values in zip(NAMES, zip(*LAYERS, strict=True), strict=True)}
    table["gated"] = np.ones(len(LAYERS))
    columns = expert_columns(table, read("accelerator", "h200-sxm"), "bf16")
    one = LAYERS.index((1.0, 6144.0, 2560.0, 8.0, 160.0, 1.0, 1.0, 0.0))
    many = LAYERS.index((16384.0, 6144.0, 2560.0, 8.0, 160.0, 1.0, 8.0, 0.0))
    assert columns["weights"][one] == 8 * 3 * 2 * 6144 * 2560  # type: ignore[index]
    assert columns["weights"][many] == 20 * 3 * 2 * 6144 * 2560  # type: ignore[index]
    assert columns["flop"][many] == pytest.approx(2 * 16384 * 3 * 6144 * 2560, rel=0.02)  # type: ignore[index]


@pytest.mark.parametrize("routing", [(16384, 8, 160, 32), (1024, 2, 8, 8), (64, 8, 160, 8), (4096, 1, 16, 4)])
@pytest.mark.parametrize("skew", [1.01, 1.2])
def test_rows_of_the_hottest_rank_are_those_of_drawn_experts(routing: tuple[int, int, int, int], skew: float) -> None:
    """Against draws as the benchmark makes them: bounded power law, scaled to the rows there are, rounded."""
    tokens, top_k, experts, ep = routing
    random = np.random.default_rng(7)
    ends = np.array([1, 0.8 * tokens]) ** (1 - skew)
    drawn = (ends[0] + random.random((4000, experts)) * (ends[1] - ends[0])) ** (1 / (1 - skew))
    rows = np.round(drawn / drawn.sum(axis=1, keepdims=True) * tokens * top_k)
    load = np.median(rows.reshape(len(rows), ep, -1).sum(axis=2).max(axis=1)) / (tokens * top_k / ep)
    spread = slowest_part(ep, rank_variation(load_variation(tokens, top_k, experts, skew), experts, ep))
    assert float(spread) == pytest.approx(load, rel=0.3)
    assert float(drawing_share(tokens, top_k, experts, skew)) == pytest.approx(np.mean(rows > 0), abs=0.05)
