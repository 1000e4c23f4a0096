"""Hostile output of programs: logs of training, start-up logs of engines, shapes of machines; soon, never a crash.

The suite tries a few; `pytest tests/exchange/test_fuzz_printed.py --fuzz 10000` tries as many as asked.
"""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from costmodel.exchange.logs.benchmark_result import benchmark_results
from costmodel.exchange.logs.step_lines import read_log
from costmodel.exchange.logs.trainer_log import is_engine_start, measured_run, start_as_table, trainer_log
from costmodel.exchange.machine_shape import machine_format, machine_shape
from costmodel.explore.import_export.import_logs import MOST_BYTES
from exchange.hostile import outcome
from exchange.logs import test_benchmark_result as results
from exchange.logs import test_engine_start as engines
from exchange.logs import test_measured_run as logs
from exchange.test_machine_shape import BATCH, NODES, SCONTROL, matrix

ENOUGH = 60  # cases when --fuzz does not say
LOGS = [
    logs.MEGATRON, logs.NEOX, logs.TITAN, logs.NEMO, logs.MAXTEXT, logs.ROCM, logs.BAR, logs.DLLOGGER, logs.OLD_TITAN,
    logs.OLD_DEEPSPEED, logs.TRAINER + logs.TOTAL, logs.STATE, logs.TIMED_STATE, logs.AXOLOTL_STATE, logs.TRL_STATE,
]  # fmt: skip
RESULTS = [json.dumps(tree, indent=1) for tree in (results.VLLM, results.PROFILE, results.GUIDED)]
RESULTS += [
    results.PRINTED.format(rate="2.0"),
    results.GUIDED_TABLES,
    results.GUIDED_BOXES,
    results.BOX.format(load=""),
]
TEXTS = [*LOGS, *RESULTS, engines.VLLM, engines.SGLANG, matrix(), matrix(odd="SYS", gpus=4), SCONTROL, BATCH, NODES]
WORDS = [
    "0", "-1", "1", "3", "1e400", "NaN", "inf", "9" * 50, "9" * 5000, "1.2.3", ",,,", "None", "\x00", "\x1b[31m",
    "\x1b[",
    "☃", "\ufeff", "\t", "\r\n", "\r", "\n", "|", "%", "/", "[", "{", ":", "=", "GPU0", "NIC0", "NV99999", "Gres=gpu:",
    "nvidia.com/gpu.count: 8", "iteration 1/1", "step: 1 loss:", "&a *a", "2024-99-99 99:99:99.5",
]  # fmt: skip


@st.composite
def broken(draw: st.DrawFn) -> str:
    """A text of which some words are replaced, dropped, doubled, or parted by hostile ones; some are long."""
    words = re.findall(r"\s+|[\w.]+|[^\w\s]", draw(st.sampled_from(TEXTS)))
    for _ in range(draw(st.sampled_from([1, 1, 2, 4, 8]))):
        at = draw(st.integers(0, len(words) - 1))
        what = draw(st.integers(0, 3))
        if what == 0:
            words[at : at + draw(st.integers(1, 9))] = []
        elif what == 1:
            words[at:at] = words[at : at + 20] * draw(st.sampled_from([1, 2, 50, 5_000]))
        else:
            words[at : at + what - 1] = [draw(st.sampled_from(WORDS))]
        words = words or [" "]
    return "".join(words)


def read_all(text: str) -> bool:
    """Whether one of the readers of printed text made something of it, as far as the commands would ask them."""
    tool = machine_format(text)
    if tool:
        machine_shape(text, "file", tool)
    if is_engine_start(text):
        assert start_as_table(text).count("\n") >= 2
    head = text[:MOST_BYTES]  # of a log, as import reads it
    if not tool and benchmark_results(head, "file") is not None:
        return True
    run = None if tool else measured_run(trainer_log(head, "file") or read_log(head, "file"))
    return bool(tool) or run is not None


def test_hostile_output_of_programs_ends_with_a_reading_or_faults(request: pytest.FixtureRequest) -> None:
    asked, found = request.config.getoption("--fuzz"), {"read": 0, "refused": 0}

    @settings(
        max_examples=asked or ENOUGH,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate] if asked else [Phase.generate, Phase.shrink],
    )
    @given(text=broken())
    def trial(text: str) -> None:
        def whole() -> tuple[()]:
            read_all(text)
            return ()

        found[outcome(whole)] += 1

    trial()
    assert min(found.values()) > 0
