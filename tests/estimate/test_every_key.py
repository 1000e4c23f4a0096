"""Every key that a user may state, in every workload: another value changes the answer, is refused or is remarked."""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from costmodel.documents.keys.key_list import all_keys
from costmodel.documents.keys.overrides import full
from costmodel.documents.keys.paths import REFERENCES
from costmodel.documents.keys.schema_paths import choices_of, examples_of, key_of
from costmodel.documents.keys.workload_keys import SCENARIOS
from costmodel.documents.reader.folders import names
from costmodel.documents.reader.load_scenario import load_any
from costmodel.estimate.rl import predict_rl
from costmodel.estimate.serving import predict_serving
from costmodel.estimate.training_answer import predict_training
from costmodel.estimate.training_answer.predict_training import Answer
from costmodel.explore.explain.plan_choice_effects import Effect, effects
from costmodel.ground.errors import CostModelError

from .serving.test_every_key import CASES as SERVED

SAMPLE = 8  # keys of a workload that are asked about unless --whole asks for all
SECTIONS = {  # of keys by workload; estimate/serving/test_every_key.py asks about the others of serving
    "training": ("cluster", "workload", "assume", "run", "plan", "stack", "limits"),
    "serving": ("cluster", "limits"),
    "rl": ("cluster", "workload", "assume", "run", "plan", "stack", "limits"),
}
DRIVES = "cluster.node.drives={capacity: 30 TB, read: 40 GB/s, write: 20 GB/s}"
MEMORY = "cluster.node.memory={capacity: 2 TiB, bandwidth: 400 GB/s}"
PRICE = "cluster.node.price={per: node, hourly: 90 USD/h, sold: on demand, region: y, date: 2026-01-01}"
BOUGHT = (
    "cluster.node.price={sold: purchase, date: 2026-01-01, "
    "bought: {capital: 300k USD, life: 1500 days, utilisation: 0.7, tariff: 0.1 USD/kWh, pue: 1.3}}",
    "assume.price=null",
)
TRAINED, SERVICE, LEARNT = "llama-3-70b-512", "serve-llama-3.1-70b", "grpo-qwen-2.5-7b-64"

OFFLOADED = "plan={tp: 1, micro_batch: 1, zero: 3, recompute: full, offload: [optimizer, parameters], offload_to: nvme}"
IN_BACKWARD = (
    *("stack=torchtune", "plan={zero: 3, micro_batch: 1, recompute: full}", "workload.global_batch=64"),
    "workload.optimizer.in_backward=true",
)
SHARDED = "stack=transformers-deepspeed", "plan={zero: 3, micro_batch: 1, recompute: full}"
EAGER = "stack=fsdp2", "stack.compile=none", "plan={tp: 8, zero: 3, micro_batch: 1, recompute: selective}"
ONE_SIDED = "plan.rollout={tp: 1, dp_attention: 8, ep: 8}", "model=qwen-3-30b-a3b", "stack.rollout=sglang"
BRIEF = "stack.trainer=transformers-deepspeed", "workload.prompt=16", "workload.response={mean: 32, limit: 64}"
HOSTED = "stack=openrlhf", "plan.cp=1", "plan.offload=[optimizer]"
PODS = "cluster.pod=1", "cluster.oversubscription=40"
SPOT = (
    "run={spot: {price: 1 USD/GPU/h, preempted_every: 50 h, notice: 60 s}, planned: {every: 100 h, stop: 60 s}, "
    "data: {read: 1 kB/s, token: 4 B}, power: {grid: us-average}}"
)
ELASTIC = "run={elastic: {regroup: 100 s, repair: 3 h}}"
FEWER = "run.failures.repair=2 days", "run.restart.ranks=56"
EVERY = "run.failures={every: 3 h, gpus: 512}"
OF_JOB = "run.failures.job={rate: 0.1 /day, low: 0.05 /day, high: 0.3 /day}"
SCALED = "workload.learning_rate={base: 3e-4, batch: 256 sequences}"

# Scenarios by workload, and what is set in them: a key is asked of each in turn until it shows.
BASES: dict[str, list[tuple[str, ...]]] = {
    "training": [
        (TRAINED, "run={}", "workload.tokens=1 T"),
        (TRAINED, SPOT, "workload.tokens=1 T", PRICE),
        (TRAINED, *BOUGHT),
        (TRAINED, ELASTIC, "workload.tokens=1 T", "plan.zero=0"),
        (TRAINED, *FEWER, "run.restart.ranks=448", "workload.tokens=1 T"),
        (TRAINED, EVERY, "workload.tokens=1 T", SCALED),
        (TRAINED, OF_JOB, "workload.tokens=1 T", "assume.stragglers.jitter=0.1"),
        ("deepseek-v3-2048", "run={}"),
        ("offload-llama-2-13b-8", "run={}"),
        ("offload-llama-2-13b-8", OFFLOADED, DRIVES, MEMORY),
        ("lora-llama-3-70b-8", "model=glm-4.5-air"),
        ("diloco-llama-3.1-8b-64", "run={}"),
        ("ddp-llama-3.2-1b-32", "plan.compression=one-bit"),
        ("quickstart", "stack=torchtune", "plan={zero: 3, micro_batch: 1, recompute: full}"),
        ("quickstart", "model=qwen-3-vl-32b", "workload.images={count: 1, tokens: 90}"),
        ("quickstart", "plan.cp=4"),
        ("lora-llama-3-70b-8", "plan.tp=2"),
        (TRAINED, "plan={tp: 8, pp: 4, sequence_parallel: false}", "workload.precision=fp8"),
        (TRAINED, "plan.recompute=full", "plan.recompute_layers=4"),
        (TRAINED, "plan.recompute=selective"),
        ("quickstart", "stack=zero-bubble", "plan={pp: 8, schedule: zb-h2}"),
        ("quickstart", "stack=ddp", "workload.precision=fp32"),
        ("quickstart", *IN_BACKWARD),
        ("quickstart", "model=glm-4.5-air", "plan={tp: 2, ep: 4}"),
        ("quickstart", "model=glm-4.5-air", "plan={tp: 2, ep: 4}", "assume.experts.capacity=1.5"),
        ("quickstart", "model=llama-4-scout", "stack=transformers-fsdp", "plan={zero: 3, micro_batch: 1}"),
        ("offload-llama-2-13b-8", "plan.zero=3", "plan.offload=[parameters]"),
        ("diloco-llama-3.1-8b-64", "plan.sites.overlap=1", "plan.sites.link=1 MB/s"),
        ("gpt-3-175b-1024", *PODS),
        ("mixed-llama-3-8b-96", "cluster.between=25 GB/s"),
        (TRAINED, "cluster.rails=optimised", "cluster.oversubscription=4"),
        (TRAINED, "cluster.node=gaudi2-8", "plan={tp: 8, pp: 4, zero: 1}"),
        ("quickstart", "cluster.node=pcie-l40s-8"),
        ("quickstart", "cluster.node.accelerators=4"),
        ("quickstart", *SHARDED, "workload.sequence=64"),
        ("quickstart", *SHARDED, "workload.sequence=64", "plan.zero=2"),
        ("quickstart", *SHARDED, "model=qwen-3-30b-a3b"),
        ("quickstart", *EAGER),
        ("quickstart", "cluster.node=hgx-mi300x", *EAGER),
        ("quickstart", "model=glm-4.5-air", "plan={tp: 2, ep: 4, etp: 2}"),
    ],
    "serving": [
        (SERVICE, "limits={}"),
        (SERVICE, *SERVED["wide"]),
        (SERVICE, *SERVED["host"]),
        (SERVICE, *SERVED["fleet"], *PODS),
        (SERVICE, "plan={tp: 16}", "limits={}", PRICE, "assume.price=null"),
        (SERVICE, "limits={}", *BOUGHT),
        (SERVICE, *SERVED["draft"]),
        (SERVICE, *SERVED["context"]),
        (SERVICE, "limits={ttft: {at_most: 1 s}}"),
        (SERVICE, "plan={tp: 8, pp: 2}", "limits={}"),
        (SERVICE, "cluster.node=gaudi2-8", "limits={}"),
        (SERVICE, "cluster.node.accelerators=4", "plan={tp: 8}", "limits={}"),
    ],
    "rl": [
        (LEARNT, "run={}"),
        (LEARNT, SPOT, PRICE, "assume.price=null"),
        (LEARNT, *BOUGHT),
        (LEARNT, ELASTIC, "plan.dp_replicate=4"),
        (LEARNT, *FEWER, "plan.dp_replicate=4"),
        (LEARNT, EVERY),
        (LEARNT, OF_JOB),
        (LEARNT, "plan.rollout={colocated: false, ranks: 32, tp: 2}", *PODS),
        (LEARNT, *HOSTED, MEMORY),
        (LEARNT, *HOSTED, MEMORY, "plan.offload_to=nvme", DRIVES),
        (LEARNT, "stack.trainer=megatron-core", "plan={tp: 2, pp: 4, micro_batch: 1, zero: 1}"),
        (LEARNT, "stack.trainer=torchtune", "plan={zero: 3, micro_batch: 1, recompute: full}"),
        (LEARNT, "stack.rollout=sglang", "workload.precision=fp8", "stack.trainer=megatron-core", "plan={tp: 2}"),
        (LEARNT, "plan.rollout={tp: 16}"),
        (LEARNT, "plan.rollout={tp: 2, dp_attention: 2, ep: 4}", "model=qwen-3-30b-a3b"),
        (LEARNT, *ONE_SIDED, "stack.rollout.dispatch.one_sided={start: 22 us, inside_share: 75 %}"),
        (LEARNT, "cluster.nodes=1", "cluster.node.accelerators=1", "plan={micro_batch: 1}"),
        (LEARNT, "model=qwen-3-30b-a3b"),
        (LEARNT, "workload.staleness=0.5", "workload.rollouts=partial", "workload.environment={time: 2 s, turns: 4}"),
        (LEARNT, "cluster.node.accelerators=4"),
        (LEARNT, "stack.rollout=vllm"),
        (LEARNT, *BRIEF, "plan={zero: 2, micro_batch: 1, recompute: full}"),
        (LEARNT, *BRIEF, "model=llama-3.1-70b", "plan={zero: 3, recompute: full, rollout: {tp: 8}}"),
        (LEARNT, "model=glm-4.5-air", "stack.trainer=megatron-core", "plan={tp: 2, ep: 4, etp: 2}"),
        (LEARNT, "stack.trainer=fsdp2", "stack.trainer.compile=none", "plan={tp: 2, zero: 3, micro_batch: 1}"),
        (LEARNT, "cluster.node=hgx-mi300x", "stack.trainer=fsdp2", "plan={tp: 2, zero: 3, micro_batch: 1}"),
    ],
}


class Answered(NamedTuple):
    """What another value may change."""

    figures: dict[str, str]
    codes: tuple[str, ...]  # of refusals and remarks
    idle: frozenset[str]  # keys that are listed as without effect


@functools.cache
def answered(workload: str, settings: tuple[str, ...]) -> Answered:
    case: Any = load_any(settings[0], settings[1:])
    modules: dict[str, Any] = {"training": predict_training, "serving": predict_serving, "rl": predict_rl}
    answer = modules[workload].predict(case)
    figures = answer.costs if workload != "training" else answer.evaluation.costs.row() | dict(_of_effects(answer))
    idle = frozenset(item.path for item in answer.assumed if item.value == "without effect")
    codes = (*answer.refused, *answer.broken, *(code for code in answer.remarked if code != "N051"))
    return Answered({name: repr(cost) for name, cost in figures.items()}, codes, idle)


def _of_effects(answer: Answer) -> Iterator[tuple[str, Effect]]:
    """What an answer shows beside its figures: the learning rate of the batch."""
    if answer.inputs.case.scenario.workload.learning_rate is not None:
        yield from ((effect.key, effect) for effect in effects(answer))


VALUES: dict[str, tuple[str, ...]] = {  # of keys whose schema gives no other value that counts, by the end of the path
    "accelerator.memory.capacity": ("90 GiB",),
    "node.memory.bandwidth": ("1 GB/s",),
    "accelerator.best_matmul": ("{bf16: 100 TFLOP/s}",),
    "accelerator.efficiency": ("a100-sxm-80",),
    "held_against.date": ('"2026-12"',),
    "found_in.node": ("dgx-a100",),
    "found_in.fabric": ("nvlink3",),
    "scale_up.fabric": ("nvlink3",),
    "scale_up.fabric.efficiency": ("a100-sxm-80",),
    "scale_out.fabric.efficiency": ("ib-hdr", "efa-v1"),
    "scale_out.fabric": ("ib-hdr", "roce400"),
    "scale_out.fabric.kind": ("scale-up",),
    "scale_up.fabric.kind": ("scale-out",),
    "node.host": ("pcie4x16",),
    "host.kind": ("scale-out",),
    "host.efficiency": ("a100-sxm-80",),
    "stack": ("openrlhf", "fsdp2"),
    "stack.kind": ("training",),
    "stack.rollout": ("sglang",),
    "rollout.kind": ("training",),
    "rollout.runs_on": ("[AMD]",),
    "rollout.checkpoint_caches": ("{fp8: fp8}",),
    "defaults.0.except_families": ("[hopper]",),
    "spread.update": ("50 %",),
    "stack.like": ("fsdp2", "openrlhf"),
    "trainer.like": ("fsdp2",),
    "rollout.like": ("sglang",),
    "stack.makers": ("[Intel]",),
    "trainer.makers": ("[Intel]",),
    "rollout.makers": ("[Intel]",),
    "limits.run_time.at_least": ("1000 days",),
    "limits.energy_per_token.at_most": ("1e-6 J",),
    "low_precision.recipes": ("[mxfp8]",),
    **dict.fromkeys((f"layouts.{axis}" for axis in ("tp", "pp", "cp", "ep", "etp")), ("null",)),
    "elsewhere.slower": ("{NVIDIA: 2}", "{AMD: 2}"),
    "stack.full_precision": ("[tf32]",),
    "trainer.full_precision": ("[tf32]",),
    "sites.overlap": ("0",),
    "cluster.rails": ("optimised", "forwarded"),
    "node.power.max": ("4 kW",),
    "node.memory.capacity": ("1 GiB",),
    "drives.capacity": ("1 GB",),
    "workload.prompts": ("256",),
    "response.limit": ("30 k",),
    "restart.ranks": ("48", "384"),
    "planned.every": ("50 h",),
    "overlap.cp": ("0",),
    "compression.warm_up": ("50 %",),
    "compression.codec": ("1 s",),
}
_BESIDE = "shown beside a price that is assumed"
DESCRIPTIVE = {  # by the end of the path, keys that describe a document, and the reason
    "workload.kind": "which questions there are",
    **dict.fromkeys(("as_of.version", "as_of.date", "as_of.timed"), "which release it describes"),
    **dict.fromkeys(("as_of.releases.0.version", "as_of.releases.0.date"), "which release it describes"),
    "memory.logged": "what a start-up log prints of models with windows",
    **dict.fromkeys(("name", "title", "provider"), "what it is called"),
    "accelerator.vendor": "whose part it is: software of other vendors refuses it",
    "accelerator.family": "the generation: formats that need one refuse others",
    "accelerator.year": "when it appeared",
    "offload.together": "what a measured run means that names one of both",
    "accelerator.memory.kind": "the technology, whose rate is memory.bandwidth",
    **dict.fromkeys(("offer.node", "offer.low", "offer.high"), _BESIDE),
    **dict.fromkeys(("price.sold", "price.term", "price.region", "price.date"), "of which offer the price is"),
}


AWAITED = ("ttft", "ttft_p99", "tpot", "tpot_p99", "worst_gap", "latency")  # times that no limit may lengthen
REFUSED = {  # by the end of the path, the code of a fault that says why another value is none
    "accelerator.memory.capacity": "C031",
    **dict.fromkeys(("scale_up.fabric.kind", "scale_out.fabric.kind", "host.kind"), "D010"),
    "cluster.between": "D006",
    "rollout.colocated": "D006",
    **dict.fromkeys((f"limits.{time}.at_least" for time in AWAITED), "D006"),
    **dict.fromkeys(("stack.kind", "rollout.kind"), "D010"),
    **dict.fromkeys(("rollout.runs_on", "rollout.precisions", "rollout.caches"), "D016"),
    **dict.fromkeys(("low_precision.recipes", "full_precision"), "D016"),
}


def beside(workload: str, key: str) -> list[str]:
    """What is stated with a key, as it needs it."""
    if key.startswith("plan.sites."):
        return ["plan.sites={count: 2, link: 1 GB/s}"]
    limit, _, bound = key.rpartition(".")
    if key.startswith("limits.") and bound == "target":
        return [f"{limit}.within=1 %"]
    if key.startswith("limits.") and bound == "within":
        return [f"{limit}.target={(examples_of(SCENARIOS[workload], f'{limit}.target') or ['1'])[0]}"]
    return []


def values(workload: str, key: str) -> list[str]:
    """Other values of a key, as its schema gives them."""
    if listed := next((to for end, to in VALUES.items() if f".{key}".endswith(f".{end}")), ()):
        return list(listed)
    if key in REFERENCES:
        return names(REFERENCES[key].kind)[:6]
    schema = SCENARIOS[workload]
    if choices := choices_of(schema, key):
        return choices
    if (examples := examples_of(schema, key)) is None:
        return []
    factors = (1e-9, 1e9, 1e5) if key.startswith("limits.") else (2, 0.1)
    numbers = [found for example in examples if (found := re.fullmatch(r"([\d.,e+-]+) ?(.*)", example))]
    scaled = [
        f"{float(number[1].replace(',', '')) * by:.4g} {number[2]}".strip() for number in numbers[:1] for by in factors
    ]
    return scaled or [*examples, "2", "3", "0.3", "0", "1", "999999999"]


def shown(workload: str, key: str) -> str:
    """How another value shows: the code of a refusal or remark, the first figure that differs, or nothing."""
    for base in BASES[workload]:
        for value in values(workload, key):
            try:
                before, after = (
                    answered(workload, base),
                    answered(workload, (*base, *beside(workload, key), f"{key}={value}")),
                )
            except CostModelError as error:
                code = error.faults[0].code
                if any(f".{key}".endswith(f".{end}") and code == of for end, of in REFUSED.items()):
                    return code
                continue
            differs = [name for name, cost in after.figures.items() if cost != before.figures.get(name)]
            differs += {*after.codes} ^ {*before.codes}
            if any(f"{leaf}.".startswith(f"{key}.") for leaf in after.idle):
                return "" if differs else "N051"
            if differs:
                return differs[0]
    return ""


def keys(workload: str) -> list[str]:
    """The keys of a workload, in full, without those that describe a document."""
    known = [full(key.path) for key in all_keys()]
    return [
        key
        for key in known
        if key.split(".")[0] in SECTIONS[workload] and key_of(SCENARIOS[workload], key) is not None
        if not key.startswith("cluster.groups.") and not any(f".{key}".endswith(f".{end}") for end in DESCRIPTIVE)
    ]


@pytest.mark.parametrize("workload", SECTIONS)
def test_no_key_is_silent(workload: str, request: pytest.FixtureRequest) -> None:
    """A share of them in turn of a seed, unless --whole asks for all."""
    asked = keys(workload)
    if not request.config.getoption("--whole"):
        asked = random.Random(workload).sample(asked, SAMPLE)
    assert [key for key in asked if not shown(workload, key)] == []
