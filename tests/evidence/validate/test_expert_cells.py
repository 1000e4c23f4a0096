"""What cells of a row say of experts: tokens dropped, how they travel, and what the host issues."""

from __future__ import annotations

from typing import Any

import pytest

from costmodel.documents.reader.library import read
from costmodel.evidence.validate.modelled_rows import modelled
from evidence.validate.runs_of_22b import DEEPSEEK, EMPTY, MIXTRAL, SHELF

pytestmark = pytest.mark.usefixtures("in_its_folder")


ISSUED = read("stack", "megatron-core").launch.each
HIDES = read("stack", "megatron-core").overlap.dp


@pytest.mark.parametrize(
    ("framework", "accelerator", "host", "hidden"),
    [
        ("Megatron-Bridge 25.09", "h100-sxm", ISSUED, HIDES),
        ("Megatron-Bridge 26.02", "h100-sxm", ISSUED, 0.0),
        ("Megatron-Bridge 25.09", "gb200", ISSUED, 0.0),
        ("Megatron-Bridge 26.04", "gb200", ISSUED, 0.0),
        ("Megatron-Bridge 26.08.01", "gb200", 0.0, HIDES),
    ],
)
def test_recipes_that_nobody_matched(row: Any, framework: str, accelerator: str, host: float, hidden: float) -> None:
    cells = {"framework": framework, "accelerator": accelerator, "gpu": accelerator, "arch": "moe", "features": EMPTY}
    narrow = {"precision": "fp8-cs" if accelerator == "h100-sxm" else "mxfp8", "year": 2025}
    found = modelled(row(**{**MIXTRAL, **DEEPSEEK, **cells, **narrow}), SHELF)
    assert found.inputs.experts.host == pytest.approx(host)
    assert found.inputs.experts.overlap == hidden


@pytest.mark.parametrize(("accelerator", "attention"), [("h100-sxm", "flash-3"), ("gb200", "unfused")])
def test_nemo_dropped_tokens_of_deepseek(row: Any, accelerator: str, attention: str) -> None:
    """And with heads of 192 its attention was not fused on Blackwell."""
    run = {"accelerator": accelerator, "gpu": accelerator, "arch": "moe", "features": EMPTY, "precision": "bf16"}
    software = {"framework": "NeMo (dgxc-benchmarking v25.05.05)", "notes": "", "year": 2025}
    found = modelled(row(**{**MIXTRAL, **DEEPSEEK, **run, **software}), SHELF).inputs
    assert (found.experts.dropless, found.experts.deduplicated) == (False, False)
    assert found.stack.kernels.attention == attention


def test_tokens_dropped_pad_to_a_capacity(row: Any) -> None:
    padded, even = (modelled(row(**{**MIXTRAL, "notes": notes}), SHELF) for notes in
                    ("MoE tokendrop, capacity factor 1.25", ""))  # fmt: skip
    said = [found.inputs.experts for found in (padded, even)]
    assert [part.load for part in said] == [1.25, 1.0]
    assert [part.dropless for part in said] == [False, True]


@pytest.mark.parametrize(
    ("features", "notes", "once", "host", "hidden"),
    [
        ("", "dropless", True, ISSUED, 0.0),
        ("", "token-drop", False, ISSUED, 0.0),
        ("", "dropless; recipe MIXTRAL@r0.3.0", False, ISSUED, 0.0),
        ("", "dropless; no exactly matching recipe found @r0.3.0", True, ISSUED, 0.0),
        ("moe_dispatcher=alltoall", "dropless", False, ISSUED, 0.0),
        ("moe_dispatcher=hybridep", "dropless; recipe MIXTRAL@r0.3.0", True, ISSUED, 0.0),
        ("moe_dispatcher=deepep;moe_a2a_overlap", "", True, ISSUED, HIDES),
        ("cuda_graph=transformer_engine:['attn', 'moe_router']", "", True, ISSUED, 0.0),
        ("cuda_graph=full_iteration:[]", "", True, 0.0, 0.0),
        ("CUDA_GRAPH_SCOPE=full_iteration", "", True, 0.0, 0.0),
        ("", "run with cuda_graph=full_iteration", True, 0.0, 0.0),
        ("cuda_graph=local", "", True, 0.0, 0.0),
        ("cuda_graph=local:['attn']", "", True, ISSUED, 0.0),
    ],
)
def test_what_features_say_of_experts(
    features: str, notes: str, once: bool, host: float, hidden: float, row: Any
) -> None:
    found = modelled(row(**{**MIXTRAL, "features": features or EMPTY, "notes": notes}), SHELF)
    said = found.inputs.experts
    assert said is not None
    assert (said.deduplicated, said.host, said.overlap) == (once, pytest.approx(host), hidden)
    assert (found.inputs.stack.launch.each == 0) == (host == 0)


@pytest.mark.parametrize(
    ("words", "dropped"),
    [
        ("MoE tokendrop", True),
        ("token drop", True),
        ("Token-Drop", True),
        ("moe_token_drop=true", True),
        ("moe_token_drop=false", False),
        ("token_dropping=off", False),
        ("no token drop", False),
        ("dropless", False),
    ],
)
def test_words_of_dropped_tokens(words: str, dropped: bool, row: Any) -> None:
    found = modelled(row(**{**MIXTRAL, "notes": words}), SHELF).inputs.experts
    assert found is not None
    assert found.dropless == (not dropped)
