"""JSON read as such: the tree, the places and the faults that the YAML reader would give."""

from __future__ import annotations

import json
from typing import Any

import pytest
from each import each
from hypothesis import given, settings
from hypothesis import strategies as some

from costmodel.documents.text import yaml_tree
from costmodel.documents.text.yaml_and_json import composed_json, fault_of, looks_like_json
from costmodel.documents.text.yaml_tree import MAXIMUM_YAML, WORTH_KEEPING, parse, read_tree
from costmodel.ground.errors import CostModelError

words = some.text(some.characters(min_codepoint=32, max_codepoint=0x24F, exclude_categories=("Cc", "Cf")), max_size=8)
trees = some.recursive(
    some.none()
    | some.booleans()
    | some.integers(-(10**20), 10**20)
    | some.floats(allow_nan=False, allow_infinity=False)
    | words,
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)


def placed(value: Any) -> Any:
    """A tree with the places of its keys and values."""
    if isinstance(value, dict):
        return value.place, [(key, key.place, key.place.width, key.at, placed(inner)) for key, inner in value.items()]
    if isinstance(value, list):
        return value.places, [place.width for place in value.places], [placed(inner) for inner in value]  # type: ignore[attr-defined]
    return type(value), repr(value), getattr(value, "place", None)


def by_yaml(text: str) -> Any:
    """The same by the YAML reader."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml_tree, "looks_like_json", lambda text: False)
        yaml_tree._yaml_nodes.cache_clear()
        try:
            return read_tree(text, "f")
        finally:
            yaml_tree._yaml_nodes.cache_clear()


@settings(max_examples=60)
@given(tree=some.dictionaries(words, trees, min_size=1, max_size=4), indent=some.sampled_from([None, 1, 4]))
def test_the_tree_is_that_of_the_yaml_reader(tree: Any, indent: int | None) -> None:
    text = json.dumps(tree, indent=indent, ensure_ascii=False)
    assert looks_like_json(text)
    assert composed_json(text) is not None
    (found, faults), (expected, theirs) = read_tree(text, "f"), by_yaml(text)
    assert placed(found) == placed(expected)
    assert faults == theirs


@each(
    "text",
    [
        '{"a": b}',
        '{"a": 1,}',
        '{"a" 1}',
        '{"a": 01}',
        '{"a": .5}',
        '{"a": 1 2}',
        '{"a": NaN}',
        "{'a': 1}",
        '{"a": 1}}',
        '{"a": [1 2]}',
        '{"a": [,]}',
        '{"a": tru}',
        '{"a": "x\ty"}',
        '{"a": "\\x"}',
        '{"a": 1} # end',
        '{"a"}',
        '{"a": ]}',
        '{"a": }',
        '{"a": {}',
        "{,}",
        '{"a": 1;}',
        '{"a": str}',
        '{"a": map}',
        '{"a": 1}\n---\n{}',
    ],
)
def test_what_is_not_quite_json_is_left_to_the_yaml_reader(text: str) -> None:
    assert composed_json(text) is None
    assert fault_of(text) is not None or "NaN" in text


def test_escapes_are_those_of_json() -> None:
    assert parse('{"a": "\\ud83d\\ude00\\u00e9\\/\\n"}'.replace("\\n", ""), "f") == {"a": "😀é/"}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"a": 1, "a": 2}', "D005"),
        ('{"a": "\\u001b"}', "D006"),
        ('{"a": "\\ud800"}', "D006"),
        ('{"a\\ud800": 1}', "D006"),
        ('{"a": ' + "[" * 40 + "]" * 40 + "}", "D012"),
        ('{"a": ' + "[" * 70 + "]" * 70 + "}", "D012"),
    ],
)
def test_faults_of_the_text(text: str, code: str) -> None:
    with pytest.raises(CostModelError) as raised:
        parse(text, "f")
    assert {fault.code for fault in raised.value.faults} == {code}


def test_a_long_text_that_is_not_quite_json_is_said_at_once() -> None:
    text = json.dumps({f"k{number}": number for number in range(9000)}, indent=1)
    assert len(text) > WORTH_KEEPING
    with pytest.raises(CostModelError) as raised:
        parse(text[:-20], "f")
    (fault,) = raised.value.faults
    assert (fault.code, fault.place.line if fault.place else 0) == ("D002", 9000)
    assert "this is not JSON" in fault.sentence


def test_yaml_is_held_to_what_its_reader_reads_soon() -> None:
    with pytest.raises(CostModelError) as raised:
        parse("a: 1\n" * (MAXIMUM_YAML // 5 + 1), "f")
    assert raised.value.faults[0].code == "D001"
