"""Hostile units, counts, words of other tools, names and tables: an answer or a fault, soon, never a crash.

As test_fuzz, whose patience and watchers it shares: the suite tries a few, `--fuzz 4000` as many as asked.
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer.main
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from costmodel.documents.keys.field_aliases import KEYS, VALUES
from costmodel.documents.keys.schema_paths import key_of
from costmodel.documents.schemas.scenario import Scenario
from costmodel.ground.counts import KINDS, words_of

from .test_fuzz import Tally, misbehaviour

ENOUGH = 60
SHARES = {"counts": 40, "keys": 20, "values": 10, "names": 10, "tables": 20}  # of 100 cases

_NUMBERS = st.one_of(
    st.sampled_from(
        ["0", "1", "4", "-1", "1.5", "4M", "16k", "16Ki", "1e3", "1e400", "4,000", "4,00", "½", "٣", "9" * 40, "", "."]
    ),
    st.integers(-4, 10**7).map(str),
    st.floats(allow_nan=True).map(repr),
)
_MULTIPLES = st.sampled_from(["", " ", "k", "K", "M", " M", "Mi", "m", "B", "T", " million", "bn", "%", " %", "µ", "μ"])
_THINGS = st.one_of(
    st.sampled_from([word for kind in KINDS for word in words_of(kind)]),
    st.sampled_from(["Tokens", "TOKENS", "tokenz", "Gbps", "gbps", "GBPS", "Gbit/s", "GB/s", "gib", "GIB", "TFLOPS"]),
    st.sampled_from(["USD/h", "USD/GPU/h", "USD/node/h", "$/Mtoken", "$/1M tokens", "€", "s", "μs", "token/s/GPU"]),
    st.text(max_size=6),
)
quantities = st.builds(lambda *parts: "".join(parts), _NUMBERS, _MULTIPLES, st.sampled_from(["", " "]), _THINGS)
PATHS = [
    "workload.global_batch", "workload.sequence", "workload.tokens", "plan.tp", "plan.pp", "plan.dp", "plan.vpp",
    "plan.micro_batch", "plan.ep", "plan.cp", "plan.offload_layers", "plan.recompute_layers", "cluster.nodes",
    "cluster.pod", "cluster.node.accelerators", "cluster.node.scale_up.domain", "cluster.node.scale_out.nics",
    "cluster.fabric.bandwidth", "cluster.accelerator.memory.bandwidth", "cluster.accelerator.memory.usable",
    "model.layers.0.count", "model.layers.0.attention.heads", "model.hidden", "model.vocab", "assume.price",
    "assume.fragmentation", "limits.tokens_per_s.at_least", "limits.cost_per_mtoken.at_most", "limits.mfu.at_least",
    "workload.optimizer.moments", "stack.launch.operation", "search.micro_batch", "search.tp",
]  # fmt: skip
SECTIONS = ["", "plan.", "workload.", "cluster.", "cluster.node.", "model.", "model.layers.0.", "assume.", "search."]
COMMANDS = [("estimate", "quickstart"), ("memory", "quickstart"), ("sweep", "quickstart"), ("comm", "quickstart")]
_OWNERS = ["meta-llama", "Qwen", "a", "", ".", "..", "https://huggingface.co/x", "hf:x", "é", "x" * 200, "a b", "~"]
_MODELS = ["Llama-3.1-8B", "Qwen3-8B-Base", "x", "", "..", "mine.yaml", "a/b", "-", "x" * 300, "\x00", "[bold]", "%s"]
_FRONTS = [
    "", "0: ", "[1,0]<stdout>:", "node1 | ", "\x1b[1m", "2026-01-01T00:00:00Z ", "a" * 300 + " ", "é: ", "(", "\t",
]  # fmt: skip
_NCCL = """# nThread 1 nGpus 8
 nThread 1 nGpus 8
# nccl-tests version 2
#  Rank  0 Pid 1 on a device  0 [0x00] H100
#       size         count    type   redop    root     time   algbw   busbw  #wrong
       size         count    type   redop     time   algbw   busbw  error
size count type
# size count type
  1048576  262144  float  sum  -1  52.10  20.13  35.22  0
  1048576  262144  float  sum  52.10  20.13  35.22  1e-06
1 2 float
0 0 float none -1 0 0 0 0
1048576 x float sum -1 nan inf -1 0
# Out of bounds values : 3 FAILED
# Avg bus bandwidth : 1
all_reduce_perf
gpu,dtype,m,n,k,time_us
h100,bf16,1,2,3,4
layers,hidden,heads,seq_len,gpus,global_batch,gpu,step_time_s
32,4096,32,8192,8,64,h100,1.5
32,4M tokens,,,,,,
'"
\x00""".splitlines()


@st.composite
def cases(draw: Any, what: str) -> tuple[tuple[str, ...], bytes]:
    """The arguments of a command, and what it reads."""
    if what == "tables":
        front = draw(st.sampled_from(_FRONTS))
        lines = draw(st.lists(st.sampled_from(_NCCL) | st.text(max_size=20), max_size=12))
        text = "".join(f"{front}{line}\n" for line in lines)
        return (draw(st.sampled_from(["calibrate", "validate"])), "-"), text.encode("utf-8", "replace")
    if what == "names":
        name = f"{draw(st.sampled_from(_OWNERS))}/{draw(st.sampled_from(_MODELS) | st.text(max_size=8))}"
        command = draw(st.sampled_from([("memory", name), ("estimate", name), ("list", name), ("explain", name)]))
        return draw(st.sampled_from([command, ("estimate", "quickstart", "--set", f"model={name}")])), b""
    command = draw(st.sampled_from(COMMANDS))
    option = "--over" if command[0] == "sweep" else "--set"
    if what == "keys":
        word = draw(st.sampled_from(list(KEYS)) | st.text(max_size=8))
        path, value = (
            draw(st.sampled_from(SECTIONS)) + word,
            draw(quantities | st.sampled_from(["true", "{a: 1}", "[1]"])),
        )
    elif what == "values":
        key = draw(st.sampled_from(list(VALUES)))
        section = "workload" if key_of(Scenario, f"workload.{key}") else "plan"
        path, value = f"{section}.{key}", draw(st.sampled_from(list(VALUES[key])) | quantities)
    else:
        path, value = draw(st.sampled_from(PATHS)), draw(quantities)
        value = f"[{value}, {draw(quantities)}]" if path.startswith("search.") else value
    more = ("--set", f"workload.sequence={draw(quantities)}") if draw(st.booleans()) and what == "counts" else ()
    return (*command, option, f"{path}={value}", *more), b""


@pytest.mark.parametrize("what", SHARES)
def test_hostile_words_end_with_an_answer_or_a_fault(
    run: Callable[..., Any],
    what: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    asked = request.config.getoption("--fuzz")
    tally = Tally(Counter(), [], {})
    monkeypatch.setattr(typer.main, "get_command", functools.cache(typer.main.get_command))

    @settings(
        max_examples=max(1, (asked or ENOUGH) * SHARES[what] // 100),
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate] if asked else [Phase.generate, Phase.shrink],
    )
    @given(case=cases(what))
    def trial(case: tuple[tuple[str, ...], bytes]) -> None:
        wrong = misbehaviour(run, case, tmp_path, tally)
        if wrong and asked:
            tally.wrong.setdefault(wrong, repr(case)[:8000])
            return
        assert not wrong, (wrong, case)

    trial()
    record_property("cases", sum(tally.codes.values()))
    record_property("codes", json.dumps(dict(sorted(tally.codes.items()))))
    assert not tally.wrong, "\n\n".join(f"{wrong}\n{case}" for wrong, case in tally.wrong.items())
