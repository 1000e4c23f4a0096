"""JSON text to a tree with places: the same values as the standard library, and a place for every fault."""

from __future__ import annotations

import json
import math
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.exchange.values import DEEPEST, LONGEST, MOST_LINES, MOST_VALUES, parse_json
from costmodel.ground.errors import CostModelError, Fault

FILE = "config.json"
plain = st.text(st.characters(min_codepoint=32, blacklist_categories=["Cs", "Cc"]), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | plain,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(plain, inner, max_size=4),
)


def fault(text: str) -> Fault:
    """The only fault of a text."""
    with pytest.raises(CostModelError) as caught:
        parse_json(text, FILE)
    (found,) = caught.value.faults
    return found


@given(values, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_the_values_are_those_of_the_standard_library(tree: Any, indent: Any, escaped: bool) -> None:
    text = json.dumps(tree, indent=indent, ensure_ascii=escaped)
    assert parse_json(text, FILE) == json.loads(text)


def test_every_key_and_value_has_its_place() -> None:
    tree = parse_json('{\r\n  "hidden": 512,\n\t"list": [1, {"a": "b"}]\r}', FILE)
    hidden, listed = tree
    assert (hidden.place.line, hidden.place.column, hidden.at.line, hidden.at.column) == (2, 3, 2, 13)
    assert hidden.at.path == "hidden"
    assert listed.place.text == '\t"list": [1, {"a": "b"}]'
    assert tree["list"].places[1].column == 14
    (inner,) = tree["list"][1]
    assert (inner.at.line, inner.at.column, inner.at.path) == (3, 20, "list.1.a")
    assert tree["list"][1]["a"].place == inner.at


def test_numbers_that_python_writes_are_read() -> None:
    nan, infinite, least, huge = parse_json("[NaN, Infinity, -Infinity, 1e400]", FILE)
    assert math.isnan(nan)
    assert (infinite, least, huge) == (math.inf, -math.inf, math.inf)
    assert parse_json("9" * 5000, FILE) == math.inf
    assert parse_json("\ufeff{}", FILE) == {}


@pytest.mark.parametrize(
    ("text", "code", "sentence", "place"),
    [
        ("", "D002", "the text is empty", FILE),
        ("{", "D002", "a key in double quotes is expected here, not the end of the text", f"{FILE}:1:2"),
        ('{"a": 1,}', "D002", "a key in double quotes is expected here, not '}'", f"{FILE}:1:9"),
        ('{"a" 1}', "D002", "a colon is expected here, not '1'", f"{FILE}:1:6"),
        ('{"a": 01}', "D002", "a comma or '}' is expected here, not '1'", f"{FILE}:1:8"),
        ("{'a': 1}", "D002", "a key in double quotes is expected here", f"{FILE}:1:2"),
        ('["a', "D002", "the rest of a text in double quotes is expected here", f"{FILE}:1:2"),
        ("[nan]", "D002", "a value is expected here, not 'n'", f"{FILE}:1:2"),
        ("{} {}", "D002", "the end of the text is expected here", f"{FILE}:1:4"),
        ('{"a": 1,\n "a": 2}', "D005", "the key 'a' occurs twice", f"{FILE}:2:2"),
        ('{"a": "\\u001b[31m"}', "D006", "control characters are not used here", f"{FILE}:1:7"),
        ('["\\ud800"]', "D006", "control characters are not used here", f"{FILE}:1:2"),
        ("[1, \x1b]", "D006", "control characters are not used here", f"{FILE}:1:5"),
        ("[" * (DEEPEST + 1), "X010", f"nested more than {DEEPEST} deep", f"{FILE}:1:{DEEPEST + 1}"),
        (" " * (LONGEST + 1), "X010", "letters", FILE),
        ("\n" * (MOST_LINES + 1), "X010", "lines", FILE),
        ("[" + "1," * MOST_VALUES + "1]", "X010", "values", f"{FILE}:1:"),
    ],
)
def test_a_fault_has_code_sentence_and_place(text: str, code: str, sentence: str, place: str) -> None:
    found = fault(text)
    assert found.code == code
    assert sentence in found.sentence
    assert str(found.place).startswith(place)


def test_many_equal_keys_end_after_some_faults() -> None:
    with pytest.raises(CostModelError) as caught:
        parse_json("{" + ",".join(['"a": 1'] * 1000) + "}", FILE)
    assert 1 < len(caught.value.faults) < 100


@pytest.mark.parametrize(
    "text",
    [
        "[" + ",".join(["{}"] * (MOST_VALUES - 1)) + "]",
        "{" + ",".join(f'"{index}": 1' for index in range(MOST_VALUES - 1)) + "}",
        '{"' + "a" * 60_000 + '": [' + ",".join(["[]"] * (MOST_VALUES - 2)) + "]}",
        '"' + "x" * (LONGEST - 2) + '"',
        "1" * LONGEST,
        "\n" * MOST_LINES + "1",
    ],
    ids=["mappings", "keys", "a long key", "a long text", "a long number", "lines"],
)
def test_the_largest_texts_are_read(text: str) -> None:
    assert parse_json(text, FILE) is not None


def test_ten_times_the_keys_take_no_more_than_ten_times_the_time() -> None:
    """With room for noise: what grows with the square would take a hundred times."""

    def seconds(keys: int) -> float:
        text = "{" + ",".join(f'"{index}": 1' for index in range(keys)) + "}"
        started = time.process_time()
        parse_json(text, FILE)
        return time.process_time() - started

    assert seconds(20_000) < 50 * max(min(seconds(2_000) for _ in range(3)), 1e-3)
