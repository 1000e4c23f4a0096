"""Every code that refuses a plan of any workload, in every command: an answer or a fault, never an internal error."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from each import share_of
from estimate.cases import document
from report.terminal.test_refusals import BROKEN, SMALL

from costmodel.estimate.rl.rl_reason_codes import OWN
from costmodel.estimate.serving.predict_serving import REFUSALS as SERVED_REASONS
from costmodel.estimate.shared.reasons import REFUSALS as TRAINED_REASONS

H200 = ("cluster.node=dgx-h200", "cluster.nodes=1")
H800 = ("model=deepseek-v3", "cluster={node: hgx-h800, nodes: 36}", "stack=sglang")
WIDE = "workload={kind: serving, prompt: 4383, output: 1211, concurrency: 8640, precision: fp8-block}"
CHAT = "workload={kind: serving, turns: 8, rate: 8 /s, prompt: 900, output: 300, think_time: 600 s}"
DPO = "workload={{kind: rl, algorithm: dpo, prompts: {}, prompt: 64, response: {{mean: 64, limit: 64}}}}"
SERVED = {  # changes of a service that break a plan
    "L050": ("plan.replicas=9",),
    "L051": ("plan.tp=7",),
    "L052": ("model=llama-3.2-3b", "plan.tp=12"),
    "L053": ("model.vocab=128257", "stack.vocab_multiple=1"),
    "L054": ("model.layers.0.mlp.ffn_hidden=28676",),
    "L055": ("plan.pp=90",),
    "L056": (*H800, WIDE, "plan={dp_attention: 144, ep: 144, replicas: 1}"),
    "L067": ("model=mixtral-8x7b", "plan={tp: 4, ep: 2, replicas: 1}"),
    "L057": ("plan.ep=8",),
    "L059": ("model=gemma-4-e2b", "plan={tp: 1, pp: 2}"),
    "L058": ("plan.speculation={tokens: 4, chance: 80 %, draft: eagle}", "plan.pp=2", "plan.replicas=1"),
    "L062": ("stack=trt-llm", "workload.prompt=16384", "workload.rate=1 /s"),
    "L061": (CHAT, "stack.host_cache.size=9 TiB"),
    "L060": (*H800, WIDE, "plan={tp: 32, redundant_experts: 32, replicas: 1}"),
    "L063": ("model=deepseek-v3", *H200, "plan={tp: 8, dcp: 3}"),
    "L064": (*H200, "plan={tp: 8, dcp: 2}"),
    "L065": ("model=deepseek-v3", *H200, "stack=trt-llm", "plan={tp: 8, dcp: 2}"),
    "M001": ("model=llama-3.1-405b",),
    "M002": ("limits={memory: {at_most: 10 %}}",),
    "S001": ("workload.rate=10 /s",),
    "S002": ("limits.ttft_p99.at_most=300 ms",),
    "S003": ("workload.rate=30 /s",),
    "S004": ("workload.rate=20 /s", "stack.budget=512"),
    "S005": ("workload.rate=20 /s", "stack.sequences=256"),
    "S006": ("limits={limits_chance: {at_least: 99 %}, tpot: {at_most: 25 ms}}",),
    "T001": ("limits={tokens_per_s_per_gpu: {at_least: 9000 token/s}}",),
}
LEARNED = {  # the same of reinforcement learning
    "R010": ("plan.rollout={colocated: false, ranks: 12}",),
    "R011": (DPO.format(8), "plan={zero: 3}"),
    "R012": ("stack=trl", "plan.cp=1", "workload.staleness=0.5", "workload.rollouts=partial"),
    "R019": ("stack.apart=false", "plan.rollout={colocated: false, ranks: 32}"),
    "R014": ("stack=trl", DPO.format(64), "plan={zero: 3, rollout: {tp: 2}}"),
    "R015": ("plan.rollout.memory=8 %",),
    "R016": ("workload.staleness=0.5",),
    "R017": ("plan.sites={count: 2, link: 1 Gbit/s, every: 10}",),
    "R018": ("plan.micro_batch=17",),
}
OF_A_RUN = {  # the same of a whole run
    "R001": ("run.checkpoint.interval=16 s",),
    "R002": ("run.checkpoint.mode=memory", "cluster.node.memory.capacity=40 GB"),
    "R003": ("run.elastic={regroup: 60 s, repair: 1 h}",),
    "R007": ("run.failures={every: 1 s}",),
    "R013": ("run.failures={rate: 3.789 /1000 node-days, repair: {time: 2 days}}", "run.restart.ranks=500"),
}
BASES = {"serve-llama-3.1-70b": SERVED, "grpo-qwen-2.5-7b-64": LEARNED, "llama-3-70b-512": OF_A_RUN}
SETS = [(base, code, changes) for base, table in BASES.items() for code, changes in table.items()]
SHARE = 8  # of so many codes one is asked about unless --whole asks for all
OF_SERVING = {"scale": ("--rate", "4..8"), "solve": ("--over", "plan.tp=4..8*2", "--for", "tpot<=50 ms")}
COMMANDS = {  # options behind the scenario and its settings
    **dict.fromkeys(("estimate", "memory", "comm", "check", "export"), ()),
    "sensitivity": ("--top", "3"),
    "search": ("--top", "2"),
    "sweep": ("--over", "plan.tp=1,8"),
    "scale": ("--ranks", "64,128"),
    "solve": ("--over", "plan.tp=1..8*2", "--for", "mfu>=10 %"),
    "diff": ("--set", "plan.tp=1"),
    "report": ("-o", "page.html", "--force"),
}


def commands(name: str, options: list[str], *, serves: bool) -> list[list[str]]:
    """Every command about a scenario."""
    return [
        [command, name, *options, *((OF_SERVING.get(command, more)) if serves else more)]
        for command, more in COMMANDS.items()
    ]


def documented(scenario: str, changes: tuple[str, ...], result: str) -> None:
    """Write a measured document with one run of a scenario that is changed."""
    lines = [f"      {change.replace('=', ': ', 1)}" for change in changes]
    text = ["schema: costmodel/measured/v1", "name: mine", "title: mine", "source: {key: mine, where: here}"]
    text += ["tolerance: {step_time: 30 %, output_tokens_per_s: 30 %}", "scenario:", *scenario.splitlines(), "runs:"]
    text += ["  - name: one", f"    set: {'' if lines else '{}'}", *lines, f"    measured: {{{result}}}"]
    text += ["sources: {mine: {title: mine, year: 2026, authors: I}}"]
    Path("mine.yaml").write_text("\n".join(text) + "\n", "utf-8")


def indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines() if not line.startswith("#"))


def asked(request: pytest.FixtureRequest, every: list[list[str]], position: int) -> list[list[str]]:
    """All commands, or of every eighth code one, another one of the next."""
    if request.config.getoption("--whole"):
        return every
    return [every[position // SHARE % len(every)]] if position % SHARE == 0 else []


@pytest.mark.usefixtures("in_its_folder")
def test_every_code_passes_through_every_command(run: Any, request: pytest.FixtureRequest) -> None:
    failed = []
    for position, (base, code, changes) in enumerate(SETS):
        options = [part for change in changes for part in ("--set", change)]
        every = commands(base, options, serves=base.startswith("serve"))
        failed += [(code, words) for words in asked(request, every, position) if run(*words, cwd=Path()).code > 2]
    for position, (code, ((more, plan), *_)) in enumerate(BROKEN.items()):
        Path("asked.yaml").write_text(json.dumps({**document(**{"shape": SMALL, **more}), "plan": plan}))
        every = commands("asked.yaml", [], serves=False)
        failed += [(code, words) for words in asked(request, every, position) if run(*words, cwd=Path()).code > 2]
    assert failed == []


@pytest.mark.usefixtures("in_its_folder")
def test_validate_names_every_code(run: Any) -> None:
    """A measured run whose plan is refused is left out, with the first of its codes.

    A share of the codes, unless --whole asks for all.
    """
    for base, code, changes in share_of(SETS, 3):
        if base.startswith("grpo") or code[0] not in "LM":
            continue  # no published run is compared, or a limit, which a measured run may break
        scenario = (Path(__file__).parents[2] / f"scenarios/{base}.yaml").read_text("utf-8")
        documented(indented(scenario), changes, "output_tokens_per_s: 100 /s")
        ran = run("validate", "mine.yaml", "--json", cwd=Path())
        assert ran.code < 3, (code, ran.err)
        assert code == "M002" or '"refused": "V007"' in ran.out, (code, ran.out, ran.err)


def test_every_code_is_broken_here() -> None:
    """Those of a search alone are L010, L044 and M004; limits have the same code in every workload."""
    known = {*TRAINED_REASONS, *SERVED_REASONS, *OWN}
    assert {code for _, code, _ in SETS} | {*BROKEN} == known - {"L010", "L044", "M004"}


def test_a_code_means_one_thing() -> None:
    """Only limits are of several workloads."""
    tables = (TRAINED_REASONS, SERVED_REASONS, OWN)
    for one, other in itertools.combinations(tables, 2):
        assert {*one} & {*other} <= {"M001", "M002", "T001"}
