"""Compressed gradients: volumes as published, time never saved beyond what is exposed, memory, and what is refused."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from costmodel.documents.schemas.compression import Codec, codec_of
from costmodel.estimate.training.training_inputs import TrainingInputs
from estimate.cases import ask, costs, inputs, line, machine, model, without_network

CODECS = ("fp16", "int8", "one-bit", "top-k 0.1 %", "powersgd 4")


def slow(share: float = 0.01, **more: Any) -> TrainingInputs:
    """Four nodes over a slow network, gradients in fp32."""
    assume = {"network_share": share, **more.pop("assume", {})}
    return inputs(model(hidden=2048), nodes=4, stack=more.pop("stack", "ddp"), assume=assume, **more)


def volume(asked: TrainingInputs, compression: str) -> float:
    return costs(asked, compression=compression)["dp_volume"]


def test_bytes_are_those_of_each_code() -> None:
    asked = slow()
    raw = volume(asked, "none")
    assert volume(asked, "fp16") == pytest.approx(raw / 2)
    assert volume(asked, "int8") == pytest.approx(raw * (1 + 4 / 256) / 4)
    # gathered from all 32, where a ring sends each byte twice: c n / 2 of it
    assert volume(asked, "top-k 1 %") == pytest.approx(raw * 0.02 * 32 / 2)
    # hidden² of attention, four times that up and down: ρ (m + n)/(m n) of each, of a table of 32,768 rows
    sizes = {(2048, 2048): 1, (3 * 2048, 2048): 1, (8192, 2048): 2}
    layer = sum(count * 4 * (m + n) for (m, n), count in sizes.items())
    whole = sum(count * m * n for (m, n), count in sizes.items())
    factors = (8 * layer + 2 * 4 * (32768 + 2048)) / (8 * whole + 2 * 32768 * 2048)
    assert volume(asked, "powersgd 4") == pytest.approx(raw * factors, rel=1e-9)


def test_one_bit_adam_sends_a_fifth_as_published() -> None:
    """Check 20: "up to 5 x less communication volume" in fp16, with warm-ups of 15 to 25 %."""
    ratios = []
    for before in (0.15, 0.25):
        asked = slow(assume={"compression": {"warm_up": before}}, workload={"gradients": "fp16"})
        ratios.append(volume(asked, "none") / volume(asked, "one-bit"))
    assert ratios == pytest.approx([4.92, 3.37], rel=2e-3)


@pytest.mark.parametrize("codec", CODECS)
def test_no_more_is_saved_than_is_exposed(codec: str) -> None:
    """Check 22, over networks, stacks and shares that hide."""
    wide = {"ddp": 0, "megatron-core": 1, "deepspeed": 1}
    for (stack, zero), share, overlap in itertools.product(wide.items(), (0.01, 0.2, 1.0), (0.0, 0.7)):
        asked = slow(share, stack=stack, assume={"overlap": {"dp": overlap}})
        raw, compressed = costs(asked, zero=zero), costs(asked, zero=zero, compression=codec)
        saved = raw["step_time"] - compressed["step_time"]
        assert saved <= raw["dp_exposed"] + 1e-12
        assert compressed["step_time"] == pytest.approx(raw["step_time"] - saved)


def test_break_even_bandwidth_gives_equal_times() -> None:
    """Where nothing hides and messages take no start, a codec of that time neither saves nor costs."""
    asked = slow(assume={"overlap": {"dp": 0.0}})
    raw, coded = (costs(asked, compression=codec) for codec in ("none", "int8"))
    free = slow(assume={"overlap": {"dp": 0.0}, "compression": {"codec": "0 s"}})
    even = raw["step_time"] - costs(free, compression="int8")["step_time"]
    priced = slow(assume={"overlap": {"dp": 0.0}, "compression": {"codec": f"{even!r} s"}})
    assert costs(priced, compression="int8")["step_time"] == pytest.approx(raw["step_time"], rel=1e-9)
    assert coded["step_time"] < raw["step_time"]


def test_a_codec_alone_costs_its_time_on_a_free_network() -> None:
    asked = without_network(machine(8, stack="ddp", assume={"compression": {"codec": "10 ms"}, "overlap": {"dp": 1}}))
    late = costs(asked, compression="fp16")["step_time"] - costs(asked)["step_time"]
    assert 9e-3 < late <= 10e-3 + 1e-12


def test_error_feedback_is_whole_on_every_rank() -> None:
    asked = slow(stack="megatron-core")
    for zero, codec in itertools.product((0, 1), CODECS):
        more = line(ask(asked, zero=zero, compression=codec), "gradients") - line(ask(asked, zero=zero), "gradients")
        parameters = line(ask(asked, zero=0), "gradients") / 4
        wanted = {"one-bit": 4 + 4 / 32, "top-k 0.1 %": 4, "powersgd 4": 4}.get(codec, 0)
        assert more == pytest.approx(wanted * parameters)


def test_sharded_gradients_are_scattered_in_narrow_types() -> None:
    asked = inputs(model(), nodes=2, stack="fsdp2")
    for codec, operation in (("fp16", "reduce_scatter"), ("int8", "all_to_all")):
        found = ask(asked, zero=3, compression=codec)
        assert found.refused == ()
        sums = [each.operation for each in found.evaluation.step.transfers if each.group.name == "dp"]
        assert operation in sums
        assert ("reduce_scatter" in sums) == (codec == "fp16")


def test_an_option_without_effect_is_remarked() -> None:
    assert "N030" in ask(machine(), compression="int8").remarked
    assert "N030" in ask(slow(workload={"gradients": "bf16"}), compression="fp16").remarked
    assert "N030" not in ask(slow(), compression="fp16").remarked
    assert "N031" in ask(slow(), compression="one-bit").remarked
    assert "N031" not in ask(slow(stack="deepspeed"), zero=1, compression="one-bit").remarked
    assert not {"N030", "N031"} & {*ask(slow()).remarked}


def test_a_compression_is_read_as_it_is_written() -> None:
    assert codec_of("top-k  0.1 %") == Codec("top-k", kept=0.001)
    assert codec_of("powersgd 4") == Codec("powersgd", rank=4.0)


@pytest.mark.parametrize("text", ["int4", "top-k", "top-k 0 %", "top-k 200 %", "powersgd", "powersgd 0", "4"])
def test_what_is_no_compression_is_refused(text: str, run: Any) -> None:
    ran = run("estimate", "quickstart", "--set", f"plan.compression={text}")
    assert ran.code == 2
    assert "D007" in ran.err
    assert "powersgd 4" in ran.err


def test_answers_say_what_it_is_worth(run: Any) -> None:
    name = "ddp-llama-3.2-1b-32"
    assert "compression int8: saves" in run("estimate", name, "--set", "plan.compression=int8").out
    assert "it pays on networks under" in run("comm", name, "--set", "plan.compression=int8").out
    assert (
        "more bytes than without from 1,000 ranks on" in run("comm", name, "--set", "plan.compression=top-k 0.1 %").out
    )
    found = run("comm", name, "--set", "plan.compression=powersgd 4").out
    assert "attention out, 2,048 × 2,048: 0.391 %" in found  # ρ (m + n)/(m n), a 256th
    assert "vectors, as of norms: whole" in found
    large = run("comm", name, "--set", "plan.compression=powersgd 2000").out
    assert "attention out, 2,048 × 2,048: uncompressed (smaller than its factors)" in large
    found = run("search", name, "--set", "search.compression=[none, int8, powersgd 4]", "--safe", "off").out
    assert "powersgd 4" in found
