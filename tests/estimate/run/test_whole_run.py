"""The whole run around a step: failures, checkpoints, goodput, energy; what is stated, and what follows from it."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.documents.reader.load_scenario import load
from costmodel.estimate.run.whole_run import shares, spares_wanted
from costmodel.estimate.training_answer.evaluate_training import missing_input
from costmodel.estimate.training_answer.predict_training import Answer, predict
from costmodel.ground.errors import CostModelError

NAME = "llama-3-70b-512"
HOUR, DAY = 3600.0, 86400.0


@functools.cache
def asked(*assignments: str, name: str = NAME) -> Answer:
    return predict(load(name, assignments))


def row(*assignments: str, name: str = NAME) -> dict[str, float]:
    return asked(*assignments, name=name).evaluation.costs.row()


def parts(*assignments: str) -> dict[str, float]:
    answer = asked(*assignments)
    assert answer.inputs.run is not None
    assert answer.evaluation.run is not None
    return {
        name: float(np.asarray(value).flat[0])
        for name, value in shares(answer.inputs.run, answer.evaluation.run).items()
    }


def played(mtbf: float, interval: float, stop: float, restart: float, write: float, seed: int = 1) -> float:
    """Goodput of a run played out interruption by interruption; a write in the background counts once it ends."""
    draw = np.random.default_rng(seed)
    clock = useful = saved = 0.0
    ready: list[tuple[float, float]] = []  # when a checkpoint can be used, and the work in it
    fails = draw.exponential(mtbf)
    work = 0.0
    while saved < 4000 * interval:
        end = clock + interval + stop
        if fails < end:
            saved = max([saved, *(held for at, held in ready if at <= fails)])
            ready, work, clock = [], saved, fails
            fails = clock + draw.exponential(mtbf)
            while fails < clock + restart:
                clock, fails = fails, fails + draw.exponential(mtbf)
            clock += restart
            continue
        clock, work = end, work + interval
        ready.append((clock + write, work))
        saved = max([saved, *(held for at, held in ready if at <= clock)])
        ready = [(at, held) for at, held in ready if at > clock]
        useful = saved
    return useful / clock


def test_without_run_nothing_of_it_is_there() -> None:
    plain, whole = row(), row("run={}")
    assert {name: whole[name] for name in plain if not name.startswith("run_")} == {
        name: value for name, value in plain.items() if not name.startswith("run_")
    }
    assert "goodput" not in plain
    assert missing_input(asked().inputs, "goodput").startswith("set run")


def test_the_run_takes_its_steps_over_its_goodput() -> None:
    plain, whole = row(), row("run={}")
    assert whole["run_time"] == pytest.approx(plain["run_time"] / whole["goodput"], rel=1e-12)
    assert whole["run_cost"] == pytest.approx(plain["run_cost"] / whole["goodput"], rel=1e-12)


def test_steps_stand_in_the_place_of_tokens() -> None:
    whole = row("run.steps=1000", "workload.tokens=null")
    assert whole["run_time"] == pytest.approx(1000 * whole["step_time"] / whole["goodput"])
    assert row("run.steps=1000")["run_time"] == whole["run_time"]


@pytest.mark.parametrize(
    "settings_",
    [
        ("run.checkpoint.mode=sync", "run.checkpoint.interval=1 h"),
        ("run.checkpoint.block=5 s", "run.checkpoint.interval=6 min", "run.checkpoint.storage.write=8 GB/s"),
    ],
)
def test_goodput_is_that_of_a_run_played_out(settings_: tuple[str, ...]) -> None:
    """At a rate that makes interruptions matter, against a simulation of single failures."""
    rate = "run.failures={rate: 60 /1000 node-days}"
    answer = asked(rate, *settings_)
    whole, found = answer.evaluation.costs.row(), answer.evaluation.run
    assert found is not None
    write = 0.0 if "mode=sync" in settings_[0] else whole["checkpoint_write"]
    simulated = played(
        whole["mtbf"], whole["checkpoint_interval"], whole["checkpoint_blocking"], whole["restart_time"], write
    )
    assert whole["goodput"] == pytest.approx(simulated, rel=0.01)


def test_bytes_of_a_checkpoint_do_not_depend_on_the_plan() -> None:
    plans = [("plan.tp=8",), ("plan.tp=4", "plan.pp=8"), ("plan.zero=0",), ("plan.dp_replicate=2", "plan.zero=2")]
    sizes = {row("run={}", *plan)["checkpoint_size"] for plan in plans}
    assert len(sizes) == 1
    assert sizes.pop() == pytest.approx(14 * 70.55e9, rel=1e-3)


def test_a_published_checkpoint_has_its_size() -> None:
    """BLOOM-176B: 2.3 TB on disk."""
    assert row("run={}", "model=bloom-176b", "workload.sequence=2048")["checkpoint_size"] == pytest.approx(
        2.3e12, rel=0.08
    )


def test_a_rank_copies_its_part_and_all_parts_are_the_whole() -> None:
    """512 ranks copy over their links; without sharding the 32 of one replica do, and wait 16 times as long."""
    whole, alone = row("run={}"), row("run={}", "plan.zero=0")
    overhead = 0.56
    copies = [each["checkpoint_blocking"] - overhead for each in (whole, alone)]
    assert copies[1] == pytest.approx(16 * copies[0], rel=1e-9)
    host = asked("run={}").inputs.case.host
    assert host is not None
    assert host.copies is not None
    assert copies[0] * host.copies * 512 == pytest.approx(whole["checkpoint_size"], rel=1e-9)


def test_a_write_takes_its_bytes_over_the_store() -> None:
    whole = row("run.checkpoint.storage.write=50 GB/s")
    assert whole["checkpoint_write"] == pytest.approx(whole["checkpoint_size"] / 50e9)
    slow = row("run.checkpoint.storage.write=50 GB/s", "run.checkpoint.writer=10 MB/s")
    assert slow["checkpoint_write"] == pytest.approx(whole["checkpoint_size"] / 512 / 10e6)


def test_loading_by_each_replica_reads_as_often() -> None:
    once, each = (row(f"run.checkpoint.reads={way}")["restart_time"] for way in ("once", "by-each-replica"))
    loading = once - 600
    assert each - 600 == pytest.approx(16 * loading)


def test_adapters_alone_are_saved() -> None:
    """LoRA saves the trained matrices: a 16-bit copy, an fp32 one and two moments of each."""
    answer = asked("run={}", name="lora-llama-3-70b-8")
    assert answer.evaluation.costs.row()["checkpoint_size"] < 0.01 * 14 * 70e9


def test_published_interruptions_are_predicted() -> None:
    """Llama 3 405B: 419 in 54 days on 2,048 nodes; RSC: 1.8 h at 2,048 and 0.23 h at 16,384 nodes at 6.5."""
    nodes = ("cluster.nodes=2048", "workload.global_batch=2048")
    assert row("run.failures=llama-3", *nodes)["mtbf"] == pytest.approx(54 * DAY / 419, rel=1e-3)
    assert row("run.failures=rsc-1", *nodes)["mtbf"] / HOUR == pytest.approx(1.8, rel=0.03)
    many = ("cluster.nodes=16384", "workload.global_batch=16384", "run.failures=rsc-1")
    assert row(*many)["mtbf"] / HOUR == pytest.approx(0.23, rel=0.03)


def test_the_default_band_holds_what_jobs_of_128_nodes_lived() -> None:
    """7.9 h were observed where the failures of hardware alone would let them live 28.8 h."""
    whole = row("run={}", "cluster.nodes=128")
    assert whole["mtbf_low"] <= 7.9 * HOUR <= whole["mtbf_high"]
    assert row("run.failures=rsc-1", "cluster.nodes=128")["mtbf"] / HOUR == pytest.approx(28.8, rel=0.01)


def test_the_goodput_printed_is_the_exact_one(run: Any) -> None:
    """16,384 GPUs at RSC-1's rate, hourly, 5 min to save, 10 min to restart: 0.614, where first order gives 0.582."""
    settings_ = (
        "cluster.nodes=2048",
        "workload.global_batch=2048",
        "run.failures=rsc-1",
        "run.checkpoint={mode: sync, interval: 1 h, block: 5 min, storage: {read: 1000 TB/s}}",
    )
    assert row(*settings_)["goodput"] == pytest.approx(0.614, rel=6e-3)
    printed = run("run", NAME, *(word for each in settings_ for word in ("--set", each))).out
    assert "goodput    61.4 %" in printed
    assert "58.2 %" not in printed


def test_llama_3_spent_over_nine_tenths_of_its_time_training() -> None:
    """405B on 16,384 H100, with a write of 51 s as measured elsewhere and a restart of ten minutes: over 90 %."""
    whole = row(
        "model=llama-3.1-405b",
        "cluster.nodes=2048",
        "workload.global_batch=2048",
        "plan.pp=16",
        "plan.recompute=full",
        "run.failures=llama-3",
        "run.checkpoint.block=5 s",
        "run.checkpoint.storage.write=111 GB/s",
    )
    assert whole["checkpoint_write"] == pytest.approx(51.06, rel=0.01)
    assert whole["goodput"] == pytest.approx(0.915, abs=0.01)


def test_parts_of_the_run_add_up() -> None:
    settings_ = ("run.evaluation=2 %", "run.planned={every: 7 d, stop: 2 h}", "run.checkpoint.mode=sync")
    lost = parts(*settings_)
    assert sum(lost.values()) + row(*settings_)["goodput"] == pytest.approx(1, abs=1e-12)
    assert lost["planned stops"] == pytest.approx(2 / 168)
    assert lost["evaluation"] == pytest.approx(0.02 * (1 - 2 / 168))
    assert min(lost.values()) > 0


@pytest.mark.parametrize(
    ("worse", "better"),
    [
        ("run.failures.rate=10 /1000 node-days", "run.failures.rate=5 /1000 node-days"),
        ("run.restart.start=20 min", "run.restart.start=5 min"),
        ("run.checkpoint.block=30 s", "run.checkpoint.block=1 s"),
        ("run.checkpoint.storage.write=5 GB/s", "run.checkpoint.storage.write=50 GB/s"),
        ("run.checkpoint.interference=20 %", "run.checkpoint.interference=0 %"),
        ("run.checkpoint.mode=sync", "run.checkpoint.mode=async"),
        ("run.evaluation=5 %", "run.evaluation=1 %"),
        ("run.failures.job={rate: 2 /day}", "run.failures.job={rate: 0 /day}"),
        (
            "run.spot={price: 1 USD/GPU/h, preempted_every: 24 h}",
            "run.spot={price: 1 USD/GPU/h, preempted_every: 48 h}",
        ),
        ("run.restart.detect=30 min", "run.restart.detect=30 s"),
    ],
)
def test_what_is_worse_costs_goodput(worse: str, better: str) -> None:
    assert row(worse)["goodput"] < row(better)["goodput"] <= 1


def test_the_best_interval_is_the_best() -> None:
    base = ("run.failures={rate: 20 /1000 node-days}", "run.checkpoint.mode=sync")
    best = row(*base)
    for factor in (0.5, 0.8, 1.25, 2.0):
        other = f"run.checkpoint.interval={best['checkpoint_interval'] * factor:.0f} s"
        assert row(*base, other)["goodput"] <= best["goodput"]


def test_intervals_are_whole_steps() -> None:
    whole = row("run.checkpoint.interval=30 min")
    steps = whole["checkpoint_interval"] / whole["step_time"]
    assert steps == pytest.approx(round(steps), abs=1e-9)
    assert row("run.checkpoint.steps=100")["checkpoint_interval"] == pytest.approx(100 * whole["step_time"])


def test_a_notice_long_enough_saves_the_work() -> None:
    spot = "run.spot={{price: 1 USD/GPU/h, preempted_every: 48 h, notice: {}}}"
    short, long = (row(spot.format(notice)) for notice in ("10 s", "2 min"))
    assert short["goodput"] < long["goodput"]
    assert short["run_cost"] > long["run_cost"]
    assert short["mtbf"] == long["mtbf"] < row("run={}")["mtbf"]


def test_spares_are_paid_for_and_cover_repairs() -> None:
    """Of 2,048 nodes at 3.789 with repairs of two days 25 spares are enough 99 % of the time."""
    nodes = ("cluster.nodes=2048", "workload.global_batch=2048")
    answer = asked(*nodes, "run.failures={rate: 3.789 /1000 node-days, repair: {time: 2 days}}")
    assert answer.inputs.run is not None
    assert float(spares_wanted(answer.inputs, answer.inputs.run)) == 25
    more = row("run.spares=8")
    assert more["run_cost"] == pytest.approx(row("run={}")["run_cost"] * 72 / 64)
    assert more["energy"] > row("run={}")["energy"]


def test_energy_is_that_of_the_nodes() -> None:
    """10.2 kW a node by its rating, 76 % of it drawn, cooled at 1.2; while nothing trains it draws 37 % of that."""
    whole, lost = row("run={}"), parts("run={}")
    full = 64 * 10.2e3 * 0.76 * 1.2 * whole["run_time"]
    assert whole["energy"] == pytest.approx(full * (1 - 0.63 * lost["restarts"]), rel=1e-9)
    assert whole["emissions"] == pytest.approx(whole["energy"] / 3.6e6 * 0.367, rel=1e-9)
    stated = row("run.power={draw: 500 W, pue: 1, idle: 100 %, grid: france}")
    assert stated["energy"] == pytest.approx(512 * 500 * stated["run_time"])
    assert stated["emissions"] == pytest.approx(stated["energy"] / 3.6e6 * 0.057)


def test_model_cards_are_reproduced() -> None:
    """Llama 2 70B: 1,720,320 GPU-hours at 400 W, PUE 1.1 and 385 g: 291.42 t."""
    hours = 1_720_320
    found = row("run.power={draw: 400 W, pue: 1.1, idle: 100 %, grid: us-average-2021}")
    assert found["emissions"] / (found["run_time"] * 512 / HOUR) * hours / 1e3 == pytest.approx(291.42, rel=2e-3)


def test_bands_hold_their_values_and_widen_with_the_rate() -> None:
    whole = row("run={}")
    for name in ("goodput", "run_time", "run_cost", "energy", "emissions", "mtbf"):
        assert whole[f"{name}_low"] < whole[name] < whole[f"{name}_high"], name
    assert whole["goodput_high"] <= 1
    sure = row("run.failures={rate: 3.789 /1000 node-days}", "run.restart.start=10 min")
    assert sure["goodput_low"] == pytest.approx(sure["goodput"], rel=1e-12)
    ratio = whole["run_time_high"] / whole["run_time"]
    assert ratio > sure["run_time_high"] / sure["run_time"]


def test_a_slow_loader_sets_the_pace() -> None:
    free, fed = row("run={}"), row("run.loader=100 ktokens/s")
    assert fed["step_time"] == free["step_time"]
    assert fed["run_time"] * fed["goodput"] == pytest.approx(15e12 / 100e3)


def test_elastic_goes_on_where_replicas_hold_all_states() -> None:
    elastic = "run.elastic={regroup: 60 s, repair: 1 h}"
    assert asked(elastic).refused == ("R003",)
    hsdp = row(elastic, "plan.dp_replicate=2")
    assert hsdp["goodput"] == pytest.approx((1 - HOUR / (2 * hsdp["mtbf"])) * math.exp(-60 / hsdp["mtbf"]))


def test_checkpoints_faster_than_their_writes_are_refused() -> None:
    assert asked("run.checkpoint.interval=16 s").broken == ("R001",)
    assert asked("run={}").broken == ()


def test_copies_that_the_hosts_do_not_hold_are_refused() -> None:
    small = "cluster.node.memory.capacity=40 GB"
    assert asked("run.checkpoint.mode=memory", small).broken == ("R002",)
    assert asked("run.checkpoint.mode=async", small).broken == ()


def test_memory_needs_no_storage_for_soft_failures() -> None:
    """A slow store costs a run that also saves to memory less."""
    slow = ("run.failures={rate: 60 /1000 node-days, soft: {share: 75 %}}", "run.checkpoint.storage.write=0.5 GB/s")
    assert row(*slow, "run.checkpoint.mode=memory")["goodput"] > row(*slow)["goodput"]


@pytest.mark.parametrize(
    ("assignment", "code"),
    [
        ("run.failures.rate=3.8", "D007"),
        ("run.failures.rate=3.8 /day", "D007"),
        ("run.failures.job.rate=2 /1000 node-days", "D007"),
        ("run.checkpoint.storage.write=100 GB", "D007"),
        ("run.power.draw=1 kWh", "D007"),
        ("run.checkpoint={interval: 100 steps, steps: 50}", "D007"),
        ("run.checkpoint.interval=0 s", "D008"),
        ("run.checkpoint.mode=fast", "D010"),
        ("run.failures=nowhere", "D009"),
        ("run.spot={price: 1 USD/GPU/h}", "D004"),
        ("run.restart.starts=1 s", "D003"),
        ("run.checkpoint={interval: 30 min, steps: 100}", "D006"),
        ("run.failures={rate: 3 /1000 node-days, low: 5 /1000 node-days, high: 4 /1000 node-days}", "D006"),
    ],
)
def test_what_cannot_stand_there_is_a_fault(assignment: str, code: str) -> None:
    with pytest.raises(CostModelError) as caught:
        load(NAME, [assignment])
    assert caught.value.faults[0].code == code


def test_every_default_is_listed_with_its_source() -> None:
    listed = {item.path: item.origin for item in asked("run={}").assumed if item.path.startswith("run.")}
    assert {
        "run.failures.rate",
        "run.checkpoint.storage.write",
        "run.checkpoint.storage.read",
        "run.checkpoint.block",
        "run.checkpoint.interference",
        "run.restart.start",
        "run.power.draw",
        "run.power.idle",
        "run.power.pue",
        "run.power.grid",
    } <= listed.keys()
    assert all(listed.values())


@settings(max_examples=40)
@given(
    rate=st.floats(0.01, 100),
    start=st.floats(1, 3600),
    write=st.floats(0.1, 1000),
    mode=st.sampled_from(["sync", "async", "memory"]),
)
def test_goodput_is_a_share(rate: float, start: float, write: float, mode: str) -> None:
    changes: list[Any] = [
        f"run.failures={{rate: {rate:.6f} /1000 node-days, soft: {{share: 50 %}}}}",
        f"run.restart.start={start:.6f} s",
        f"run.checkpoint={{mode: {mode}, storage: {{write: {write:.6f} GB/s}}}}",
    ]
    answer = predict(load("quickstart", changes))
    whole = answer.evaluation.costs.row()
    assert 0 < whole["goodput"] <= 1
    assert whole["goodput_low"] <= whole["goodput"] <= whole["goodput_high"] * (1 + 1e-12)


def test_a_rate_that_is_set_alone_has_no_band_of_others() -> None:
    """The ends of the shipped band are those of other clusters; an end that is set with it counts."""
    alone = row("run.failures.rate=200 /1000 node-days")
    wider = row("run.failures.rate=200 /1000 node-days", "run.failures.high=400 /1000 node-days")
    written = row("run.failures={rate: 200 /1000 node-days}")
    assert alone["goodput_low"] == pytest.approx(written["goodput_low"], rel=0.02)
    assert wider["goodput_low"] < alone["goodput_low"]
