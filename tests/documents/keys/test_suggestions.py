"""A misspelt name is answered with the one that has the same words and numbers."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from costmodel.documents.reader.find_documents import find
from costmodel.documents.reader.library import names
from costmodel.ground.errors import CostModelError

MEANT = {
    "qwen3-235b": "qwen-3-235b-a22b",
    "qwen-235b": "qwen-3-235b-a22b",
    "Qwen/Qwen3-235B": "qwen-3-235b-a22b",
    "qwne3-235b": "qwen-3-235b-a22b",
    "qwen3-30b": "qwen-3-30b-a3b",
    "qwen3-32": "qwen-3-32b",
    "qwen3-coder": "qwen-3-coder-480b-a35b",
    "lama-3.1-70b": "llama-3.1-70b",
    "llama-405b": "llama-3.1-405b",
    "llama-70b": "llama-3.1-70b",
    "mixtral-8x22": "mixtral-8x22b",
    "deepsek-v3": "deepseek-v3",
    "gemma3-27": "gemma-3-27b",
    "nemotron3-nano": "nemotron-3-nano-30b-a3b",
    "70b": "",
    "xyz": "",
}

# Taken for the model of the same letters and digits, or of the same shape.
SPELLED = {
    "llama3-70b": "llama-3-70b",
    "llama31-70b": "llama-3.1-70b",
    "llama3.3-70b": "llama-3.1-70b",
    "gpt-oss120b": "gpt-oss-120b",
    "deepseek-r1": "deepseek-v3",
    "deepseek-r1-distill-llama-70b": "llama-3.1-70b",
    "Qwen3-8B-Base": "qwen-3-8b",
}


def suggested(name: str) -> str:
    """The model that the fault for a name offers."""
    with pytest.raises(CostModelError) as error:
        find("model", name)
    found = re.match(r"did you mean '([^']+)'", error.value.faults[0].hint)
    return found[1] if found else ""


@pytest.mark.parametrize("name", MEANT)
def test_a_model_is_suggested_by_its_words_and_numbers(name: str) -> None:
    assert suggested(name) == MEANT[name]


@pytest.mark.parametrize("name", SPELLED)
def test_a_model_is_taken_by_its_letters_and_digits(name: str) -> None:
    assert find("model", name).stem == SPELLED[name]


def test_a_spelling_does_not_hide_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("qwen3-8b.yaml").write_text("name: qwen3-8b\n")
    with pytest.raises(CostModelError) as error:
        find("model", "qwen3-8b")
    assert error.value.faults[0].hint == f"for the file write .{os.sep}qwen3-8b.yaml"


def test_every_model_is_found_with_a_dash_too_few_and_a_letter_too_few() -> None:
    for model in names("model"):
        if model.count("-") > 1:
            assert find("model", model.replace("-", "", 1)).stem == model
            if re.search(r"\d[bm]$", model):
                close = suggested(model[:-1])
                assert re.findall(r"\d+", close) == re.findall(r"\d+", model), (model, close)


def test_a_model_where_a_scenario_is_expected_is_suggested_with_its_command(run: Any, faults: Any) -> None:
    (fault,) = faults(run("estimate", "qwen3-235b"))
    assert fault.help.endswith("costmodel estimate --model qwen-3-235b-a22b")
