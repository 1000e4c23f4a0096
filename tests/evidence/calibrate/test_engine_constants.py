"""Calibrate of serving: constants of an engine come back from runs that they predicted."""

from __future__ import annotations

from pathlib import Path

import pytest

from costmodel.documents.reader.cached_reader import CachedReader
from costmodel.documents.reader.library import read
from costmodel.evidence.calibrate.engine_constants import engine_text, refined
from costmodel.evidence.validate.serving.benchmarks import group_inputs, of_group
from costmodel.evidence.validate.serving.serving_rows import serving_row
from costmodel.exchange.tables.serving_table import read_serving_runs
from costmodel.ground.errors import CostModelError

pytestmark = pytest.mark.usefixtures("in_its_folder")

HEADER = "id,engine,engine_version,model,gpu,gpus,tp,precision,prompt,output,concurrency,ttft_s,tpot_s"
RUN = "vllm,0.18.0,meta-llama/Llama-3.1-8B,h100-sxm,1,1,bf16,512,512"


def _table(times: list[tuple[float, float]], users: tuple[int, ...] = (1, 2, 4, 64)) -> str:
    rows = [f"r{many},{RUN},{many},{first},{token}" for many, (first, token) in zip(users, times, strict=False)]
    Path("mine.csv").write_text("\n".join([HEADER, *rows]) + "\n")
    return "mine.csv"


def _runs(host: float, share: float) -> list[tuple[float, float]]:
    """What an engine of that host time and start would measure."""
    shelf = CachedReader()
    rows = [serving_row(row, shelf) for row in read_serving_runs(_table([(0.1, 0.1)] * 4)).rows]
    inputs = group_inputs(rows[0].scenario, shelf)
    engine = inputs.engine
    held: dict[str, object] = {"host": engine.host.model_copy(update={"step": host})}
    held["burst"] = engine.burst.model_copy(update={"share": share})
    object.__setattr__(inputs, "engine", engine.model_copy(update=held))
    return [(float(found["ttft"]), float(found["tpot"])) for found in of_group(inputs, rows)]  # type: ignore[index]


def test_constants_come_back() -> None:
    """Runs of an engine with a slower host and a longer start move both that way, and are then closer."""
    found = refined([_table(_runs(4e-3, 0.9))])
    by_name = {constant.leaf.name: constant for constant in found.constants}
    host, share = by_name["host.step"], by_name["burst.share"]
    assert host.identified
    assert host.prior < 2e-3 < host.value < 5e-3
    assert share.prior < share.value <= 1
    assert found.after["tpot"] < 0.25 * found.before["tpot"]


def test_shipped_constants_stay() -> None:
    """Runs as predicted move nothing."""
    engine = read("stack", "vllm")
    found = refined([_table(_runs(engine.host.step, engine.burst.share))])
    for constant in found.constants:
        assert constant.value == pytest.approx(constant.prior, rel=1e-3)


def test_document_is_written_beside() -> None:
    """The engine of the working folder takes what is identified, and is then what is shipped to nobody else."""
    texts = engine_text(refined([_table(_runs(4e-3, 0.9))]))
    ((path, text),) = texts.items()
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert read("stack", "vllm").host.step > 2e-3


def test_few_or_mixed_runs() -> None:
    """Two runs are too few, and constants are of one engine."""
    with pytest.raises(CostModelError, match="2 runs are modelled, and 3 are needed"):
        refined([_table([(0.1, 0.01)] * 2)])
    text = Path("mine.csv").read_text() + f"s,{RUN.replace('vllm,0.18.0', 'sglang,0.5')},4,0.1,0.01\n"
    Path("mine.csv").write_text(text)
    with pytest.raises(CostModelError, match="sglang, vllm"):
        refined(["mine.csv"])
