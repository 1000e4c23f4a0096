"""Plain YAML read quickly: the tree, the places and the faults that ruamel.yaml would give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from each import share_of
from hypothesis import example, given, settings
from hypothesis import strategies as some

from costmodel.documents.text import any_yaml, yaml_and_json, yaml_tree
from costmodel.documents.text.yaml_and_json import NotYaml
from costmodel.ground.errors import CostModelError
from documents.text.test_json_tree import placed

ROOT = Path(__file__).parents[3]
SHIPPED = sorted(path for folder in ("hardware", "scenarios") for path in (ROOT / folder).rglob("*.yaml"))
BESIDE_EQUATIONS = sorted((ROOT / "costmodel" / "equations").glob("*.yaml"))
WORDS = some.sampled_from(
    ["a", "b c", "k.v-1", "8", "1e3", ".5", "-2", "1_0", "0x1f", "true", "No", "~", "null", "2026-11-09", "80 GiB",
     "x:y", "a#b", "it's", "-x", "é", "50 %", "...", "---", "<<", "=", ".inf", "+1.e-3", "'q'", '"q r"', "''",
     "'a''b'", '"a\\n"', "?", "-", "? x", ":", "a:", "&a x", "*a", "!t x", "|", ">", "@", "%", "`", "b?", "(c)", "a, b",
     "[", "]", "{", "}",
     "[a, b]", "{a: 1, b: [c, 2]}", "[]", "{}", "[a b, 'c']", "{a: b:c}", "[x:y]", "{a:1}", "[a, ]", "[- a]", "[-a]",
     "{a: }", "[a]b", "'q' b", "[a: 1]", ">-", ">-", ">- # a", "|-", "{'a': 1}", "\t", "a\tb", "\x85"]
)  # fmt: skip
LINES = some.tuples(
    some.sampled_from(["", "", "  ", "  ", "    ", " "]),
    some.sampled_from(["", "", "- ", "-   ", "- - ", "-"]),
    some.sampled_from(["a: ", "b: ", "c:", "'d': ", "e f: ", "8: ", "a:", "", "# "]),
    some.just("") | WORDS,
    some.sampled_from(["", "", " ", " # end", "#", "  #"]),
).map("".join)


def by_ruamel(text: str) -> Any:
    """A tree and its faults, or what is wrong with the text, by ruamel.yaml alone."""
    try:
        node = any_yaml.composed(text)
    except NotYaml:
        return None
    return with_faults(text, node)


def with_faults(text: str, node: Any) -> Any:
    builder = yaml_tree._Builder("f", text, quoted=False)
    return placed(builder.build(node)), builder.faults


def test_shipped_documents_are_read_alike() -> None:
    """A share of the files, unless --whole asks for all."""
    quickly, looked_at = 0, share_of(SHIPPED, 4)
    for path in looked_at:
        text = path.read_text(encoding="utf-8")
        if len(text) < 15_000 and (node := yaml_and_json.composed(text)) is not None:
            assert with_faults(text, node) == by_ruamel(text), path
            quickly += 1
    assert quickly > 0.8 * len(looked_at)


@pytest.mark.parametrize("folder", ["hardware", "scenarios"])
def test_shipped_documents_are_plain(folder: str) -> None:
    """No answer waits for ruamel.yaml because of what is shipped."""
    texts = {path: path.read_text(encoding="utf-8") for path in SHIPPED if path.parts[len(ROOT.parts)] == folder}
    assert not [path for path, text in texts.items() if yaml_and_json.composed(text) is None]


@pytest.mark.parametrize("path", BESIDE_EQUATIONS, ids=lambda path: path.stem)
def test_what_explain_reads_is_plain(path: Path) -> None:
    """No page of a word waits for ruamel.yaml."""
    text = path.read_text(encoding="utf-8")
    node = yaml_and_json.composed(text)
    assert node is not None
    assert with_faults(text, node) == by_ruamel(text)


LONG = some.sampled_from(
    ["a b", "is: c", "d #e", "d # e", "- f", "it's", "[g]", "{h", '"q"', "#", "x:y", "1", "---", "k:", "&a", "é ", "?"],
)  # fmt: skip


@settings(max_examples=200)
@given(
    first=LONG,
    more=some.lists(some.tuples(some.sampled_from(["  ", "    ", "   ", "\n  ", "", " "]), LONG), max_size=4),
    inside=some.booleans(),
)
def test_values_of_several_lines_are_read_alike(first: str, more: list[tuple[str, str]], inside: bool) -> None:
    lines = [f"a: {first}", *map("".join, more), "b: 1"]
    text = "\n".join(["t:", *(f"  {line}" for line in lines)] if inside else lines)
    node = yaml_and_json.composed(text)
    assert node is None or with_faults(text, node) == by_ruamel(text)


IN_BRACKETS = some.lists(
    some.sampled_from(
        ["[", "]", "{", "}", ",", ",", " ", "\n", "\n  ", "\n ", " # c\n", "#c\n", "\n\n", "a: ", "b", "'c'", '"d',
         "e f", '"', "x:y", "-", "- g", ": ", "? ", "''", "\n---\n", "&h "]
    ),
    max_size=12,
).map("".join)  # fmt: skip


@settings(max_examples=400)
@given(opened=some.sampled_from(["[", "[a, ", "{a: ", "[{b: ", '"', "'"]), inside=IN_BRACKETS)
@example(opened="[a, ", inside="b, # c\n  'c']")
@example(opened="[{b: ", inside="\n  [a,\n]},\n  {a: b,\n\n   a: b }  \n]  # c")
@example(opened='"', inside="e f \n  e #f\n")
def test_brackets_and_quotes_of_several_lines_are_read_alike(opened: str, inside: str) -> None:
    for close in ("", "]", "}", "}]", '"', "'"):
        text = f"t:\n  k: {opened}{inside}{close}\n  m: 1"
        node = yaml_and_json.composed(text)
        assert node is None or with_faults(text, node) == by_ruamel(text)


@settings(max_examples=400)
@given(lines=some.lists(LINES, min_size=1, max_size=6))
def test_a_text_is_read_alike_or_left_to_ruamel(lines: list[str]) -> None:
    text = "\n".join(lines)
    node = yaml_and_json.composed(text)
    assert node is None or with_faults(text, node) == by_ruamel(text)


@pytest.mark.parametrize("text", ["a: " + "[" * 500, "- " * 500 + "a", "a: " + "{b: " * 500, "  " * 500 + "a"])
def test_nesting_without_end_is_no_fault_of_the_reader(text: str) -> None:
    assert yaml_and_json.composed(text) is None or not text.strip("a ")


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("  - &x a", "5001:3"),
        ("   b: 1", "5001:4"),
        ("\t- a", "5001:1"),
        ("  - [a, b", "5001:3"),
        ("  - {a: ?}", "5001:3"),
    ],
)
def test_a_long_text_that_is_not_plain_is_refused_where_it_ceases_to_be(line: str, place: str) -> None:
    text = "a:\n" + "  - {b: 1, c: [d, 2], e: f}\n" * 4999 + line
    with pytest.raises(CostModelError, match="not as plain") as refused:
        yaml_tree.parse(text, "f")
    found = refused.value.faults[0].place
    assert found is not None
    assert f"{found.line}:{found.column}" == place
