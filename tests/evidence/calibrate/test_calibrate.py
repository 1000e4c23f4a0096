"""Calibrate: constants are recovered, the same input gives the same file, comments survive."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.documents.reader.library import read
from costmodel.documents.text.yaml_editor import document_text, rewritten
from costmodel.equations.kernels.flop import attention_flop, matmul_flop
from costmodel.equations.kernels.memory_traffic import attention_traffic, matmul_bytes
from costmodel.equations.network.collectives import wire_bytes
from costmodel.evidence.calibrate import regression
from costmodel.evidence.calibrate.fit_from_kernels import beside, calibrated, calibration, soundness
from costmodel.evidence.calibrate.fit_from_runs import decide, updated_document
from costmodel.evidence.calibrate.kernel_fits import ALL_REDUCE, ATTENTION, BACKWARD, COLLECTIVE, MATMUL
from costmodel.evidence.calibrate.regression import DRAWS, FittedForm, error_of, fitted, held_out, second_half
from costmodel.exchange.tables.kernel_table import read_timings
from evidence.measured import write

ROOT = Path(__file__).resolve().parents[3]
SAMPLES = Path(__file__).parents[1] / "measured"
GEMM, NCCL = str(SAMPLES / "gemm.csv"), str(SAMPLES / "all_reduce_perf.txt")
SHAPES = np.array(list(product((1.0, 64.0, 1024.0, 8192.0), (4096.0, 14336.0, 28672.0), (4096.0, 8192.0)))).T
MESSAGES = np.array(list(product((2.0, 4.0, 8.0), 8192.0 * 4.0 ** np.arange(10)))).T
PREFILL = np.array(list(product((1.0, 8.0), (512.0, 2048.0, 8192.0, 16384.0), (8.0, 32.0), (1.0, 4.0, 8.0)))).T


def columns_of(form: FittedForm) -> dict[str, Any]:
    """Shapes over which every constant of the form matters."""
    if form is MATMUL:
        m, n, k = SHAPES
        flop, nbytes = matmul_flop(m, n, k), matmul_bytes(m, n, k, 2.0, 2.0)
        return {"flop": flop, "nbytes": nbytes, "peak": 989.4e12, "bandwidth": 4.8e12}
    if form in (COLLECTIVE, ALL_REDUCE):
        ranks, size = MESSAGES
        operation = "all_reduce" if form is ALL_REDUCE else "all_gather"
        return {"ranks": ranks, "wire": wire_bytes(size, ranks, operation=operation), "link": 450e9}
    batch, sequence, heads, kv_heads = PREFILL
    head_dim = np.full_like(batch, 128.0)
    return {
        "flop": attention_flop(batch, sequence, heads, head_dim, causal=True),
        "nbytes": attention_traffic(batch, sequence, heads, 0.0, head_dim, 2.0),
        "cached": attention_traffic(batch, sequence, 0.0, kv_heads, head_dim, 2.0),
        "batch": batch,
        "heads": heads,
        "kv_heads": kv_heads,
        "sequence": sequence,
        "head_dim": head_dim,
        "units": 132.0,
        "peak": 989.4e12,
        "bandwidth": 4.8e12,
    }


def first(columns: dict[str, Any], count: int) -> dict[str, Any]:
    """The first rows of the columns."""
    return {name: value[:count] if isinstance(value, np.ndarray) else value for name, value in columns.items()}


DRAWN = {
    MATMUL.title: st.tuples(
        st.floats(0.4, 0.9), st.floats(0.5, 0.95), st.floats(5e-6, 2e-5), st.floats(1.2, 4.0), st.integers(0, 99)
    ),
    COLLECTIVE.title: st.tuples(
        st.floats(3e-6, 2e-5),
        st.floats(5e-7, 4e-6),
        st.floats(0.4, 0.95),
        st.floats(0.6, 2.0),
        st.floats(0.2, 0.9),
        st.integers(0, 99),
    ),
    ATTENTION.title: st.tuples(
        st.floats(0.3, 0.8),
        st.floats(0.1, 0.6),
        st.floats(5e-6, 4e-5),
        st.floats(48.0, 256.0),
        st.floats(2e-7, 1e-6),
        st.integers(0, 99),
    ),
}


@pytest.mark.parametrize("form", [MATMUL, COLLECTIVE, ALL_REDUCE, ATTENTION], ids=lambda form: form.title)
@settings(max_examples=8, derandomize=True)
@given(data=st.data())
def test_constants_are_recovered_from_noisy_times(form: FittedForm, data: st.DataObject) -> None:
    *values, seed = data.draw(DRAWN[form.title])
    names = [constant.name for constant in form.constants]
    true = dict(zip(names, values, strict=True))
    columns = columns_of(form)
    exact = form.time(true, columns)
    measured = exact * np.exp(np.random.default_rng(seed).normal(0, 0.01, exact.shape))
    found = fitted(form, columns, measured)
    assert error_of(form.time(found, columns), exact).p90 < 0.02
    loose = {"exponent", "blend", "own", "hop", "memory_share", "start", "tile", "write"}
    left, noise = (np.log(form.time(constants, columns) / measured).std() for constants in (found, true))
    for name in names:
        near = found[name] == pytest.approx(true[name], rel=0.35 if name in loose else 0.08)
        assert near or (name in loose and left < noise), name  # these times may be described better by another value


def test_rows_far_off_do_not_bend_the_fit() -> None:
    columns = columns_of(MATMUL)
    true = {"compute_share": 0.7, "memory_share": 0.8, "start": 6e-6, "exponent": 2.5}
    measured = MATMUL.time(true, columns).copy()
    measured[::8] *= 3.0
    found = fitted(MATMUL, columns, measured)
    assert found["compute_share"] == pytest.approx(0.7, rel=0.03)


def test_times_of_one_shape_say_as_much_as_one() -> None:
    """Written down three times, noise and all, they move the constants no further from what is usual."""
    columns = first(columns_of(COLLECTIVE), 6)
    true = {"start": 9e-6, "hop": 2e-6, "share": 0.8, "blend": 1.5, "own": 0.3}
    exact = COLLECTIVE.time(true, columns)
    measured = exact * np.exp(np.random.default_rng(3).normal(0, 0.05, exact.shape))
    shapes = [f"{place}" for place in range(len(measured))]
    thrice = {name: np.tile(value, 3) if isinstance(value, np.ndarray) else value for name, value in columns.items()}
    once = fitted(COLLECTIVE, columns, measured, shapes)
    assert fitted(COLLECTIVE, thrice, np.tile(measured, 3), 3 * shapes) == pytest.approx(once, rel=5e-3)
    apart = fitted(COLLECTIVE, thrice, np.tile(measured, 3), [f"{place}" for place in range(3 * len(measured))])
    usual = {constant.name: constant.start for constant in COLLECTIVE.constants}
    moved = [sum(np.log(found[name] / usual[name]) ** 2 for name in usual) for found in (once, apart)]
    assert moved[1] > 1.05 * moved[0]


def test_what_rows_cannot_tell_stays_usual() -> None:
    columns = first(columns_of(MATMUL), 1)
    found = fitted(MATMUL, columns, np.array([7e-6 + columns["nbytes"][0] / (0.8 * 4.8e12)]))
    assert found["compute_share"] == pytest.approx(0.7, rel=1e-3)
    assert found["exponent"] == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize("units", [132.0, 0.0], ids=["units known", "units unknown"])
def test_pages_written_are_told_from_the_rest_of_attention(units: float) -> None:
    """A kernel of its own that takes longer for heads that fill its blocks, by the tokens alone beyond."""
    columns = {**columns_of(ATTENTION), "units": units}
    true = {"forward_share": 0.6, "memory_share": 0.5, "start": 1e-5, "tile": 128.0, "write": 1e-10}
    tokens = columns["batch"] * columns["sequence"]
    pages = 4e-9 * tokens * np.array([0.25 if heads == 1 else 1.0 for heads in columns["kv_heads"]])
    found = fitted(ATTENTION, columns, ATTENTION.time(true, columns) + pages)
    assert found["write"] == pytest.approx(4e-9 * max(units, 1.0), rel=0.03)
    assert found["memory_share"] == pytest.approx(0.5, rel=0.03)


def test_halves_are_halves_of_groups_and_always_the_same() -> None:
    groups = [f"{n} {k}" for n in range(20) for k in range(5) for _ in range(3)]
    for draw in range(DRAWS):
        second = second_half(groups, draw)
        assert second.sum() == len(groups) / 2
        assert len({group for group, chosen in zip(groups, second, strict=True) if chosen}) == 50
        assert (second_half(groups, draw) == second).all()
    assert (second_half(groups, 0) != second_half(groups, 1)).any()


def test_held_out_needs_two_halves_larger_than_the_constants() -> None:
    columns = first(columns_of(MATMUL), 6)
    assert held_out(MATMUL, columns, np.full(6, 1e-3), list("abcdef")) is None


def test_samples_are_what_their_script_writes() -> None:
    assert (SAMPLES / "gemm.csv").read_text("utf-8") == write.gemm(np.random.default_rng(1))
    assert (SAMPLES / "all_reduce_perf.txt").read_text("utf-8") == write.all_reduce(np.random.default_rng(2))


def test_samples_give_back_the_constants_they_were_made_with() -> None:
    collective, matmul = calibrated([GEMM, NCCL]).fits
    for name, value in write.MATMUL.items():
        assert matmul.constants[name] == pytest.approx(value, rel=0.15 if name == "exponent" else 0.04), name
    for name, value in write.COLLECTIVE.items():
        assert collective.constants[name] == pytest.approx(value, rel=0.08), name
    assert matmul.outside is not None
    assert matmul.inside.median < matmul.outside.median < 0.03
    assert (matmul.points, collective.points) == (36, 30)


def written_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[Path, str]:
    monkeypatch.chdir(folder)
    return updated_document(decide(calibrated([GEMM, NCCL]), replace=False), None)


def test_the_same_input_gives_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = written_files(tmp_path, monkeypatch), written_files(tmp_path, monkeypatch)
    assert first == second
    assert [str(path) for path in first] == ["hardware/efficiencies/h200-sxm.yaml"]


def test_written_again_nothing_changes(run: Any, tmp_path: Path) -> None:
    assert run("calibrate", GEMM, NCCL, "--write", cwd=tmp_path).code == 0
    path = tmp_path / "hardware/efficiencies/h200-sxm.yaml"
    first = path.read_bytes()
    assert run("calibrate", GEMM, NCCL, "--write", cwd=tmp_path).code == 0
    assert path.read_bytes() == first


def test_comments_order_and_what_was_not_measured_survive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = document_text("efficiency", "h200-sxm")
    (text,) = written_files(tmp_path, monkeypatch).values()
    comments = [line for line in before.splitlines() if line.startswith("#")]
    assert [line for line in text.splitlines() if line.startswith("#")] == comments
    assert "# 1.06 × forward" in text
    keys = [line.split(":")[0] for line in before.splitlines() if line[:1].isalpha()]
    assert [line.split(":")[0] for line in text.splitlines() if line[:1].isalpha()] == keys
    attention = before[before.index("attention:") : before.index("collectives:")]
    assert attention in text
    path = tmp_path / "h200-sxm.yaml"
    path.write_text(text, "utf-8")
    old, new = read("efficiency", "h200-sxm"), read("efficiency", str(path))
    assert new.matmul["bf16"].compute_share == pytest.approx(0.70, rel=0.02)
    assert new.matmul["bf16"].fitted.points == 36
    products, sums = new.matmul["bf16"].source, new.collectives["all_reduce"].source
    assert products.startswith("calibrate-")
    assert "gemm.csv" in new.sources[products].where
    assert "all_reduce_perf" in new.sources[sums].where
    assert new.collectives["all_gather"] == old.collectives["all_gather"]
    assert new.sustained == old.sustained


@pytest.mark.parametrize("path", sorted((ROOT / "hardware/efficiencies").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_document_without_changes_is_written_as_it_was(path: Path) -> None:
    text = document_text("efficiency", path.stem)
    assert rewritten(text, {}) == text


@pytest.mark.parametrize(
    "text", ["a:\n- 1\n", "a:\n  - 1\n", "a:\n  b:\n  - c: 1\n    d: 2\n", "a:\n  b:\n    # c\n    - 1\n"]
)
def test_lists_stay_where_they_are(text: str) -> None:
    assert rewritten(text, {}) == text


def test_a_value_that_is_null_stays_written() -> None:
    text = "as_of:\n  timed: null                    # of no other releases\n  date: 2026-03\n"
    assert rewritten(text, {}) == text


def test_an_accelerator_without_a_fit_gets_a_file_that_works(run: Any, tmp_path: Path) -> None:
    table = tmp_path / "gemm.csv"
    heading, *rows = (line.split(",") for line in Path(GEMM).read_text("utf-8").splitlines())
    slower = [["mi250x-gcd", *row[1:-1], f"{6 * float(row[-1])}"] for row in rows]  # a sixth of an H200's rate
    table.write_text("\n".join(",".join(row) for row in (heading, *slower)), "utf-8")
    assert run("calibrate", str(table), "--write", cwd=tmp_path).code == 0
    text = (tmp_path / "hardware/efficiencies/mi250x-gcd.yaml").read_text("utf-8")
    assert "of: mi250x-gcd" in text
    assert "network:" not in text
    ran = run("estimate", "quickstart", "--set", "cluster.node=mi250x-frontier", "--json", cwd=tmp_path)
    assert ran.code in (0, 1), ran.err
    documents = [entry["name"] for entry in json.loads(ran.out)["documents"]]
    assert "hardware/efficiencies/mi250x-gcd.yaml" in documents


def test_a_type_that_a_document_of_one_s_own_has_not_is_added(run: Any, tmp_path: Path) -> None:
    """Backward over forward is then that of everything unmeasured."""
    text = document_text("efficiency", "h200-sxm")
    own = tmp_path / "hardware/efficiencies/h200-sxm.yaml"
    own.parent.mkdir(parents=True)
    own.write_text(text[: text.index("  bf16:\n")] + text[text.index("  fp8:\n") :], "utf-8")
    ran = run("calibrate", GEMM, "--write", cwd=tmp_path)
    assert (ran.code, ran.err) == (0, "")
    entry, usual = (read("efficiency", name).matmul["bf16"] for name in (str(own), "unmeasured"))
    gain = usual.backward_share / usual.compute_share
    assert entry.backward_share == pytest.approx(entry.compute_share * gain, abs=0.001)


def test_what_was_set_from_training_runs_stays_unless_asked(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regression, "DRAWS", 1)  # of halves that are held out: what they say is no matter here
    lines = ["gpu,op,gpus,nodes,bytes,time_us,node"]
    for ranks, power in product((16, 32), range(9)):
        time = 60 + 8192 * 4**power / 0.2e6 + 2 * ranks
        lines.append(f"h100-sxm,all_reduce,{ranks},{ranks // 8},{8192 * 4**power},{time},dgx-h100")
    table = tmp_path / "across.csv"
    table.write_text("\n".join(lines) + "\n", "utf-8")
    (fit,) = json.loads(run("calibrate", str(table), "--json").out)["fits"]
    assert (fit["part"], fit["write"]) == ("network", False)
    assert "--replace" in fit["why_not"] or "describe" in fit["why_not"]


def test_a_fit_that_describes_nothing_is_not_written(tmp_path: Path) -> None:
    lines = Path(GEMM).read_text("utf-8").splitlines()
    noise = np.random.default_rng(0).normal(0, 2.0, len(lines) - 1)
    wild = [
        f"{line.rsplit(',', 1)[0]},{float(line.rsplit(',', 1)[1]) * np.exp(off):.3f}"
        for line, off in zip(lines[1:], noise, strict=True)
    ]
    table = tmp_path / "wild.csv"
    table.write_text("\n".join([lines[0], *wild]) + "\n", "utf-8")
    (decision,) = decide(calibrated([str(table)]), replace=True)
    assert not decision.written
    assert decision.why == "the form does not describe it"


def test_no_row_is_dropped_in_silence(tmp_path: Path) -> None:
    table = tmp_path / "gemm.csv"
    more = [
        "h200-sxm,bfloat16,8,64,4096,9.0",
        "h200-sxm,bfloat16,8,512,512,9.0",
        "h200-sxm,int3,8,4096,4096,9.0",
        "abacus,bfloat16,8,4096,4096,9.0",
    ]
    table.write_text(Path(GEMM).read_text("utf-8") + "\n".join(more) + "\n", "utf-8")
    found = calibration([read_timings(str(table))])
    assert sum(found.left_out.values()) == 4
    assert sum(fit.points for fit in found.fits) + 4 == 40
    assert any("abacus" in reason for reason in found.left_out)


def backward_table(folder: Path, gpu: str) -> str:
    """Linear layers in fp8 with a scale for each block, forward and backward."""
    lines = ["gpu,op,m,n,k,dtype,fwd_us,bwd_us"]
    for m, n, k in product((4096, 8192, 16384), (8192, 16384), (4096, 8192, 16384)):
        time = 1e6 * matmul_flop(m, n, k) / 3e15
        lines.append(f"{gpu},linear1,{m},{n},{k},fp8_block,{time:.3f},{2 * time:.3f}")
    (folder / "operators.csv").write_text("\n".join(lines) + "\n", "utf-8")
    return str(folder / "operators.csv")


@pytest.mark.parametrize(("gpu", "fit"), [("b300-sxm", "b200-sxm"), ("gb200", "gb200")])
def test_a_recipe_stands_beside_the_fit_it_uses(tmp_path: Path, gpu: str, fit: str) -> None:
    """fp8 by blocks runs by the fit of fp8, forward and backward."""
    used = read("efficiency", fit).matmul["fp8"]
    found = {fit.sample.form.title: fit for fit in calibrated([backward_table(tmp_path, gpu)]).fits}
    assert found[MATMUL.title].sample.now["compute_share"] == used.compute_share
    assert found[BACKWARD.title].sample.now == {"backward_share": used.backward_share}
    assert found[BACKWARD.title].sample.columns["memory_share"] == used.memory_share


def test_backward_products_without_a_fit_of_their_type_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = document_text("efficiency", "b200-sxm")
    own = tmp_path / "hardware/efficiencies/b200-sxm.yaml"
    own.parent.mkdir(parents=True)
    own.write_text(text[: text.index("  fp8:")] + text[text.index("  nvfp4:") :], "utf-8")
    monkeypatch.chdir(tmp_path)
    found = calibrated([backward_table(tmp_path, "b300-sxm")])
    assert BACKWARD not in [fit.sample.form for fit in found.fits]
    assert found.left_out == {"backward matmuls on b300-sxm, which has no fp8 fit to stand on": 18}


@pytest.mark.parametrize(
    ("head", "cells", "reason"),
    [
        ("gpu,dtype,m,n,k,time_us", "h100-sxm,bfloat16,64,{},65536,90", "matmuls with n or k below 256"),
        ("gpu,dtype,m,n,k,time_us", "h100-sxm,bfloat16,64,65536,{},90", "matmuls with n or k below 256"),
        (
            "gpu,kernel,batch,seq,heads,kv_heads,head_dim,q_dtype,kv_dtype,time_us",
            "h100-sxm,torch_flow,8,{},32,8,128,bfloat16,bfloat16,90",
            "attention over fewer than 512 tokens",
        ),
    ],
)
def test_shapes_that_the_forms_are_not_for_are_left_out(tmp_path: Path, head: str, cells: str, reason: str) -> None:
    least = int(reason.split()[-1 if "matmul" in reason else -2])
    path = tmp_path / "prefill.csv"
    path.write_text("\n".join([head, *(cells.format(size) for size in (least // 2, least - 1, least, 2 * least))]))
    found = calibrated([str(path)])
    assert found.left_out == {reason: 2}
    assert {len(fit.sample.measured) for fit in found.fits} == {2}


@pytest.mark.parametrize(("head_dim", "known"), [(128, True), (64, False)])
def test_attention_is_held_against_its_own_kernel_in_use(tmp_path: Path, head_dim: int, known: bool) -> None:
    """Heads of 64 have shares of their own, so that those of 128 are not in use for them."""
    head = "gpu,kernel,batch,seq,heads,kv_heads,head_dim,q_dtype,kv_dtype,time_us"
    path = tmp_path / "prefill.csv"
    sizes = product((1, 4, 8, 16), (1024, 2048, 4096, 8192))
    row = "h100-sxm,torch_flow,{},{},32,8,{},bfloat16,bfloat16,{}"
    path.write_text("\n".join([head, *(row.format(b, s, head_dim, 20 + b * s * s / 1.5e5) for b, s in sizes)]))
    shipped = read("efficiency", "h100-sxm").attention["flash-3"]
    alone, rate = (fit.sample.now for fit in calibrated([str(path)]).fits)
    if known:
        assert alone == {name: getattr(shipped.alone["torch-flow"], name) for name in alone}
        assert rate == {name: getattr(shipped, name) for name in ("forward_share", "half_sequence")}
    else:
        assert (alone, rate) == (None, None)


def test_collectives_over_links_that_no_node_tells_are_left_out(tmp_path: Path) -> None:
    table = tmp_path / "nccl.csv"
    rows = [f"a10,all_gather,{ranks:.0f},{size:.0f},{20 + size / 1e4}" for ranks, size in MESSAGES.T]
    table.write_text("\n".join(["gpu,op,n_gpus,bytes,time_us", *rows]) + "\n", "utf-8")
    found = calibrated([str(table)])
    assert not found.fits
    assert found.left_out == {"collectives of a10, whose links no node document describes": len(rows)}


def test_tables_of_training_runs_are_sent_to_validate(run: Any, tmp_path: Path) -> None:
    table = tmp_path / "runs.csv"
    table.write_text(
        "layers,hidden,heads,seq_len,gpus,global_batch,gpu,step_time_s\n48,6144,64,2048,8,4,A100,1.4\n", "utf-8"
    )
    ran = run("calibrate", str(table))
    assert ran.code == 2
    assert "costmodel validate" in ran.err


def test_json_has_every_fit_and_what_was_left_out(run: Any) -> None:
    printed = json.loads(run("calibrate", GEMM, NCCL, "--json").out)
    assert printed["schema"] == "costmodel/calibration/v2"
    assert [fit["part"] for fit in printed["fits"]] == ["collectives", "matmul"]
    matmul = printed["fits"][1]
    assert {constant["name"] for constant in matmul["constants"]} == set(write.MATMUL)
    assert matmul["held_out_median"] < matmul["in_use_median"]
    assert printed["written"] == []


def _collectives(folder: Path, factor: float, sizes: int = 6) -> Any:
    """All-reduces of 8 A100 that take a multiple of what the constants in use say of healthy ones."""
    path = folder / "sound.csv"
    messages = [2.0**20 * 8.0**power for power in range(sizes)]

    def fit_of(times: list[float]) -> Any:
        rows = "".join(
            f"a100-sxm-80,all_reduce,8,{size:.0f},{time:.6f}\n" for size, time in zip(messages, times, strict=True)
        )
        path.write_text(f"gpu,op,n_gpus,bytes,time_us\n{rows}", "utf-8")
        (fit,) = calibrated([str(path)]).fits
        return fit

    sound = {one.measured: one.predicted for one in beside(fit_of([1.0 + place for place in range(sizes)]))}
    return fit_of([1e6 * factor * predicted for _, predicted in sorted(sound.items())])


@pytest.mark.parametrize(
    ("factor", "verdict"), [(0.5, "faster"), (0.95, "sound"), (1.0, "sound"), (1.1, "sound"), (2.0, "slower")]
)
def test_measured_stands_beside_predicted_with_its_sign(factor: float, verdict: str, tmp_path: Path) -> None:
    """Times that are so many times the predicted ones: predicted over measured is one over that, less one."""
    fit = _collectives(tmp_path, factor)
    found = beside(fit)
    assert [one.rows for one in found] == [1] * 6
    assert [one.error for one in found] == pytest.approx([1 / factor - 1] * 6, abs=1e-5)
    assert fit.now.bias == pytest.approx(1 / factor - 1, abs=1e-5)
    assert fit.now.median == pytest.approx(abs(1 / factor - 1), abs=1e-5)
    fabric = soundness(fit)
    assert fabric is not None
    assert fabric.verdict == verdict
    assert fabric.error == pytest.approx(1 / factor - 1, abs=1e-5)
    entry = read("efficiency", "a100-sxm-80").collectives["all_reduce"]
    assert fabric.apart == entry.fitted.p90


def test_a_fabric_that_is_slower_than_sound_ones_is_called_so(tmp_path: Path, run: Any) -> None:
    _collectives(tmp_path, 2.0)
    ran = run("calibrate", "sound.csv", cwd=tmp_path)
    assert "50 % slower than healthy fabrics" in ran.out
    assert "−50.0 %" in ran.out
    answer = json.loads(run("calibrate", "sound.csv", "--json", cwd=tmp_path).out)
    (fabric,) = answer["fabrics"]
    assert (fabric["verdict"], fabric["fit"]) == ("slower", "collectives all_reduce")
    assert [round(size["error"], 3) for size in answer["sizes"]] == [-0.5] * 6
    assert answer["fits"][0]["in_use_bias"] == pytest.approx(-0.5, abs=1e-5)
    _collectives(tmp_path, 1.0)
    assert "as fast as healthy fabrics" in run("calibrate", "sound.csv", cwd=tmp_path).out


def test_kernels_have_no_fabric() -> None:
    (fit,) = calibrated([GEMM]).fits
    assert soundness(fit) is None
    assert {one.size.split(" ")[0] for one in beside(fit)} == {"n"}


def test_times_of_your_own_hold_for_a_collective_alone(run: Any, tmp_path: Path) -> None:
    """8 H200 that measured 12.2 ms for 2.15 GB; healthy ones take 8.4, by an algorithm that these did not show."""
    asked = ("collective", "all-reduce", "2147483648B", "--gpus", "8", "--node", "dgx-h200", "--json")
    shipped = json.loads(run(*asked, cwd=tmp_path).out)["sizes"][-1]
    assert run("calibrate", NCCL, "--write", cwd=tmp_path).code == 0
    own = json.loads(run(*asked, cwd=tmp_path).out)["sizes"][-1]
    assert shipped["time_s"] < 9e-3
    assert own["time_s"] == pytest.approx(12.2e-3, rel=0.03)
    assert own["algorithm"] == "fitted"
