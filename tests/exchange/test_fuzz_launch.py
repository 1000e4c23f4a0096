"""Hostile launch files: a scenario or faults with places, soon, never a crash, and nothing runs.

The suite tries a few; `pytest tests/exchange/test_fuzz_launch.py --fuzz 10000` tries as many as asked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from costmodel.documents.reader.library import read
from costmodel.exchange.detect import SERVING
from costmodel.exchange.import_result import Origin, OriginValue
from costmodel.exchange.serving.engine_files import merged_serving, read_serve_command
from costmodel.exchange.training import (
    accelerate,
    axolotl,
    bridge,
    deepspeed,
    llama_factory,
    maxtext,
    nanotron,
    torchtitan,
    torchtune,
    transformers,
)
from costmodel.exchange.training.file_facts import Layer
from costmodel.exchange.training.formats import read_layer
from costmodel.exchange.training.merge_training import merged_training
from costmodel.ground.errors import Fault
from exchange.hostile import outcome
from exchange.serving import test_deployments as deployed
from exchange.serving.test_serve_commands import POD, SCRIPT, SGLANG, TRT, VLLM
from exchange.training.test_accelerate import MEGATRON as BEHIND_ACCELERATE
from exchange.training.test_argument_texts import CALL
from exchange.training.test_argument_texts import FACTORY as WORDS_OF_FACTORY
from exchange.training.test_argument_texts import SCRIPT as WORDS_OF_TRAINER
from exchange.training.test_launch import FSDP1, FSDP2, MCORE, MESH_OF_THREE, OLD_OFFLOAD, QLORA, RECIPE, TITAN
from exchange.training.test_other_trainers import MAXTEXT as YAML_OF_MAXTEXT
from exchange.training.test_other_trainers import NANOTRON as YAML_OF_NANOTRON
from exchange.training.test_other_trainers import TORCHTUNE as YAML_OF_TORCHTUNE
from exchange.training.test_torchtitan import FIRST as FIRST_OF_TITAN
from exchange.training.test_torchtitan import RECIPE as RECIPE_OF_TITAN

ENOUGH = 60  # cases when --fuzz does not say
ARGS = (
    "per_device_train_batch_size: 2\ngradient_accumulation_steps: 4\nbf16: true\noptim: adamw_torch\nmax_steps: 100\n"
)
MESH = FSDP2 + "parallelism_config:\n  parallelism_config_dp_shard_size: 4\n  parallelism_config_tp_size: 2\n"
TEXTS = [
    (json.dumps(OLD_OFFLOAD, indent=1), deepspeed.TITLE), (FSDP1, accelerate.TITLE), (MESH, accelerate.TITLE),
    (ARGS, transformers.TITLE), (TITAN, torchtitan.TITLE), (RECIPE, torchtitan.TITLE),
    (YAML_OF_NANOTRON, nanotron.TITLE), (YAML_OF_MAXTEXT, maxtext.TITLE), (YAML_OF_TORCHTUNE, torchtune.TITLE),
    (QLORA, axolotl.TITLE), (MESH_OF_THREE, axolotl.TITLE), (MCORE, llama_factory.TITLE),
    ("torchrun a.py model.seq_length=4096 train.micro_batch_size=1 mixed_precision=bf16_mixed", bridge.TITLE),
    (WORDS_OF_TRAINER, transformers.TITLE), (CALL, transformers.TITLE), (WORDS_OF_FACTORY, llama_factory.TITLE),
    (FIRST_OF_TITAN, torchtitan.TITLE), (RECIPE_OF_TITAN, torchtitan.TITLE), (BEHIND_ACCELERATE, accelerate.TITLE),
    ("--training.seq_len 8192 --parallelism.tensor_parallel_degree=2", torchtitan.TITLE),
]  # fmt: skip
MANIFESTS = (POD, deployed.PREDICTOR, deployed.SERVICE, deployed.GRAPH, deployed.STACK, deployed.VALUES)
WORDS = [
    "0", "-1", "1", "3", "1e400", "NaN", "inf", "9" * 50, "x" * 5000, "null", "true", '""', "auto", "[]", "{}", "[[[[",
    "&a", "*a", "!!python/object:os.system", "\x00", "\x1b[31m", "\ud800", "☃", "\ufeff", "\t", "\r\n", "\n", "#",
    ":", "=", "__import__('os').system('id')", "lambda: 0", "{" * 300, "[" * 300, "(" * 300, "FSDP", "DEEPSPEED", "1.5",
    "2**99**99",
]  # fmt: skip


@st.composite
def broken(draw: st.DrawFn, texts: list[tuple[str, str]]) -> tuple[str, str]:
    """A text of which some words are replaced, dropped, doubled, or parted by hostile ones."""
    text, format = draw(st.sampled_from(texts))
    words = re.findall(r"\s+|\w+|[^\w\s]", text)
    for _ in range(draw(st.sampled_from([1, 1, 2, 4, 8]))):
        at = draw(st.integers(0, len(words) - 1))
        what = draw(st.integers(0, 3))
        if what == 0:
            words[at : at + draw(st.integers(1, 9))] = []
        elif what == 1:
            words[at:at] = words[at : at + 20] * draw(st.sampled_from([1, 2, 50]))
        else:
            words[at : at + what - 1] = [draw(st.sampled_from(WORDS))]
        words = words or [" "]
    return "".join(words), format


def test_hostile_launch_files_end_with_a_scenario_or_faults(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_beside = {"model": "llama-3.1-8b", "plan.micro_batch": 1, "workload.sequence": 4096, "accelerators": 8}
    beside = {key: OriginValue(value, Origin("assumed", "given")) for key, value in given_beside.items()}

    def settle(text: str, format: str) -> tuple[Fault, ...]:
        return merged_training([read_layer(text, "file", format), Layer("", beside)], "file", 32).missing

    _never_fails(request, monkeypatch, settle, TEXTS)


def test_hostile_commands_of_engines_end_with_a_scenario_or_faults(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_beside = {"workload.prompt": 2048, "workload.output": 512, "workload.rate": "8 /s"}
    beside = {key: OriginValue(value, Origin("assumed", "given")) for key, value in given_beside.items()}
    dense = read("model", "qwen-3-8b")

    def settle(text: str, _: str) -> tuple[Fault, ...]:
        return merged_serving([*read_serve_command(text, "file"), Layer("", beside)], "file", dense).missing

    _never_fails(request, monkeypatch, settle, [(text, SERVING) for text in (VLLM, SCRIPT, SGLANG, TRT, *MANIFESTS)])


def _never_fails(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    settle: Callable[[str, str], tuple[Fault, ...]],
    texts: list[tuple[str, str]],
) -> None:
    """Each broken text is a scenario, or faults that can be printed, soon."""
    asked, found = request.config.getoption("--fuzz"), {"read": 0, "refused": 0}
    for name in ("os.system", "subprocess.Popen", "os.popen"):
        monkeypatch.setattr(name, _never)

    @settings(
        max_examples=asked or ENOUGH,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate] if asked else [Phase.generate, Phase.shrink],
    )
    @given(case=broken(texts))
    def trial(case: tuple[str, str]) -> None:
        found[outcome(lambda: settle(*case))] += 1

    trial()
    assert min(found.values()) > 0


def _never(*_: object, **__: object) -> None:
    raise AssertionError("something ran")
