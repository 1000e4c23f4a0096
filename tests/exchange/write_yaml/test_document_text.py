"""Documents as YAML: what is read back is what was written, whatever it says."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.documents.text.yaml_tree import parse
from costmodel.exchange.foreign_models import model_name_in_path
from costmodel.exchange.values import document_name
from costmodel.exchange.write_yaml import document_text

_PRINTED = st.text("aZé東 0.:#-'\"[]{},&*!|>%@`?~\\", max_size=8)
_NAMES = _PRINTED.filter(bool)
_SCALARS = st.booleans() | st.integers(-(10**18), 10**18) | _PRINTED
_FLAT = st.dictionaries(_NAMES, _SCALARS | st.lists(_SCALARS, max_size=3), min_size=1, max_size=3)
_TREES = st.dictionaries(_NAMES, _SCALARS | _FLAT | st.lists(_FLAT, min_size=1, max_size=2), min_size=1, max_size=2)


@given(tree=_TREES, comment=st.text(max_size=20))
def test_what_is_written_is_read_back(tree: dict[str, Any], comment: str) -> None:
    text = document_text(tree, dict.fromkeys(map(str, tree), comment), [comment])
    assert parse(text, "mine.yaml") == tree


@pytest.mark.parametrize(
    "value",
    ["yes", "no", "1.5", "null", "~", "0x10", "a: b", "#", "- a", "'", '"', "é", "2 T", "?", ": 0"],
)
def test_words_that_yaml_reads_otherwise_are_quoted(value: str) -> None:
    for tree in ({"key": value}, {"key": [value]}, {"key": [{"inner": [value]}]}):
        assert parse(document_text(tree, {}), "mine.yaml") == tree


def test_a_comment_stays_on_its_line() -> None:
    text = document_text({"a": 1, "b": {"c": 2}}, {"a": "from\na file", "b.c": "\x1b[31m"}, ["head\r\nline"])
    assert re.fullmatch(r"# head\?\?line\na: 1 +# from\?a file\nb:\n  c: 2 +# \?\[31m\n", text)


@pytest.mark.parametrize("letters", [40, 46, 47, 200])
def test_a_comment_that_would_be_wide_stands_above_its_key(letters: int) -> None:
    """Lines were as wide as their comments; 32 columns, `# ` and 46 letters fill 80."""
    words = " ".join(["word"] * 50)[: letters - 1] + "."
    text = document_text({"a": {"b": 1, "c": [2]}}, {"a.b": words, "a.c": "short"}, [words])
    assert parse(text, "mine.yaml") == {"a": {"b": 1, "c": [2]}}
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert (f"{'  b: 1':32}# {words}" in lines) is (letters <= 46)
    assert lines[-1] == f"{'  c: [2]':32}# short"
    assert " ".join(line.strip(" #") for line in lines if "word" in line and "b:" not in line).count("word") >= 8


@given(st.text(max_size=100))
def test_any_title_gives_a_name_of_a_document(text: str) -> None:
    assert re.fullmatch(r"[a-z0-9][a-z0-9.+-]*", document_name(text))
    assert len(document_name(text)) <= 64


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("config.json", ""),
        ("qwen/config.json", "qwen"),
        ("/models/Llama 3/config.json", "Llama 3"),
        ("mine.json", "mine"),
        ("c/models--Qwen--Qwen3-8B/snapshots/895c8d/config.json", "Qwen3-8B"),
    ],
)
def test_a_model_is_called_as_its_folder_or_file(path: str, name: str) -> None:
    assert model_name_in_path(path) == name
