"""Documents of training software: the axes they list, and the keys that stand for kernels, losses and states."""

from __future__ import annotations

import pytest
from estimate.cases import TRAINING_STACKS as TRAINING

from costmodel.documents.reader.library import read
from costmodel.documents.schemas.stack import Stack
from costmodel.ground.errors import CostModelError


@pytest.mark.parametrize("name", TRAINING)
def test_a_stack_lists_the_axes_of_its_software(name: str) -> None:
    stack = read("stack", name)
    assert stack.layouts is not None
    assert stack.has("cp") == bool(stack.context_parallel)
    assert stack.has("etp") <= stack.has("ep")
    assert stack.experts is not None or not stack.has("ep")


@pytest.mark.parametrize("name", TRAINING)
@pytest.mark.parametrize(
    "key", [{}, {"compile": "none"}, {"compile": "model"}, {"loss": "chunked"}, {"weights": "bf16"}]
)
def test_keys_of_kernels_and_states_hold_once(name: str, key: dict[str, str]) -> None:
    """A document that is read, written out and read again is the same, whatever its keys changed."""
    once = Stack.model_validate({**read("stack", name).model_dump(by_alias=True), **key})
    assert Stack.model_validate(once.model_dump(by_alias=True)) == once
    if key.get("loss"):
        assert once.buckets.loss == 1.5
    if key.get("weights"):
        assert (once.states.weights, once.states.master, once.gradients) == (2.0, 0.0, "bf16")
    if key.get("compile"):
        assert once.kernels.compiled == (key["compile"] == "model")


@pytest.mark.parametrize(
    ("old", "key"),
    [
        *(("ddp-compiled", "stack.compile=model"), ("ddp-fused-loss", "stack.loss=fused")),
        *(("ddp-bf16", "stack.weights=bf16"), ("transformers-fsdp-bf16", "stack.weights=bf16")),
    ],
)
def test_a_name_of_before_leads_to_its_key(old: str, key: str) -> None:
    with pytest.raises(CostModelError) as caught:
        read("stack", old)
    assert key in caught.value.faults[0].hint
