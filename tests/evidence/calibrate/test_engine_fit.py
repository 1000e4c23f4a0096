"""Fits of serving engines: constants come back from benchmarks that they predicted, and rows left out are unseen."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest

from costmodel.commands.output import write_all_or_none
from costmodel.documents.reader.folders import shipped_file
from costmodel.documents.reader.library import CachedReader, names, read
from costmodel.estimate.serving.serving_inputs import inputs_of
from costmodel.evidence.calibrate.engine_fit import (
    SHARED,
    EngineFit,
    engine_fit,
    engine_texts,
    own_constants,
    robust_step,
    shipped_value,
    with_values,
)
from costmodel.evidence.validate.serving_rows import serving_row
from costmodel.evidence.validate.validate_serving import case_of_group, of_group
from costmodel.exchange.tables.serving_table import read_serving_runs
from costmodel.ground.errors import CostModelError
from costmodel.report.answers.calibrate import benchmarks_json

pytestmark = pytest.mark.usefixtures("in_its_folder")

HEADER = "id,source,engine,engine_version,model,gpu,gpus,tp,precision,prompt,output,concurrency,ttft_s,tpot_s"
LLAMA = "vllm,0.18.0,meta-llama/Llama-3.1-8B,h100-sxm,1,1,bf16,512,512"
USERS = (1, 2, 4, 64)


def _table(*rows: str) -> str:
    Path("mine.csv").write_text("\n".join([HEADER, *rows]) + "\n")
    return "mine.csv"


def _rows(times: list[tuple[float, float]], source: str = "mine", run: str = LLAMA) -> list[str]:
    rows = zip(USERS, times, strict=False)
    return [f"{source}-{users},{source},{run},{users},{first},{token}" for users, (first, token) in rows]


def _times(run: str = LLAMA, **values: float) -> list[tuple[float, float]]:
    """What an engine with these constants would measure."""
    shelf = CachedReader()
    rows = [serving_row(row, shelf) for row in read_serving_runs(_table(*_rows([(0.1, 0.1)] * 4, run=run))).rows]
    case = case_of_group(rows, shelf)
    named = {each.name.split()[1].strip(","): each for each in (*SHARED[4::-1], *own_constants(case.stack.name))}
    case = with_values(case, [named[name.replace("_", ".", 1)] for name in values], list(values.values()))
    return [(float(found["ttft"]), float(found["tpot"])) for found in of_group(inputs_of(case), rows)]  # type: ignore[index]


def _values(found: EngineFit) -> dict[str, float]:
    return {each.constant.name: each.value for each in found.constants}


def test_own_constants_come_back() -> None:
    """Runs of an engine with a slower host and a longer start move both that way, and are then closer."""
    found = engine_fit([_table(*_rows(_times(host_step=4e-3, burst_share=0.9)))])
    host, _, share = found.constants
    assert host.identified
    assert host.prior < 2e-3 < host.value < 5e-3
    assert share.prior < share.value <= 1
    assert found.fitted["tpot"].median < 0.25 * found.shipped["tpot"].median


@pytest.mark.parametrize("afresh", [False, True])
def test_shipped_constants_stay(afresh: bool) -> None:
    """Runs as predicted move nothing."""
    for each in engine_fit([_table(*_rows(_times()))], afresh=afresh).constants:
        assert each.value == pytest.approx(each.prior, rel=1e-3)


def test_rows_left_out_are_unseen() -> None:
    """Of two sources the others' host time is found; an error left out is that of the others' host on its rows."""
    runs = [LLAMA, LLAMA.replace("3.1-8B", "3.2-1B"), LLAMA.replace("8B,h100-sxm,1,1", "70B,h100-sxm,8,8")]
    hosts = {"slow": 0.8e-3, "quick": 0.4e-3}
    times = {name: [each for run in runs for each in _times(run, host_step=host)] for name, host in hosts.items()}
    rows = [
        row for name, host in hosts.items() for run in runs for row in _rows(_times(run, host_step=host), name, run)
    ]
    found = engine_fit([_table(*rows)], leave_out="source")
    assert found.unseen is not None
    assert hosts["quick"] < _values(found)["vllm host.step"] < hosts["slow"]
    assert found.unseen["tpot"].median > found.fitted["tpot"].median
    parts = {part.value: part for part in found.by_value}
    for name, other in (("quick", "slow"), ("slow", "quick")):
        assert parts[name].constants["vllm host.step"] == pytest.approx(hosts[other], rel=0.1)
        errors = [theirs[1] / mine[1] - 1 for mine, theirs in zip(times[name], times[other], strict=True)]
        # a tenth of a host of 0.8 ms is a fifth of the 0.4 ms that the two lie apart
        assert parts[name].unseen["tpot"].median == pytest.approx(np.median(np.abs(errors)), rel=0.2)
        assert parts[name].unseen["tpot"].bias == pytest.approx(np.median(errors), rel=0.2)
    assert json.loads(json.dumps(benchmarks_json(found, [])))["left_out"]["source"]["quick"]["left_out"]["ttft"]["runs"]


def test_constants_of_experts_come_back() -> None:
    """A mixture on Hopper identifies the fixed time of experts, which other types and parts share."""
    run = "sglang,0.5.9,Qwen/Qwen3-235B-A22B,h200-sxm,8,8,bf16,1024,1024"
    found = engine_fit([_table(*_rows(_times(run, start=80e-6), run=run))], afresh=True)
    start = next(each for each in found.constants if each.constant.name.startswith("experts start, 8"))
    assert start.identified
    assert start.value == pytest.approx(80e-6, rel=0.1)
    assert {"h100-sxm", "h200-sxm", "b200-sxm"} < set(start.constant.documents)


def test_leaves_of_a_constant_agree() -> None:
    """What documents share is the same number in each of them, so that a fit changes all alike."""
    shelf = CachedReader()
    for constant in SHARED:
        alone = [shipped_value(type(constant)(constant.name, (leaf,)), shelf) for leaf in constant.leaves]
        assert alone == [alone[0]] * len(alone), constant.name


def test_all_releases_of_an_engine_share_its_constants() -> None:
    releases = {name for name in names("stack") if name == "vllm" or name.startswith("vllm-")}
    assert set(SHARED[0].documents) == releases


def test_outliers_count_little() -> None:
    """One residual of a hundred spreads among nineteen of one: squares follow it, sizes do not."""
    residuals, slopes = np.array([100.0] + [1.0] * 19), np.ones((20, 1))
    weak = np.array([0.0]), np.array([100.0])
    (squared,), curved = robust_step(residuals, slopes, *weak)
    (robust,), _ = robust_step(residuals, slopes, *weak, 1.0)
    assert squared == pytest.approx(-119 / 20, rel=1e-3)
    assert math.sqrt(1 / curved[0, 0]) == pytest.approx(1 / math.sqrt(20), rel=1e-3)
    assert robust == pytest.approx(-1 - 1 / math.sqrt(19**2 - 1), rel=1e-3)  # nineteen pulls balance one of 1


def test_document_is_written_beside_and_again() -> None:
    """The working folder's engine takes what is identified; a second fit starts from what is shipped, and agrees."""
    table = _table(*_rows(_times(host_step=4e-3, burst_share=0.9)))
    first = engine_fit([table])
    ((path, text),) = engine_texts(first).items()
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert read("stack", "vllm-0.20").host.step > 2e-3
    assert "step fitted on own benchmarks; all else is of serving-fit" in text
    assert _values(engine_fit([table])) == pytest.approx(_values(first))


def test_a_fit_that_describes_nothing_is_not_written() -> None:
    """Times in the wrong unit leave errors that no constant explains."""
    found = engine_fit([_table(*_rows([(first * 1e3, token * 1e3) for first, token in _times()]))])
    assert "are times in seconds?" in found.why
    assert engine_texts(found) == {}


def test_start_up_logs_hold_no_times() -> None:
    Path("logs.csv").write_text("engine,model,gpu,tp,log_kv_gib\nvllm,meta-llama/Llama-3.1-8B,h100-sxm,1,58\n")
    with pytest.raises(CostModelError, match=r"logs\.csv has start-up logs"):
        engine_fit(["logs.csv"])


def test_few_or_mixed_runs() -> None:
    """Two runs are too few, and constants are of one engine unless those that engines share are fitted."""
    with pytest.raises(CostModelError, match="2 runs are modelled, and 3 are needed"):
        engine_fit([_table(*_rows([(0.1, 0.01)] * 2))])
    table = _table(*_rows(_times()), *_rows(_times(), "other", LLAMA.replace("vllm,0.18.0", "sglang,0.5")))
    with pytest.raises(CostModelError, match="sglang, vllm"):
        engine_fit([table])
    assert engine_fit([table], afresh=True).runs == 2 * len(USERS)


PART = "vllm,0.18.0,meta-llama/Llama-3.1-8B,mygpu,1,1,bf16,512,512"


def test_steps_on_an_accelerator_that_is_not_shipped_become_its_document() -> None:
    """Its products reach other shares of peak and bandwidth than the default's; later answers find these."""
    text = (shipped_file("hardware/accelerators/h100-sxm.yaml")).read_text("utf-8")
    text = re.sub(r"(?m)^(efficiency|held_against).*\n(?:  .*\n)*", "", text.replace("name: h100-sxm", "name: mygpu"))
    Path("hardware/accelerators").mkdir(parents=True)
    Path("hardware/accelerators/mygpu.yaml").write_text(text, "utf-8")
    times = [(first, 1.25 * token) for first, token in _times(PART)]
    table = _table(*_rows(times, run=PART))
    found = engine_fit([table])
    shares = {each.constant.key: each for each in found.constants if each.constant.name.startswith("mygpu")}
    assert shares["memory_share"].identified
    assert shares["memory_share"].value < 0.9 * shares["memory_share"].prior
    assert found.fitted["tpot"].median < 0.5 * found.shipped["tpot"].median
    write_all_or_none(engine_texts(found), folder=True)
    document = read("efficiency", "mygpu")
    assert document.matmul["bf16"].memory_share == pytest.approx(shares["memory_share"].value, rel=0.01)
    assert document.matmul["bf16"].fitted.points == len(USERS)
    assert _values(engine_fit([table])) == pytest.approx(_values(found), rel=0.02)  # the priors are as before
