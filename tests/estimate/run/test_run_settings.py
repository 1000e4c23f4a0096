"""Settings of a whole run: fewer ranks until a repair, power caps, tariffs, spares for a share of the time, data."""

from __future__ import annotations

import functools
import math
import re
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from costmodel.documents.reader.load_scenario import load
from costmodel.estimate.run.whole_run import spares_of
from costmodel.estimate.training_answer.predict_training import Answer, predict
from costmodel.explore.explain.plan_choice_effects import explained_plan
from costmodel.ground.errors import CostModelError
from costmodel.report.answers.run import run_document, run_json
from costmodel.report.answers.training_view import TrainingView
from costmodel.report.terminal.document_lines import document_lines
from costmodel.report.terminal.layout import laid_out

NAME = "llama-3-70b-512"
DAY = 86400.0
REPAIR = "run.failures={rate: 3.789 /1000 node-days, repair: {time: 2 days}}"


@functools.cache
def asked(*assignments: str) -> Answer:
    return predict(load(NAME, assignments))


def row(*assignments: str) -> dict[str, float]:
    return asked(*assignments).evaluation.costs.row()


def view(*assignments: str) -> TrainingView:
    return TrainingView(explained_plan(load(NAME, assignments)))


def printed(*assignments: str, width: int | None = 80) -> str:
    return "\n".join(line.plain for line in laid_out(document_lines(run_document(view(*assignments))), width))


def electricity(*assignments: str) -> float:
    found: float = run_json(view(*assignments))["run"]["electricity_usd"]
    return found


def played(mtbf: float, cycle: tuple[float, float], restart: float, repair: float, speed: float) -> float:
    """Goodput of a run that continues slower from each interruption until a repair, interruption by interruption."""
    draw, (interval, stop) = np.random.default_rng(3), cycle
    clock = saved = work = 0.0
    repaired, fails = -1.0, draw.exponential(mtbf)
    while saved < 60000 * interval:
        slow = clock < repaired
        end = clock + (interval / speed if slow else interval) + stop
        if fails < end:
            clock, work = fails + restart, saved
            repaired, fails = fails + repair, fails + draw.exponential(mtbf)
            continue
        clock, work = end, work + interval
        saved = work
        if slow and clock >= repaired:
            clock += restart
    return saved / clock


@pytest.mark.parametrize(("rate", "days"), [(20, 0.25), (40, 0.1), (10, 1)])
def test_fewer_ranks_until_a_repair_played_out(rate: float, days: float) -> None:
    failures = f"run.failures={{rate: {rate} /1000 node-days, repair: {{time: {days} days}}}}"
    found = row(failures, "run.restart.ranks=480", "run.checkpoint.mode=sync")
    cycle = found["checkpoint_interval"], found["checkpoint_blocking"]
    whole = played(found["mtbf"], cycle, found["restart_time"], days * DAY, 64 / math.ceil(64 * 16 / 15))
    assert found["goodput"] == pytest.approx(whole, rel=4e-3)
    assert found["goodput"] < row(failures, "run.checkpoint.mode=sync")["goodput"]


def test_ranks_that_go_on_are_whole_replicas() -> None:
    assert asked(REPAIR, "run.restart.ranks=500").refused == ("R013",)
    assert asked(REPAIR, "run.restart.ranks=512").refused == ("R013",)
    assert asked(REPAIR, "run.restart.ranks=480").refused == ()
    assert "480 ranks for 2.00 days, at 92.8 % of the speed; 52.1 ms to" in printed(REPAIR, "run.restart.ranks=480")


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        (["run.restart.ranks=480"], "D016"),
        (["run.spares=99 %"], "D016"),
        ([REPAIR, "run.restart.ranks=480", "run.spares=99 %"], "D006"),
        ([REPAIR, "run.restart.ranks=480", "run.checkpoint.mode=memory"], "D006"),
        ([REPAIR, "run.spares=20 %"], "D008"),
        (["run.power.tariff=0.08 USD"], "D007"),
    ],
)
def test_what_cannot_stand_together_is_a_fault(settings: list[str], code: str) -> None:
    with pytest.raises(CostModelError) as caught:
        predict(load(NAME, settings))
    assert caught.value.faults[0].code == code


def test_spares_for_a_share_of_the_time_are_a_number_of_nodes() -> None:
    """Of 2,048 nodes at 3.789 with repairs of two days 25 are enough 99 % of the time."""
    large = (REPAIR, "cluster.nodes=2048", "workload.global_batch=2048")
    found = asked(*large, "run.spares=99 %")
    assert found.inputs.run is not None
    assert float(spares_of(found.inputs, found.inputs.run)) == 25
    assert row(*large, "run.spares=99 %") == pytest.approx(row(*large, "run.spares=25"), nan_ok=True)
    assert "25 paid for; 25 nodes (25 at P90) cover repairs 99 % of the time" in printed(*large, "run.spares=99 %")


def test_without_spares_a_run_waits_for_each_repair() -> None:
    """By 64 nodes at 3.789 failures a 1,000 node-days; without a repair time a replacement is assumed at once."""
    spared = (REPAIR, "run.spares=4")
    costs = row(*spared)
    wall = costs["run_time"] * (1 + 64 * 3.789e-3 * 2)
    cost = costs["run_cost"] * wall / costs["run_time"] * 64 / 68
    words = f"{wall / 86400:.0f} days, ${cost / 1e6:.1f} M, as each failure waits for its repair"
    assert words in printed(*spared, width=None)
    assert "a replacement is assumed to be ready" in printed("run={}", width=None)


def test_a_short_answer_states_lost_time_power_emissions_and_how_to_plan_spares(run: Any) -> None:
    """Lost: what the goodput leaves of the run; power: its energy over its time."""
    costs, command = row("run={}"), ("run", NAME)
    shown = run(*command, brief=True).out
    assert f"{(1 - costs['goodput']) * costs['run_time'] / 3600:.1f} h are lost" in shown
    assert f"{costs['energy'] / costs['run_time'] / 1e3:.0f} kW at the meter" in shown
    assert f"{costs['emissions'] / 1e3:,.0f} t of CO2" in shown
    settings = re.search(r"none; add (--set \S+ --set \S+)", shown)
    assert settings is not None
    assert "as each failure waits for its repair" in run(*command, *settings[1].split(), brief=True).out
    assert settings[1] in run(*command, "--spares", "4").err


def test_a_run_has_the_chance_to_end_in_time() -> None:
    costs = row("run={}", "limits.run_time.at_most=340 days")
    spread = math.log(costs["run_time_high"] / costs["run_time"]) / NormalDist().inv_cdf(0.9)
    chance = NormalDist(math.log(costs["run_time"]), spread).cdf(math.log(340 * 86400.0))
    assert f"The run ends within 340 days with a chance of {chance:.0%}".replace("%", " %") in printed(
        "run={}", "limits.run_time.at_most=340 days"
    )


def test_a_cap_trades_time_for_energy() -> None:
    """Clocks fall with the cube root of the power: at 500 of 700 W products take 1.119 times as long."""
    free, capped = row("run={}"), row("run.power.cap=500 W")
    assert asked("run.power.cap=500 W").inputs.device_slowdown == pytest.approx(
        float(asked("run={}").inputs.device_slowdown) * 1.4 ** (1 / 3)
    )
    assert 1 < capped["step_time"] / free["step_time"] < 1.119
    assert capped["run_time"] > free["run_time"]
    longer = capped["run_time"] / free["run_time"]
    assert capped["energy"] / free["energy"] == pytest.approx(longer * (10200 - 8 * 200) / 10200, rel=1e-3)


def test_caps_without_effect_or_outside_their_law_are_remarked() -> None:
    said = {"N036", "N044"}
    assert said & {*asked("run.power.cap=700 W").remarked} == {"N036"}
    assert row("run.power.cap=700 W")["step_time"] == row("run={}")["step_time"]
    assert said & {*asked("run.power.cap=400 W").remarked} == {"N044"}
    assert not said & {*asked("run.power.cap=500 W").remarked}


def test_electricity_has_the_tariff_of_the_grid_or_the_stated_one() -> None:
    usual, stated = electricity("run={}"), electricity("run.power.tariff=1 USD/kWh")
    assert stated == pytest.approx(row("run={}")["energy"] / 3.6e6)
    assert usual == pytest.approx(0.0806 * stated)
    assert electricity("run.power.grid=france") is None


def test_a_slow_store_of_data_sets_the_pace() -> None:
    """Images of 100 kB that stand for a token each, from a store of 10 GB/s."""
    slow = "run.data={read: 10 GB/s, token: 100 kB}"
    found = row(slow)
    assert found["step_time"] == row("run={}")["step_time"]
    assert found["run_time"] * found["goodput"] == pytest.approx(15e12 * 100e3 / 10e9)
    assert "each step waits" in printed(slow)
    assert row("run.data={read: 10 GB/s, token: 4 B}") == pytest.approx(row("run={}"), nan_ok=True)


def test_a_run_that_saves_hardly_any_work_is_remarked() -> None:
    """A checkpoint each month where interruptions are four days apart."""
    rare = "run.checkpoint.interval=30 days"
    assert "N037" in asked(rare).remarked
    assert "N037" not in asked("run={}").remarked
    assert " – ∞" in printed(rare)
    assert "E)" not in printed(rare)


def test_a_share_has_an_end_where_hardly_any_work_is_saved() -> None:
    often = next(line for line in printed("run.failures.rate=1/node-hour").splitlines() if "goodput" in line)
    assert "∞" not in often


def test_a_rate_stated_alone_says_that_it_has_no_band() -> None:
    paths = {item.path for item in asked("run.failures.rate=4 /1000 node-days").assumed}
    assert "run.failures.low, high" in paths
    assert "run.failures.low, high" not in {item.path for item in asked("run={}").assumed}


def test_a_stop_longer_than_the_time_out_of_collectives_is_remarked() -> None:
    """One writer at 2 MB/s for each rank: NVIDIA-NeMo/Speech #14576 saves 235B in 1,500 s, and times out."""
    slow = ("run.checkpoint.mode=sync", "run.checkpoint.writer=2 MB/s")
    assert row(*slow)["checkpoint_blocking"] > 600
    assert "N038" in asked(*slow).remarked
    assert "N038" not in asked("run.checkpoint.mode=async", "run.checkpoint.writer=2 MB/s").remarked


def test_an_interval_may_be_a_number_of_steps() -> None:
    assert row("run.checkpoint.interval=250 steps") == pytest.approx(row("run.checkpoint.steps=250"), nan_ok=True)
    assert row("run.checkpoint.interval=250 steps")["checkpoint_interval"] == 250 * row("run={}")["step_time"]


def test_elastic_alone_takes_what_is_usual() -> None:
    """The replica is back after the repair, and all stop as long as for a start."""
    usual = ("plan.dp_replicate=2", "run.failures={rate: 3.789 /1000 node-days, repair: 2 days}")
    written = "run.elastic={regroup: 10 min, repair: 2 days}"
    assert row(*usual, "run.elastic=true") == pytest.approx(row(*usual, written), nan_ok=True)
    assert {"run.elastic.regroup", "run.elastic.repair"} <= {
        item.path for item in asked(*usual, "run.elastic=true").assumed
    }
    assert row(*usual, "run.elastic=false") == pytest.approx(row(*usual), nan_ok=True)
    with pytest.raises(CostModelError):
        predict(load(NAME, ["run.elastic=true"]))


# ── Interruptions of a whole job ─────────────────────────────────────────────────────────────────────────────────────


def test_a_rate_of_a_whole_job_is_that_of_its_nodes() -> None:
    """Llama 3: 419 unexpected interruptions in 54 days on 16,384 GPUs, one each 3.09 h, 3.789 per 1,000 node-days."""
    every = 54 * 24 / 419
    assert every == pytest.approx(3.09, abs=0.005)
    observed = row(f"run.failures={{every: {every!r} h, gpus: 16384}}")
    assert observed["mtbf"] == pytest.approx(every * 3600 * 2048 / 64)
    assert observed["mtbf"] == pytest.approx(row("run.failures={rate: 3.789 /1000 node-days}")["mtbf"], rel=2e-4)
    assert observed["goodput"] == pytest.approx(row("run.failures=llama-3")["goodput"], rel=2e-4)


def test_a_rate_of_this_job_needs_no_number_of_accelerators() -> None:
    assert row("run.failures={every: 3 h}")["mtbf"] == pytest.approx(3 * 3600)
    assert row("run.failures={every: 3 h}", "cluster.nodes=32", "plan.dp=8")["mtbf"] == pytest.approx(3 * 3600)
    assert row("run.failures.every=3 h")["mtbf"] == pytest.approx(3 * 3600)  # in the place of the usual rate


def test_half_the_failures_can_be_set_where_the_rate_is_of_the_job() -> None:
    text = printed("run.failures={every: 3 h}", width=None)
    (setting,) = re.findall(r"half the failures of nodes.*--set '([^']*)'", text)
    assert row("run.failures={every: 3 h}", setting)["mtbf"] == pytest.approx(6 * 3600, rel=1e-3)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("{every: 3 h, rate: 2 /1000 node-days}", "one of the two"),
        ("{repair: 2 days}", "one of the two"),
        ("{every: 3 h, low: 2 /1000 node-days}", "no low beside it"),
        ("{rate: 2 /1000 node-days, gpus: 8}", "gpus goes with every"),
    ],
)
def test_rates_that_contradict_each_other(given: str, words: str) -> None:
    with pytest.raises(CostModelError, match=words):
        load(NAME, [f"run.failures={given}"])
