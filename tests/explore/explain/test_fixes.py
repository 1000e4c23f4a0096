"""What is offered where nothing works: what people would do, in the order of its price, each with its true figures."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from estimate.cases import document, model

from costmodel.documents.reader.library import names, read
from costmodel.documents.reader.load_scenario import load
from costmodel.documents.reader.resolved_scenario import ResolvedScenario
from costmodel.estimate.training_answer.predict_training import Answer, predict
from costmodel.explore.explain import plan_remedies
from costmodel.explore.explain.plan_remedies import remedies
from costmodel.explore.search.cheapest_changes import Remedy, safest
from costmodel.explore.search.required_chance import preferring
from costmodel.explore.search.search import search, with_remedies
from costmodel.report.terminal.layout import laid_out
from costmodel.report.terminal.refusals import remedy_lines

PRICES = ["", "time", "quality", "money", "job"]
EIGHT_B: dict[str, Any] = {
    **document("llama-3.1-8b", node="rtx4090-8", sequence=512, global_batch=1, stack="ddp"),
    "plan": {"tp": 1, "micro_batch": 1, "recompute": "full"},
}
EIGHT_B["workload"] |= {"gradients": "bf16", "optimizer": "adam-8bit"}
SEVEN: dict[str, Any] = {
    **document("llama-3-8b", nodes=1, sequence=8192, global_batch=512),
    "plan": {"micro_batch": 1},
}
ON_A_CLOUD_NODE: dict[str, Any] = {
    **document("llama-3.2-3b", node="rtx4090-8", sequence=1024, global_batch=16, stack="deepspeed"),
    "plan": {"tp": 1, "micro_batch": 1, "zero": 3, "recompute": "full", "offload": ["optimizer", "parameters"]},
}


def loaded(folder: Path, scenario: dict[str, Any], *settings: str) -> ResolvedScenario:
    path = folder / "asked.yaml"
    path.write_text(json.dumps(scenario))
    return load(str(path), settings)


def answered(folder: Path, scenario: dict[str, Any], *settings: str) -> Answer:
    return predict(loaded(folder, scenario, *settings))


def room(nbytes: float) -> tuple[str, str]:
    """Settings for a card with so much memory."""
    memory = "cluster.accelerator.memory"
    return f"{memory}.capacity={nbytes / 2**30 + 1:.4f} GiB", f"{memory}.usable={nbytes / 2**30:.4f} GiB"


def keys(found: list[Remedy]) -> list[str]:
    return [remedy.settings[0].partition("=")[0] for remedy in found]


LEARNT = ("workload.sequence", "workload.tuning")  # keys that change what is learnt, which go last


def in_order(found: list[Remedy]) -> bool:
    learnt = [remedy.settings[0].startswith(LEARNT) for remedy in found]
    places = [PRICES.index(remedy.price) for remedy in found[: len(found) - sum(learnt)]]
    return places == sorted(places) and learnt == sorted(learnt)


# ── The chance to fit, and the work ──


def test_only_plans_with_the_preferred_chance_are_offered(tmp_path: Path) -> None:
    """Within a tight memory the average prediction offers more; followed, each of the others fits with 90 %."""
    base = document("llama-2-7b", nodes=1, sequence=4096, global_batch=512, stack="deepspeed")
    asked = {**base, "plan": {"recompute": "full", "zero": 3, "micro_batch": 8}}
    before, after = (
        answered(tmp_path, asked, *settings).evaluation.costs.row()["memory_peak"]
        for settings in ((), ("plan.micro_batch=4",))
    )
    tight = room((before + 3 * after) / 4)
    case = loaded(tmp_path, asked, *tight)
    expected, safe = (remedies(predict(preferring(case, share)), "M001") for share in (None, 0.9))

    def chance(remedy: Remedy) -> float:
        return float(answered(tmp_path, asked, *tight, *remedy.settings).evaluation.costs.row()["fit_chance"])

    assert min(map(chance, expected)) < 0.9 <= min(map(chance, safe))
    assert [remedy.chance for remedy in safe] == pytest.approx([*map(chance, safe)])
    (surest,) = remedies(predict(preferring(case, 1.0)), "M001")
    assert surest.chance is not None
    assert max(map(chance, [*expected, *safe])) <= surest.chance < 1


def test_of_plans_at_risk_the_surest_is_offered_with_its_chance() -> None:
    found = [Remedy(((f"plan.micro_batch={size}",),), chance=chance) for size, chance in ((4, 0.55), (2, 0.83))]
    assert safest(found, None) == found
    (offered,) = safest(found, 0.9)
    assert offered.settings == ("plan.micro_batch=2",)
    drawn = " ".join(line.plain for line in laid_out(remedy_lines([offered], indent=""), None))
    assert "fits with a chance of 83 %" in drawn


@pytest.mark.parametrize("name", ["glm-5", "deepseek-v3", "llama-3.1-405b"])
def test_remedies_take_bounded_work(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are computed of plans that fit alone, and no node is tried that the plan is too large for."""
    counted: Counter[str] = Counter()
    for work in ("evaluate", "memory_of", "vary"):
        original = getattr(plan_remedies, work)

        def counting(*asked: Any, work: str = work, original: Any = original) -> Any:
            counted[work] += 1
            return original(*asked)

        monkeypatch.setattr(plan_remedies, work, counting)
    assert remedies(predict(preferring(load("quickstart", [f"model={name}"]))), "M001")
    assert counted["vary"] <= 36
    assert counted["memory_of"] <= 72
    assert counted["evaluate"] <= 12


def test_a_valid_plan_that_does_not_fit_is_named_as_a_remedy_of_an_invalid_one(run: Any) -> None:
    ran = run("estimate", "quickstart", "--set", "model=gpt-3-175b")
    assert ran.code == 1
    assert re.search(r"try  --set workload.sequence=2048 .* does not fit", ran.out)


# ── One plan ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_full_fine_tune_on_24_gb_is_offered_adapters_and_larger_gpus(tmp_path: Path) -> None:
    """8 B parameters of which each costs more than 3 bytes fit no card of 24 GB; frozen in 16 or 4 bits they do."""
    given = answered(tmp_path, EIGHT_B, "cluster.node.accelerators=1")
    assert given.broken == ("M001",)
    found = remedies(given, "M001")
    assert in_order(found)
    settings = [remedy.settings[0] for remedy in found]
    assert settings[-2:] == ["workload.tuning={method: lora}", "workload.tuning={method: qlora}"]
    assert all(remedy.price == "money" for remedy in found[:-2])
    for remedy in found:
        then = answered(tmp_path, EIGHT_B, "cluster.node.accelerators=1", *remedy.settings)
        costs = then.evaluation.costs.row()
        assert (then.refused, then.broken) == ((), ())
        assert (remedy.memory_peak, remedy.step_time) == (costs["memory_peak"], costs["step_time"])
        assert then.inputs.ranks == 1, "another GPU, not another number of them"


def test_what_costs_time_goes_before_what_costs_money_and_another_job(tmp_path: Path) -> None:
    """A plan too large for many reasons hears of all of them, once each."""
    asked = document("llama-3-8b", nodes=1, sequence=8192, global_batch=64, stack="fsdp2")
    given = answered(tmp_path, {**asked, "plan": {"zero": 3, "micro_batch": 4, "recompute": "none"}})
    assert given.broken == ("M001",)
    found = remedies(given, "M001")
    assert in_order(found)
    assert len(keys(found)) == len({*(remedy.settings for remedy in found)})
    prices = {remedy.price for remedy in found}
    assert prices == {"time", "money", "job"}
    assert all(remedy.note.startswith("another job: ") for remedy in found if remedy.price == "job")
    assert found[0].note == "best plan found"
    of_time = [remedy.step_time for remedy in found[1:] if remedy.price == "time"]
    assert of_time == sorted(of_time), "the fastest first"
    assert {"plan.micro_batch", "plan.offload", "workload.sequence", "cluster.node"} <= {*keys(found)}


@pytest.mark.parametrize(
    ("plan", "changed"),
    [
        ({"zero": 3}, "workload.optimizer=adam-8bit"),
        ({"zero": 3}, "plan.offload=[optimizer]"),
        ({"zero": 3}, "cluster.nodes=64"),
        ({"zero": 3}, "workload.tuning={method: lora}"),
        ({"zero": 0}, "plan.zero=3"),
        ({"zero": 3, "recompute": "selective"}, "plan.recompute=full"),
        ({"zero": 3, "micro_batch": 8}, "plan.micro_batch=1"),
        ({"zero": 3, "micro_batch": 4}, "workload.sequence=1024"),
    ],
)
def test_where_one_key_does_it_it_is_offered(plan: dict[str, Any], changed: str, tmp_path: Path) -> None:
    """The memory of the card is set between what the plan takes and what it takes with that key changed."""
    base = document("llama-2-7b", nodes=1, sequence=4096, global_batch=512, stack="deepspeed")
    asked = {**base, "plan": {"recompute": "full", **plan}}
    before, after = (
        answered(tmp_path, asked, *settings).evaluation.costs.row()["memory_peak"] for settings in ((), (changed,))
    )
    assert after < before
    found = remedies(answered(tmp_path, asked, *room((before + after) / 2)), "M001")
    assert changed.partition("=")[0] in keys(found)


def test_what_no_one_key_does_several_do(tmp_path: Path, run: Any) -> None:
    """70 B parameters on eight cards of 24 GB, no key of which is enough: the fewest settings that are together."""
    asked = document("llama-3-70b", node="rtx4090-8", sequence=4096, global_batch=64, stack="deepspeed")
    asked["plan"] = {"zero": 1, "micro_batch": 2, "recompute": "none"}
    given = answered(tmp_path, asked)
    found = [remedy for remedy in remedies(given, "M001") if remedy.price != "money"]
    (together,) = found
    assert len(together.settings) > 1
    then = answered(tmp_path, asked, *together.settings)
    assert (then.refused, then.broken) == ((), ())
    for setting in together.settings:
        fewer = (other for other in together.settings if other != setting)
        left = answered(tmp_path, asked, *fewer)
        assert left.refused or left.broken, f"{setting} is needed"
    assert together.price == "job"
    assert "another job: trains adapters" in run("estimate", str(tmp_path / "asked.yaml")).out


def test_a_plan_that_does_not_fit_hears_first_of_the_best_one(tmp_path: Path, run: Any) -> None:
    """That of `search` on the same file; the largest part of the memory is named."""
    mine = tmp_path / "mine.yaml"
    mine.write_text(run("show", "llama-3-70b-512").out.replace("tp: 8", "tp: 1"), "utf-8")
    given = predict(preferring(load(str(mine)), 0.9))
    first, *_ = remedies(given, "M001")
    best = json.loads(run("search", str(mine), "--top", "1", "--json").out)["plans"][0]
    assert (first.note, first.step_time) == ("best plan found", pytest.approx(best["step_time_s"]))
    options = [word for setting in first.settings for word in ("--set", setting)]
    (then,) = json.loads(run("estimate", str(mine), *options, "--json").out)["plans"]
    assert (then["fits"], then["step_time_s"]) == (True, pytest.approx(best["step_time_s"]))
    assert "; the largest part: activations " in run("estimate", str(mine)).out


def test_two_changes_of_the_software_are_offered_together_and_keep_the_job(run: Any) -> None:
    """LoRA of 16k tokens on 24 GB: neither a chunked loss nor 4-bit weights are enough, both are."""
    job = ("--model", "qwen3-8b", "--gpu", "rtx-4090", "--gpus", "1", "--sequence", "16Ki", "--batch", "8")
    lora = ("--set", "workload.tuning={method: lora}")
    for verb in ("estimate", "search"):
        out = run(verb, *job, *lora).out
        assert "no single key is enough; these together are" in out
        assert "the largest part: logits " in out
        first = next(line for line in out.splitlines() if line.strip().startswith("quality"))
        settings = re.findall(r"--set (\S+)", first)
        assert {"stack.loss=chunked", "workload.tuning.method=qlora"} == {*settings}
        assert "workload.sequence" not in out or " job " in out
    options = [word for setting in settings for word in ("--set", setting)]
    assert run("estimate", *job, *lora, *options).code == 0


@pytest.mark.parametrize(("sequence", "offered"), [(65536, True), (8192, False)])
def test_a_loss_in_chunks_is_offered_where_logits_take_most_of_the_memory(
    sequence: int, offered: bool, tmp_path: Path
) -> None:
    """65,536 tokens × 128,256 words × 10 B are 78 GiB; the shorter sequence fails by activations."""
    job = document("llama-3.1-8b", sequence=sequence, global_batch=16, stack="transformers-deepspeed")
    plan = {} if offered else {"zero": 0, "recompute": "none"}
    given = answered(tmp_path, {**job, "plan": {"tp": 1, "micro_batch": 1, **plan}})
    found = remedies(given, "M001")
    chunked = [each for each in found if "stack.loss=chunked" in each.settings]
    assert bool(chunked) is offered
    for remedy in chunked:
        assert answered(tmp_path, {**job, "plan": {"tp": 1, "micro_batch": 1, **plan}}, *remedy.settings).broken == ()


@pytest.mark.parametrize("node", ["rtx4090-8", "p4d", "p5", "nd96asr-v4", "pcie-l40s-8", "a3-highgpu-8g"])
def test_offload_to_an_unstated_host_assumes_one_and_says_so(node: str, tmp_path: Path, run: Any) -> None:
    given = answered(tmp_path, ON_A_CLOUD_NODE, f"cluster.node={node}")
    assert (given.refused, given.broken) == ((), ())
    assert "N025" in given.remarked
    assumed = {item.path: item.origin for item in given.assumed}
    link = given.inputs.case.node.host
    assert assumed["cluster.node.memory.capacity"] == f"least of shipped nodes with {link}"
    assert "(assumed)" in run("memory", str(tmp_path / "asked.yaml"), "--set", f"cluster.node={node}").out


def test_a_stated_host_is_not_assumed(tmp_path: Path) -> None:
    stated = "cluster.node.memory={capacity: 64 GB, bandwidth: 51.2 GB/s, source: own-figures, check: known}"
    given = answered(tmp_path, ON_A_CLOUD_NODE, stated)
    assert "N025" not in given.remarked
    assert given.inputs.host.capacity == 64e9
    assert not any(item.path.startswith("cluster.node.memory") for item in given.assumed)


def test_the_assumed_host_is_the_least_of_shipped_nodes_with_its_link() -> None:
    nodes = [read("node", name) for name in names("node")]
    stated = [node for node in nodes if node.memory is not None and isinstance(node.host, str)]
    assumed = read("efficiency", "unmeasured").host.memory
    assert {node.host for node in nodes if node.memory is None} - {None} <= {*assumed}
    for link, memory in assumed.items():
        alike = [node for node in stated if node.host == link]
        for name in ("capacity", "bandwidth"):
            least = min(getattr(node.memory, name) / node.accelerators for node in alike)
            assert getattr(memory, name) == pytest.approx(least, rel=1e-3)


def test_drives_that_no_document_states_are_named_with_what_to_set(tmp_path: Path, run: Any) -> None:
    """The node's document says nothing of its drives: one --set does, with a source that is there."""
    given = answered(tmp_path, ON_A_CLOUD_NODE, "plan.offload_to=nvme")
    assert given.refused == ("L043",)
    first, *_ = remedies(given, "L043")
    assert first.settings[-1].startswith("cluster.node.drives={capacity: ")
    then = answered(tmp_path, ON_A_CLOUD_NODE, "plan.offload_to=nvme", *first.settings)
    assert (then.refused, then.broken) == ((), ())
    ran = run("memory", str(tmp_path / "asked.yaml"), "--set", "plan.offload_to=nvme")
    assert shlex.quote(first.settings[-1]) in ran.out
    assert "put your own" in ran.out


def test_a_full_fine_tune_on_one_gpu_says_what_is_not_modelled(tmp_path: Path) -> None:
    given = answered(tmp_path, EIGHT_B, "cluster.node.accelerators=1")
    assert "N026" in given.remarked
    tuned = answered(tmp_path, EIGHT_B, "cluster.node.accelerators=1", "workload.tuning={method: lora}")
    assert "N026" not in tuned.remarked


# ── A search ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_search_on_seven_gpus_names_the_batch(tmp_path: Path, run: Any) -> None:
    """One of eight GPUs is taken: seven replicas divide 504 and 511 sequences, not 512."""
    found = with_remedies(search(loaded(tmp_path, SEVEN, "cluster.node.accelerators=7"), workers=1))
    assert found.tally.evaluated == 0
    assert in_order(found.remedies)
    (batch,) = (remedy for remedy in found.remedies if keys([remedy]) == ["workload.global_batch"])
    assert {"workload.global_batch=504", "workload.global_batch=511"} <= {*batch.assignments}
    for remedy in found.remedies:
        for settings in remedy.alternatives:
            then = search(loaded(tmp_path, SEVEN, "cluster.node.accelerators=7", *settings), workers=1)
            assert then.tally.evaluated > 0
    ran = run("search", str(tmp_path / "asked.yaml"), "--set", "cluster.node.accelerators=7")
    assert ran.code == 1
    assert "No plan is valid." in ran.out
    assert "--set workload.global_batch=511 (or 518 or 504)" in ran.out


@pytest.mark.parametrize("count", [3, 5, 6, 7])
def test_so_does_one_on_any_number_that_divides_nothing(count: int, tmp_path: Path) -> None:
    case = loaded(tmp_path, SEVEN, f"cluster.node.accelerators={count}")
    found = with_remedies(search(case, workers=1))
    if found.tally.evaluated == 0:
        assert "workload.global_batch" in keys(found.remedies)


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        (("search.tp=[3, 6]",), "search.tp=["),
        (("plan.tp=3",), "plan.tp="),
        (("plan={tp: 3, pp: 2}",), "plan.tp="),
        (("plan.offload_to=nvme",), "plan.offload_to=cpu"),
    ],
)
def test_a_constraint_that_leaves_no_valid_plan_is_named_with_a_value_that_does(
    settings: tuple[str, ...], wanted: str
) -> None:
    found = with_remedies(search(load("llama-3-70b-512", settings), workers=1))
    assert found.tally.evaluated == 0
    assert found.remedies[0].settings[0].startswith(wanted)
    mended = search(load("llama-3-70b-512", (*settings, found.remedies[0].settings[0])), workers=1)
    assert mended.tally.evaluated == found.remedies[0].valid


def test_where_nothing_fits_a_search_offers_what_does(tmp_path: Path) -> None:
    """70 B parameters on one node, searched anew with each remedy."""
    asked = document("llama-3-70b", nodes=1, sequence=4096, global_batch=64)
    found = with_remedies(search(loaded(tmp_path, asked), workers=1))
    assert found.best == []
    assert in_order(found.remedies)
    offered = keys(found.remedies)
    assert {"workload.tuning", "cluster.nodes", "cluster.node"} <= {*offered}
    assert offered.index("cluster.nodes") < offered.index("workload.tuning")
    for remedy in found.remedies:
        (best,) = search(loaded(tmp_path, asked, *remedy.settings), 1, workers=1).best
        figures = best.costs["memory_peak"], best.costs["memory_share"], best.costs["step_time"]
        assert (remedy.memory_peak, remedy.memory_share, remedy.step_time) == pytest.approx(figures)


def test_other_gpus_are_ordered_by_maker_and_price_and_not_by_the_alphabet(tmp_path: Path) -> None:
    """Of the same maker first, and of these the one whose price is known and least."""
    asked = document("llama-3-70b", nodes=1, sequence=4096, global_batch=64)
    found = with_remedies(search(loaded(tmp_path, asked), workers=1))
    nodes = [each.settings[0].partition("=")[2] for each in found.remedies if keys([each]) == ["cluster.node"]]
    makers = [load("quickstart", [f"cluster.node={node}"]).accelerator.vendor for node in nodes]
    assert makers == ["NVIDIA"] * len(makers)
    prices = [load("quickstart", [f"cluster.node={node}"]).node.price for node in nodes]
    assert [price is None for price in prices] == sorted(price is None for price in prices)


def test_remedies_are_looked_for_when_they_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep of many searches, of which none fits, looks for none."""
    import costmodel.explore.search.training_remedies as module

    def never(*_: object) -> list[Remedy]:
        raise AssertionError

    monkeypatch.setattr(module, "what_would_work", never)
    asked = document("llama-3-70b", nodes=1, sequence=4096, global_batch=64)
    assert search(loaded(tmp_path, asked), workers=1).best == []


def test_remedies_are_in_the_json(tmp_path: Path, run: Any) -> None:
    loaded(tmp_path, document("llama-3-70b", nodes=1, sequence=4096, global_batch=64))
    answer = json.loads(run("search", str(tmp_path / "asked.yaml"), "--json").out)
    assert answer["try"]
    assert [part["set"][0] for part in answer["remedies"] if len(part["set"]) == 1] == answer["try"]
    assert {part["costs"] for part in answer["remedies"]} <= {"time", "quality", "money", "job"}
    assert all(part["memory_peak_bytes"] > 0 and part["step_time_s"] > 0 for part in answer["remedies"])


# ── P90 of the memory ────────────────────────────────────────────────────────────────────────────────────────────────


def room_between(folder: Path) -> tuple[dict[str, Any], tuple[str, str]]:
    """A plan on a card with room for the peak of its memory and not for the P90 of it."""
    asked = {**document(model(layers=4), nodes=1), "plan": {"tp": 1}}
    costs = answered(folder, asked).evaluation.costs.row()
    middle = 0.25 * costs["memory_peak_high"] + 0.75 * costs["memory_peak"]
    assert costs["memory_peak"] < middle < costs["memory_peak_high"]
    return asked, room(middle)


def test_a_plan_that_fits_and_whose_p90_does_not_says_so_everywhere(tmp_path: Path, run: Any) -> None:
    asked, little = room_between(tmp_path)
    name = str(tmp_path / "asked.yaml")
    given = answered(tmp_path, asked, *little)
    given_room = [part for setting in little for part in ("--set", setting)]
    assert (given.refused, given.broken) == ((), ())
    assert "N023" in given.remarked
    said = ("at risk: ",)
    for command in ("estimate", "memory"):
        assert any(words in run(command, name, *given_room).out for words in said)
    assert re.search(r"· \d\d.\d % chance to fit", run("check", name, *given_room).out)
    swept = run("sweep", name, *given_room, "--over", "plan.tp=1").out
    assert any(words in swept for words in said)
    for command in (("estimate", name), ("sweep", name, "--over", "plan.tp=1")):
        answer = json.loads(run(*command, *given_room, "--json").out)
        (row,) = answer.get("plans") or answer["points"]
        assert row["verdict"] in ("fits", "tight")
        assert 0.5 < row["fit_chance"] < 0.9
    (checked,) = json.loads(run("check", name, *given_room, "--json").out)["scenarios"]
    assert checked["chance"] == row["fit_chance"]


def test_rows_of_a_search_mark_it(run: Any) -> None:
    """By its chance, as its JSON states, and a remark names the mark."""
    asked = ("search", "llama-3-70b-512", "--safe", "off")
    answer = json.loads(run(*asked, "--json").out)["plans"]
    lines = run(*asked).out.splitlines()
    rows = [line for line in lines if re.match(r" +\d+ +\d+ +\d+ ", line)]
    shown = [line.rpartition(" ")[2] for line in rows]
    chances = [plan["fit_chance"] for plan in answer]
    assert shown == [f"{chance:.0%}" if chance < 0.995 else ">99%" for chance in chances]
    assert [chance < 0.9 for chance in chances] == [not plan["fits_p90"] for plan in answer]
    assert any(plan["fits_p90"] for plan in answer)
    count = sum(not plan["fits_p90"] for plan in answer)
    assert any(line.startswith(f"  ▲ N023 may run out of memory ({count} of {len(answer)})") for line in lines)


def test_where_p90_fits_nothing_is_said(run: Any) -> None:
    ran = run("estimate", "llama-3-70b-512")
    assert "fits\n" in ran.out
    assert "N023" not in ran.out
    assert json.loads(run("estimate", "llama-3-70b-512", "--json").out)["plans"][0]["fits_p90"] is True


@pytest.mark.parametrize(("stack", "fused"), [("deepspeed", True), ("transformers-deepspeed", False)])
def test_a_fused_kernel_comes_first_where_scores_in_memory_decide(stack: str, fused: bool, tmp_path: Path) -> None:
    asked = {
        **document("llama-3-8b", nodes=2, sequence=4096, global_batch=256, stack=stack),
        "plan": {"tp": 1, "micro_batch": 1, "zero": 3, "recompute": "none" if fused else "full"},
    }
    found = answered(tmp_path, asked, *(() if fused else room(2**33)))
    assert "M001" in found.broken
    offered = remedies(found, "M001")
    assert ("stack.kernels.attention" in keys(offered)) == fused
    if fused:
        assert keys(offered)[0] == "stack.kernels.attention"
        assert in_order(offered)
