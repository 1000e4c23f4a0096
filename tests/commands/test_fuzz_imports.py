"""Hostile files through the command line: a document or faults, soon; nothing written on a fault, no crash.

The suite tries a few; `pytest tests/commands/test_fuzz_imports.py --fuzz 10000` tries as many as asked.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from exchange.serving.test_serve_commands import SGLANG, TRT, VLLM
from exchange.test_fuzz import broken_texts, broken_trees
from exchange.test_fuzz_launch import MANIFESTS, TEXTS
from exchange.test_fuzz_launch import broken as broken_launches
from exchange.test_fuzz_printed import broken as broken_output
from exchange.test_fuzz_scripts import broken as broken_scripts
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from costmodel.exchange.detect import SERVING

ENOUGH = 30  # cases when --fuzz does not say
BESIDE = "accelerators=8 model=llama-3.1-8b workload.sequence=4096 plan.micro_batch=1"
ASKED = "workload.prompt=2048 workload.output=512 workload.rate=8/s"
MORE = [
    (), ("--node", "dgx-h100"), ("--as", "runs"),
    *(("--node", "dgx-h100", *(part for one in given.split() for part in ("--set", one))) for given in (BESIDE, ASKED)),
]  # fmt: skip
PATIENCE = 2.0  # seconds a case may work
COMMANDS = [(text, SERVING) for text in (VLLM, SGLANG, TRT, *MANIFESTS)]
LAUNCHES = broken_launches([*TEXTS, *COMMANDS]).map(lambda case: case[0])
READERS = {"costmodel/model/v1": "memory", "costmodel/scenario/v1": "estimate"}


def test_hostile_files_end_with_a_document_or_faults(run: Any, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    asked, found = request.config.getoption("--fuzz"), {0: 0, 2: 0}
    config, mine = tmp_path / "config.json", tmp_path / "mine.yaml"

    @settings(
        max_examples=asked or ENOUGH,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(
        text=broken_trees() | broken_texts() | broken_scripts() | LAUNCHES | broken_output(),
        more=st.sampled_from(MORE),
    )
    def trial(text: str, more: tuple[str, ...]) -> None:
        config.write_bytes(text.encode("utf-8", "surrogatepass"))
        started = time.process_time()
        ran = run("import", config.name, *more, "-o", mine.name, cwd=tmp_path)
        assert time.process_time() - started < PATIENCE
        found[ran.code] += 1
        assert {path.name for path in tmp_path.iterdir()} == {config.name, *([mine.name] if ran.code == 0 else [])}
        if ran.code:
            assert (ran.out, ran.err[:6]) == ("", "error[")
            assert "Traceback" not in ran.err
        else:
            written = mine.read_text("utf-8")
            for schema, verb in READERS.items():
                assert schema not in written or run(verb, mine.name, cwd=tmp_path).code in (0, 1)
            mine.unlink()

    trial()
    assert min(found.values()) > 0
