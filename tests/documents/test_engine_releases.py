"""Each release of an engine that a stack describes has its date and its source, and its name is that of the stack."""

from __future__ import annotations

from itertools import pairwise

import pytest

from costmodel.documents.reader.find_documents import find, stack_of_release
from costmodel.documents.reader.library import names, read
from costmodel.documents.reader.load_scenario import load_any
from costmodel.documents.reader.serving_scenario import serving
from costmodel.documents.reader.sources import bibliography
from costmodel.documents.schemas.engine import Engine
from costmodel.estimate.serving.predict_serving import predict
from costmodel.ground.errors import CostModelError

ENGINES = ("sglang", "trt-llm", "vllm")
STACKS = [name for name in names("stack") if name.startswith(ENGINES) and isinstance(read("stack", name), Engine)]


@pytest.mark.parametrize("name", STACKS)
def test_each_release_has_a_date_and_a_source(name: str) -> None:
    stack = read("stack", name)
    first, last = stack.as_of.version.split(" to ")[0], stack.as_of.version.split(" to ")[-1]
    found = stack.as_of.releases
    assert found
    assert found[0].version == first
    for release in found:
        assert release.source in stack.sources or release.source in bibliography()
        assert (release.note or "") != "" or release.version in ("0.6", "0.5")
        assert tuple(map(int, release.version.split("."))) <= tuple(map(int, last.split(".")))
    assert all(one.date < other.date for one, other in pairwise(found))
    assert found[-1].date[:7] <= stack.as_of.date or name == "vllm-0.16"


def test_releases_follow_each_other_without_a_gap() -> None:
    """From 0.6 to 0.33 each minor release of vLLM has one stack, the newest under the engine's own name."""
    found = [stack_of_release("vllm", f"0.{minor}") for minor in range(6, 34)]
    assert all(each is not None and each.described for each in found)
    order = list(dict.fromkeys(each.stack for each in found if each is not None))
    assert order == ["vllm-0.16", "vllm-0.20", "vllm-0.24", "vllm-0.28", "vllm"]
    dates = [release.date for name in order for release in read("stack", name).as_of.releases]
    assert dates == sorted(dates)


@pytest.mark.parametrize(
    ("name", "stack"),
    [("vllm==0.19.1", "vllm-0.20"), ("vLLM-0.26", "vllm-0.28"), ("vllm@v0.21.0", "vllm-0.24"), ("vllm-0.40", "vllm"),
     ("sglang-0.5.20", "sglang"), ("trt-llm-1.2.1", "trt-llm")],
)  # fmt: skip
def test_a_release_is_a_name_of_its_stack(name: str, stack: str) -> None:
    assert find("stack", name).stem == stack


@pytest.mark.parametrize("name", ["megatron-core-0.14", "vllm-", "tgi-3.0"])
def test_other_names_stay_unknown(name: str) -> None:
    with pytest.raises(CostModelError):
        find("stack", name)


def test_a_stack_whose_benchmarks_are_of_other_releases_says_so_in_its_answers() -> None:
    """No fitted benchmark states a release after 0.20, so every later one has times of earlier ones."""
    for name in (item for item in STACKS if item.startswith("vllm")):
        first = tuple(map(int, read("stack", name).as_of.version.split(" to ")[0].split(".")))
        asked = predict(serving(load_any("serve-llama-3.1-70b", [f"stack={name}"])), bands=False)
        stated = [item.value for item in asked.assumed if item.path == "times"]
        assert stated == (["fitted to releases up to 0.20"] if first > (0, 20) else [])
