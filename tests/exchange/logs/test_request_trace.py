"""Traces of requests: formats, moments, what is lost, faults, and the step simulator fed by the same trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from equations.serving.engine_simulation import Engine, _Run
from estimate.serving.linear_engine import state_of

from costmodel.documents.reader.load_scenario import load_any
from costmodel.documents.reader.serving_scenario import serving
from costmodel.exchange.logs.request_trace import rates_of_trace, read_trace, requests_of
from costmodel.explore.purchase.offers import hourly_rates
from costmodel.ground.errors import CostModelError

COUNT = 6000


def drawn(rate: float, spread: float, seed: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times with gamma gaps, log-normal prompts and answers."""
    random = np.random.default_rng(seed)
    times = np.cumsum(random.gamma(spread**-2, spread**2, COUNT) / rate)
    lengths = (np.maximum(np.rint(random.lognormal(mean, 0.7, COUNT)), 2) for mean in (7.2, 5.6))
    return (times, *lengths)


def table(times: np.ndarray, prompts: np.ndarray, answers: np.ndarray, form: str = "csv") -> str:
    whole = prompts.astype(int).tolist(), answers.astype(int).tolist()
    if form == "mooncake":
        names = ("timestamp", "input_length", "output_length")
        rows = zip((times * 1000).astype(int).tolist(), *whole, strict=True)
        return "\n".join(json.dumps(dict(zip(names, row, strict=True)) | {"hash_ids": []}) for row in rows)
    if form == "azure":
        start = np.datetime64("2023-11-16T18:17:03", "us")
        moments = [f"{start + np.timedelta64(round(time * 1e6), 'us')}0".replace("T", " ") for time in times]
        lines = [f"{time},{prompt},{answer}" for time, prompt, answer in zip(moments, *whole, strict=True)]
        return "\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *lines])
    head = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"
    cells = zip(times.tolist(), *whole, strict=True)
    return "\r\n".join([head, *(f"{time},GPT-4,{prompt},{answer},9,API log" for time, prompt, answer in cells)])


@pytest.mark.parametrize("form", ["csv", "azure", "mooncake"])
def test_the_moments_of_each_format(form: str) -> None:
    times, prompts, answers = drawn(4.0, 1.5)
    tree = read_trace(table(times, prompts, answers, form), "trace").tree
    assert float(tree["rate"].removesuffix(" /s")) == pytest.approx((COUNT - 1) / np.ptp(times), rel=1e-4)
    assert tree["arrival_spread"] == pytest.approx(np.std(np.diff(times)) / np.mean(np.diff(times)), rel=0.01)
    for key, lengths in (("prompt", prompts), ("output", answers)):
        assert tree[key]["mean"] == round(np.mean(lengths))
        assert tree[key]["spread"] == pytest.approx(np.std(lengths) / np.mean(lengths), rel=1e-3)


def test_whole_seconds_are_no_bursts() -> None:
    """Six requests a second in whole seconds share their moments: within one they are at random, with a remark."""
    times, prompts, answers = drawn(6.0, 1.0)
    found = read_trace(table(np.floor(times), prompts, answers), "trace")
    assert found.tree["arrival_spread"] == pytest.approx(1.0, abs=0.05)
    assert any("multiples of 1.00 s" in remark for remark in found.remarks)


def test_what_is_lost_is_stated() -> None:
    """A rate that changes from hour to hour, and answers that are as long as their prompts."""
    times = np.concatenate([hour * 3600 + np.linspace(0, 3599, count) for hour, count in enumerate([400, 3600, 1200])])
    lengths = np.geomspace(10, 5000, len(times))
    found = read_trace(table(times, lengths, lengths), "trace")
    assert found.tree["arrival_spread"] == pytest.approx(0.0, abs=0.05)
    words = " ".join(found.remarks)
    assert "busiest hour has 1.00 /s, 2.1 × the mean" in words
    assert "correlate by 1.00" in words
    assert "no hash_ids" in words
    assert rates_of_trace(table(times, lengths, lengths), "trace")[1] == pytest.approx(1.0, abs=0.01)


def test_blocks_that_come_back_are_beginnings_by_their_distance(tmp_path: Path) -> None:
    """Every request begins with one system prompt, every second one with one of 50 documents behind it."""
    lines = []
    for request in range(2000):
        ids = [0, *([1000 + request // 2 % 50] if request % 2 else []), 10_000 + request]
        row = {"timestamp": request * 100, "input_length": 512 * len(ids), "output_length": 100, "hash_ids": ids}
        lines.append(json.dumps(row))
    kinds = read_trace("\n".join(lines), "trace").tree["beginnings"]
    near, far = kinds[0], kinds[-1]
    assert (near["tokens"], near["spacing"]) == (512, 1.0)
    assert (far["tokens"], float(far["share"].removesuffix(" %")), far["spacing"]) == (512, 47.5, 100.0)
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    case = serving(load_any("serve-llama-3.1-70b", ["workload.rate=null", f"workload.trace={tmp_path / 't.jsonl'}"]))
    assert len(case.scenario.workload.beginnings) == 2
    assert case.scenario.workload.rate is None or case.scenario.workload.rate == pytest.approx(10.0)


@pytest.mark.parametrize(("rate", "spread"), [(1.0, 1.0), (3.0, 1.0), (3.0, 2.0)])
def test_the_step_simulator_fed_by_the_same_trace(rate: float, spread: float) -> None:
    """By the moments alone: time per token to 4 %, the mean first token to 20 %, its p99 to 30 %."""
    text = table(*drawn(rate, spread))
    trace, tree = requests_of(text, "trace"), read_trace(text, "trace").tree
    lengths = (tree["prompt"]["mean"], tree["output"]["mean"])
    engine = Engine(9.9e-3, 60e-6, 48e-6, *lengths, 8192.0, float(tree["rate"].removesuffix(" /s")))
    spreads: dict[str, Any] = {"variation": tree["prompt"]["spread"], "answers": tree["output"]["spread"]}
    engine = Engine(**{**vars(engine), **spreads, "gaps": tree["arrival_spread"]})
    assert trace.times is not None
    run = _Run(engine, [*trace.times], [*map(int, trace.prompts)], [*map(int, trace.answers)])
    seen, found = run.observed(), state_of(engine)
    assert float(found.tpot) == pytest.approx(seen.tpot, rel=0.04)
    assert float(found.ttft) == pytest.approx(seen.ttft, rel=0.2)
    assert float(found.ttft_p99) == pytest.approx(seen.ttft_p99, rel=0.3)


HEAD = "time,prompt,answer\n"


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("", "X005", ""),
        ("time,prompt\n1,2\n", "D004", "1:1"),
        ("time,prompt,isl,answer\n1,2,2,3\n", "D005", "1:13"),
        (f"{HEAD}1,2\n", "X005", "2:1"),
        (f"{HEAD}1,2,x\n", "D006", "2:5"),
        (f"{HEAD}1,2,inf\n", "D006", "2:5"),
        (f"{HEAD}1,-2,3\n", "D006", "2:3"),
        (f"{HEAD}noon,2,3\n", "D006", "2:1"),
        (f"{HEAD}1e300,2,3\n", "D006", "2:1"),
        (f"{HEAD}0,2,3\n1e10,2,3\n", "X005", ""),
        (f"{HEAD}5,2,3\n5,2,3\n", "X005", ""),
        (f"{HEAD}5,2,3\n5,0,3\n", "X005", ""),
        ('"time,prompt\n', "X005", "1:1"),
        ('{"timestamp": 1, "input_length":\n', "X005", "1:33"),
        ('{"timestamp": NaN, "input_length": 1, "output_length": 1}\n', "D006", "1:1"),
        ('{"timestamp": 1, "output_length": 1}\n', "D004", "1:1"),
        ('{"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": 3}\n', "D006", "1:1"),
        ("[" * 100_000, "X005", ""),
        ("[1]", "X005", ""),
        (f"[{'9' * 5000}]", "X005", ""),
    ],
)  # fmt: skip
def test_what_is_no_trace_is_one_fault(text: str, code: str, place: str) -> None:
    with pytest.raises(CostModelError) as error:
        read_trace(text, "trace")
    (fault,) = error.value.faults
    assert fault.code == code
    assert fault.hint
    assert not place or (fault.place is not None and f"{fault.place.line}:{fault.place.column}" == place)


def test_a_trace_of_texts_and_of_failed_requests() -> None:
    talk = [{"from": "human", "value": "x" * 400}, {"from": "gpt", "value": "y" * 80}]
    found = read_trace(json.dumps([{"id": "1", "conversations": talk}] * 3 + [{"conversations": talk[:1]}]), "trace")
    assert (found.tree["prompt"]["mean"], found.tree["output"]["mean"]) == (100, 20)
    assert "rate" not in found.tree
    left = read_trace(f"{HEAD}1,2,3\n2,4,0\n3,2,3\n", "trace")
    assert any("1 requests without" in remark for remark in left.remarks)


def test_stated_keys_come_before_those_of_a_trace(tmp_path: Path) -> None:
    file = tmp_path / "requests.csv"
    file.write_text(table(*drawn(4.0, 1.5)))
    named = f"workload={{kind: serving, trace: {file}, precision: bf16}}"
    plain = serving(load_any("serve-llama-3.1-70b", [named])).scenario.workload
    assert plain.rate == pytest.approx(4.0, rel=0.05)
    more = ("workload.rate=9 /s", "workload.prompt={spread: 2}", "workload.burstiness=0.5")
    stated = serving(load_any("serve-llama-3.1-70b", [named, *more])).scenario.workload
    assert (stated.rate, stated.burstiness, stated.arrival_spread) == (9.0, 0.5, None)
    assert (stated.mean("prompt"), stated.spread("prompt")) == (plain.mean("prompt"), 2.0)
    users = serving(load_any("serve-llama-3.1-70b", [named, "workload.concurrency=8"])).scenario.workload
    assert (users.concurrency, users.rate, users.arrival_spread) == (8.0, None, None)
    with pytest.raises(CostModelError, match="two hours at least"):
        hourly_rates(str(file))
