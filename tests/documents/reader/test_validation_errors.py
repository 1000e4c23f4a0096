"""Every fault of a document: one clear error at the right word, with a remedy; all of a document at once."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from each import share_of
from pydantic import BaseModel

from costmodel.documents.keys.paths import REFERENCES
from costmodel.documents.keys.schema_paths import resolved, schema_tree
from costmodel.documents.keys.workload_keys import SCENARIOS
from costmodel.documents.reader.load_scenario import load_any
from costmodel.documents.reader.validation_errors import validate
from costmodel.documents.schemas.scenario import Scenario
from costmodel.documents.schemas.serving import Serving
from costmodel.documents.text.yaml_tree import parse
from costmodel.ground.errors import FAULT_CODES, CostModelError, Fault

Faults = Callable[[Any], list[Any]]

ASSUME = "assume:\n"
PLAN = "  tp: 8\n"


def keys(text: str) -> str:
    """More keys of the plan."""
    return PLAN + text


# What is replaced, by what; the code, the text under the caret, words of the sentence, words of the help.
ONE = {
    "unknown key": ("  tokens:", "  tokns:", "D003", "tokns", "unknown key 'tokns'", "did you mean 'tokens'?"),
    "no space after a colon": (
        "assume:",
        "limits: {mfu: {at_least:0.4}}\nassume:",
        "D003",
        "at_least:0.4",
        "no space between the key 'at_least' and its value",
        "write at_least: 0.4",
    ),
    "unknown key at the top": ("stack:", "stak:", "D003", "stak", "unknown key", "did you mean 'stack'?"),
    "key of another room": (ASSUME, "tp: 4\nassume:\n", "D003", "tp", "unknown key 'tp'", "write plan.tp or search.tp"),
    "key like no other": (PLAN, keys("  zzzz: 1\n"), "D003", "zzzz", "unknown key", "known: dp, tp, pp"),
    "result under its own name": (
        ASSUME,
        "limits: {memory_share: {at_most: 95 %}}\nassume:\n",
        "D003",
        "memory_share",
        "unknown key 'memory_share'",
        "did you mean 'memory'?",
    ),
    "number as a key": (PLAN, keys("  8: 8\n"), "D003", "8", "unknown key '8'", "known: "),
    "missing key": ("  global_batch: 1024\n", "", "D004", "workload", "'workload.global_batch' is", "Sequences in"),
    "missing key at the top": ("model: llama", "# llama", "D004", "schema", "the key 'model' is missing", "model: M"),
    "duplicate key": ("  pp: 4", "  tp: 4", "D005", "tp", "occurs twice", "first on line 20; keep one"),
    "tab": ("  pp: 4", "\tpp: 4", "D002", "    ", "not YAML", "blanks, never with tabs"),
    "open bracket": ("  pp: 4", "  pp: [4", "D002", ":", "not YAML: expected ',' or ']'", "which starts on line 21"),
    "open quote": ("  pp: 4", '  pp: "4', "D002", '"', "end of stream", "which starts on line 21"),
    "two colons": ("  pp: 4", "  pp: a: b", "D002", ":", "mapping values are not allowed", ""),
    "two documents": ("plan: ", "---\nplan: ", "D002", "-", "another document", "which starts on line 3"),
    "nul byte": ("tp: 8", "tp: 8\0", "D002", "�", "special characters", ""),
    "wrong unit": ("2.50 USD/GPU/h", "3.35 TB", "D007", "3.35 TB", "'TB' is not a unit of USD/GPU/h", ""),
    "unknown unit": ("2.50 USD/GPU/h", "2 parsec", "D007", "2 parsec", "unknown unit 'parsec': a price is written", ""),
    "frequency for a price": ("2.50 USD/GPU/h", "2 GHz", "D007", "2 GHz", "'GHz' is not a unit", ""),
    "bare number": ("2.50 USD/GPU/h", "2.50", "D007", "2.50", "2.5 has no unit; write '2.5 USD/GPU/h'", ""),
    "unit on a count": ("tp: 8", "tp: 8 GiB", "D007", "8 GiB", "'8 GiB' is not a plain number; write e.g. 8", ""),
    "word for a count": ("tp: 8", "tp: eight", "D007", "eight", "'eight' is not a plain number", ""),
    "date for a count": ("tp: 8", "tp: 2024-01-01", "D007", "2024-01-01", "is not a plain number", ""),
    "time for a count": ("tp: 8", "tp: 8:30", "D007", "8:30", "is not a plain number", ""),
    "other digits": ("tp: 8", "tp: １", "D007", "１", "is not a plain number", ""),
    "long text": ("tp: 8", f"tp: {'x' * 3000}", "D007", "x" * 100, "this is not a quantity", ""),
    "endless word": (
        "tp: 8",
        f"tp: {'x' * 20_000}",
        "D001",
        "x",
        "a word of 20,000 letters",
        "at most 10,000 are read",
    ),
    "nan": ("tp: 8", "tp: .nan", "D008", ".nan", "a finite number is expected here", ""),
    "infinity": ("tp: 8", "tp: -.inf", "D008", "-.inf", "a finite number is expected here", ""),
    "overflow": ("tp: 8", "tp: 1e400", "D008", "1e400", "a finite number is expected here", ""),
    "huge whole number": ("tp: 8", f"tp: 1{'0' * 400}", "D008", "1" + "0" * 99, "a finite number", ""),
    "negative": ("tp: 8", "tp: -1", "D008", "-1", "-1 is out of range: at least 1 and at most 1e18", ""),
    "zero": ("tp: 8", "tp: 0", "D008", "0", "0 is out of range: at least 1", ""),
    "too many": ("nodes: 64", "nodes: 1e19", "D008", "1e19", "1e19 is out of range", ""),
    "part of one": ("tp: 8", "tp: 1.5", "D008", "1.5", "a whole number is expected here, not 1.5", ""),
    "more than a float of use": ("tp: 8", "tp: 1e308", "D008", "1e308", "1e308 is out of range: at least 1 and", ""),
    "no percent sign": (ASSUME, ASSUME + "  fragmentation: 5\n", "D008", "5", "1; if percent is meant, 5%", ""),
    "less than the mean": (
        ASSUME,
        ASSUME + "  experts: {imbalance: 0.5}\n",
        "D008",
        "0.5",
        "0.5 is out of range: at least 1",
        "",
    ),
    "percent over": (
        ASSUME,
        ASSUME + "  fragmentation: 500 %\n",
        "D008",
        "500 %",
        "500 % is out of range: at least 0 and at most 1",
        "",
    ),
    "percent under": (ASSUME, ASSUME + "  fragmentation: -5 %\n", "D008", "-5 %", "at least 0 and at most 1", ""),
    "value for a mapping": (
        ASSUME,
        "limits: {memory: 90 %}\nassume:\n",
        "D006",
        "90 %",
        "a mapping of keys to values is expected here, not '90 %'",
        "for example {at_most: 90 %}; its keys: at_most, at_least",
    ),
    "nothing for limits": (
        ASSUME,
        "limits: null\nassume:\n",
        "D006",
        "null",
        "a mapping of keys to values is expected here, not nothing",
        "more; costmodel list keys shows them",
    ),
    "list for a mapping": (ASSUME, "limits: [1]\nassume:\n", "D006", "[", "not a list", "its keys: memory, "),
    "list for a value": ("tp: 8", "tp: [8]", "D006", "[", "a number is expected here, not a list", ""),
    "mapping for a value": ("tp: 8", "tp: {a: 1}", "D006", "{", "a number is expected here, not a mapping", ""),
    "true for a value": ("tp: 8", "tp: true", "D006", "true", "a number is expected here, not true", ""),
    "nothing for a value": ("tp: 8", "tp:", "D006", "tp", "a number is expected here, not nothing", ""),
    "list for a price": ("2.50 USD/GPU/h", "[1 USD]", "D006", "[", "a quantity is expected here, not a list", ""),
    "mapping for text": ("title: Llama 3", "title: {a: 1} #", "D006", "{", "text is expected here, not a mapping", ""),
    "number for text": ("title: Llama 3", "title: 5 #", "D006", "5", "text is expected here, not 5", 'quotes: "5"'),
    "nothing for text": ("title: Llama 3", "title: #", "D006", "title", "text is expected here, not nothing", ""),
    "text for a mapping": ("assume:", "limits: x\nassume:", "D006", "x", "a mapping of keys to values", ""),
    "list for a model": ("model: llama-3-70b ", "model: [a] ", "D006", "[", "mapping of keys", "or the name of a doc"),
    "text for a list": (ASSUME, "search: {tp: 8}\nassume:\n", "D006", "8", "a list is expected here, not 8", "[8]"),
    "empty list": (ASSUME, "search: {tp: []}\nassume:\n", "D006", "[", "the list is empty", "leave the key out"),
    "neither true nor false": (PLAN, keys("  sequence_parallel: maybe\n"), "D006", "maybe", "true or false", ""),
    "list as a key": (PLAN, keys("  [a]: 1\n"), "D006", "[", "a key must be plain text", ""),
    "escape sequence": ("tp: 8", 'tp: "\\e[31m8"', "D006", '"\\e[31m8"', "control characters are not", ""),
    "unknown choice": (
        PLAN,
        keys("  recompute: partial\n"),
        "D010",
        "partial",
        "is not one of 'none', 'selective'",
        "",
    ),
    "misspelt choice": (PLAN, keys("  recompute: ful\n"), "D010", "ful", "is not one of", "did you mean 'full'?"),
    "unknown number": (PLAN, keys("  zero: 4\n"), "D010", "4", "4 is not one of 0, 1, 2 or 3", ""),
    "quoted number": (PLAN, keys('  zero: "1"\n'), "D010", '"1"', "'1' is not one of", "without quotes: 1"),
    "list for a choice": (PLAN, keys("  zero: [1]\n"), "D006", "[", "one of 0, 1, 2 or 3 is expected", ""),
    "the only choice": ("kind: training", "kind: tuning", "D010", "tuning", "'training' is the only one", ""),
    "word for a mapping": (
        "kind: t",
        "tuning: LoRA\n  kind: t",
        "D010",
        "LoRA",
        "'LoRA' is not a choice here; 'full' or a mapping is",
        "did you mean {method: lora}?",
    ),
    "list for a word or a mapping": ("kind: t", "tuning: [a]\n  kind: t", "D006", "[", "a mapping of keys", ""),
    **{
        f"{name} where a word may stand": ("kind: t", f"tuning: {{method: lora, {text}}}\n  kind: t", *answer)
        for name, text, *answer in (
            ("unknown key", "ranks: 8", "D003", "ranks", "unknown key 'ranks'", "did you mean 'rank'?"),
            ("zero", "rank: 0", "D008", "0", "0 is out of range", ""),
            ("unknown choice", "modules: [upp]", "D010", "upp", "'upp' is not one of", "did you mean 'up'?"),
            ("empty list", "modules: []", "D006", "[", "the list is empty", "leave the key out"),
            (
                "module of others",
                "modules: [q, kv-up]",
                "D016",
                "kv-up",
                "has no kv-up to adapt",
                "q, k, v, o, gate",
            ),
        )
    },
    "narrow products of packed weights": (
        "kind: t",
        "precision: fp8\n  tuning: {method: qlora}\n  kind: t",
        "D016",
        "fp8",
        "weights of qlora are unpacked into 16 bits",
        "workload.precision: bf16",
    ),
    "schema of the future": (
        "scenario/v1",
        "scenario/v2",
        "D011",
        "costmodel/scenario/v2",
        "scenario/v1 is expected",
        "",
    ),
    "schema of another kind": ("/scenario/v1", "/model/v1", "D011", "costmodel/model/v1", "this is costmodel/mod", ""),
    "schema of nothing": ("costmodel/scenario/v1", "x", "D011", "x", "'x' is no schema", "schema: costmodel/sc"),
    "half a character": ("tp: 8", 'tp: "\\uD800"', "D006", '"\\uD800"', "control characters", "write plain text"),
    "half a character as a key": (PLAN, keys('  "\\uD800": 1\n'), "D006", '"\\uD800"', "a key must be plain", ""),
    "misspelt schema": (
        "schema: cost",
        "chema: cost",
        "D003",
        "chema",
        "unknown key 'chema'",
        "did you mean 'schema'?",
    ),
    "no schema": (
        "schema: costmodel/scenario/v1\n",
        "",
        "D011",
        "title",
        "the key 'schema' is missing",
        "schema: cost",
    ),
    "unknown model": ("llama-3-70b ", "llama-3-70 ", "D009", "llama-3-70", "no model named", "mean 'llama-3-70b'?"),
    "unknown stack": ("megatron-core ", "megatron ", "D009", "megatron", "no stack named", "mean 'megatron-core' ("),
    "unknown node": ("dgx-h100 ", "dgx-h10 ", "D009", "dgx-h10", "no node named", "did you mean 'dgx-h100'?"),
    "name like no other": ("dgx-h100 ", "zzz ", "D009", "zzz", "no node named", "costmodel list nodes"),
    "name of another kind": ("dgx-h100 ", "h100-sxm ", "D009", "h100-sxm", "is the name of an accelerator", ""),
    "empty name": ("model: llama-3-70b ", 'model: "" ', "D009", '""', "no model named ''", "costmodel list models"),
    "stdin for a name": ("model: llama-3-70b ", 'model: "-" ', "D009", '"-"', "no model named '-'", ""),
    "file that is not there": ("llama-3-70b ", "mine.yaml ", "D001", "mine.yaml", "cannot be read: No such file", ""),
    "precision of other chips": (
        "kind: t",
        "precision: mxfp8\n  kind: t",
        "D016",
        "mxfp8",
        "cannot multiply",
        "precision of it: bf16",
    ),
    "precision of other stacks": (
        "kind: t",
        "precision: fp8-row\n  kind: t",
        "D016",
        "fp8-row",
        "does not train",
        "offers",
    ),
    "peak of other chips": (ASSUME, ASSUME + "  mfu_peak: fp4\n", "D016", "fp4", "has no fp4 peak", "another"),
    "anchor": ("tp: 8", "tp: &a 8", "D012", "&a 8", "anchors and aliases are not used here", "write the value out"),
    "anchor with nothing": ("tp: 8", "tp: &a", "D012", "&a", "anchors and aliases", ""),
    "anchor without alias": ("plan:  ", "plan: &p\n  #", "D012", "tp", "anchors and aliases", ""),
    "alias of nothing": ("tp: 8", "tp: *zz", "D002", "*", "undefined alias", ""),
    "tag that runs": ("title: Llama 3", "title: !!python/object/apply:os.system [id] #", "D012", "!", "!!python/o", ""),
    "tag of a stranger": ("tp: 8", "tp: !foo 8", "D012", "!foo 8", "the tag '!foo' is not used here", "plain values"),
    "binary tag": ("tp: 8", "tp: !!binary OA==", "D012", "!!binary OA==", "the tag '!!binary'", ""),
    "tag on a mapping": ("plan:  ", "plan: !!set\n  #", "D012", "tp", "the tag '!!set' is not used here", ""),
}


@pytest.mark.parametrize("name", ONE)
def test_one_fault(name: str, run: Any, faults: Faults, scenario: str, tmp_path: Path) -> None:
    old, new, code, marked, sentence, hint = ONE[name]
    assert old in scenario
    (tmp_path / "s.yaml").write_text(scenario.replace(old, new, 1), "utf-8")
    found = faults(run("estimate", "s.yaml", cwd=tmp_path))
    first = next(fault for fault in found if fault.code == code)
    assert len(found) == 1 or code == "D012", found
    assert sentence in first.sentence
    assert first.marked.rstrip("…") == marked
    assert hint in first.help
    assert first.place.startswith("s.yaml:")


def test_every_code_of_a_document_is_tried() -> None:
    tables = {"D014", "D015", "D018", "D020"}  # test_table.py, test_kernels.py, test_offers.py, test_stored.py
    tried = {case[2] for case in ONE.values()} | tables | {"D013", "D017"}  # test_library.py, test_band.py
    assert tried == {code for code in FAULT_CODES if code.startswith("D")}


WRITTEN_OUT = {
    "unknown key in a list": ("kv_heads", "kvheads", "D003", "kvheads", "unknown key", "did you mean 'kv_heads'?"),
    "missing key": ("  hidden: 8192\n", "", "D004", "model", "'model.hidden' is missing", "Width of the residual"),
    "missing name": ("  name: llama-3-70b\n", "", "D004", "model", "the key 'model.name' is missing", "Name;"),
    "missing key in a list": (
        "- count: 80\n      att",
        "- att",
        "D004",
        "attention",
        "'model.layers.0.count' is",
        "How many",
    ),
    "unknown choice": (
        "rotary",
        "rotory",
        "D010",
        "rotory",
        "is not one of 'learned', 'rotary' or 'alibi'",
        "mean 'rotary'?",
    ),
    "wrong schema": (
        "costmodel/model/v1",
        "costmodel/stack/v1",
        "D011",
        "costmodel/stack/v1",
        "model/v1 is expected",
        "",
    ),
    "bad name": ("name: llama-3-70b", "name: Llama 3", "D006", "Llama 3", "a name is made of small letters", ""),
    "long name": ("name: llama-3-70b", f"name: {'a' * 65}", "D006", "a" * 65, "at most 64 letters", ""),
    "unknown source": ("source: torchtune", "source: torchtun", "D013", "torchtun", "has no entry", "'torchtune'?"),
}


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_one_fault_in_a_model_written_out(name: str, run: Any, faults: Faults, inline: str, tmp_path: Path) -> None:
    old, new, code, marked, sentence, hint = WRITTEN_OUT[name]
    assert old in inline
    (tmp_path / "s.yaml").write_text(inline.replace(old, new, 1), "utf-8")
    (found,) = faults(run("estimate", "s.yaml", cwd=tmp_path))
    assert (found.code, found.marked) == (code, marked)
    assert sentence in found.sentence
    assert hint in found.help
    assert "(model" in found.place


def test_a_model_written_out_is_the_model(run: Any, inline: str, scenario: str) -> None:
    assert run("estimate", "-", stdin=inline) == run("estimate", "-", stdin=scenario)


def test_all_faults_of_a_document_at_once(run: Any, faults: Faults, scenario: str) -> None:
    broken = (
        scenario.replace("  tokens:", "  tokns:")
        .replace("tp: 8", "tp: 0")
        .replace("pp: 4", "pp: 4\n  pp: 4")
        .replace("2.50 USD/GPU/h", "2.50")
        .replace("micro_batch: 1", "micro_batch: &a 1")
    )
    found = faults(run("estimate", "-", stdin=broken))
    assert [fault.code for fault in found] == ["D005", "D012", "D003", "D008", "D007"]


def test_all_unknown_names_at_once(run: Any, faults: Faults, scenario: str) -> None:
    broken = scenario.replace("llama-3-70b ", "llama ").replace("dgx-h100 ", "dgx ").replace("megatron-core ", "mega ")
    assert [fault.marked for fault in faults(run("search", "-", stdin=broken))] == ["llama", "mega", "dgx"]


def test_keys_names_and_what_is_set_are_told_together(run: Any, faults: Faults, scenario: str, tmp_path: Path) -> None:
    """A key that is wrong does not hide a name that leads nowhere, nor what is wrong in a document that is found."""
    node = (Path(__file__).resolve().parents[3] / "hardware/nodes/dgx-h100.yaml").read_text()
    node = node.replace("name: dgx-h100", "name: mine").replace("accelerator: h100-sxm", "accelerator: h100-smx")
    (tmp_path / "mine.yaml").write_text(node)
    broken = scenario.replace("llama-3-70b ", "llama ").replace("dgx-h100 ", "mine.yaml ").replace("tp: 8", "tpp: 8")
    (tmp_path / "s.yaml").write_text(broken)
    found = faults(run("estimate", "s.yaml", "--set", "plan.pp", "--set", "plan.dp=two", cwd=tmp_path))
    answer = [(fault.code, fault.marked) for fault in found]
    assert answer[:2] == [("C001", "plan.pp"), ("D007", "two")]
    assert answer[2:] == [("D003", "tpp"), ("D009", "llama"), ("D009", "h100-smx")]


def test_faults_are_told_in_the_order_of_the_file(run: Any, faults: Faults, scenario: str) -> None:
    broken = scenario.replace("title: Llama 3", "title: 5 #").replace("kind: training", "kind: x") + "foo: 1\n"
    lines = [int(fault.place.split(":")[1]) for fault in faults(run("estimate", "-", stdin=broken))]
    assert len(lines) == 3
    assert lines == sorted(lines)


def test_a_flood_of_faults_is_cut(run: Any, scenario: str) -> None:
    broken = scenario + "".join(f"k{number}: 1\n" for number in range(1200))
    ran = run("estimate", "-", stdin=broken)
    assert ran.code == 2
    assert ran.err.count("error[D003]") == 20
    assert ran.err.endswith("and 1,180 more\n1,200 errors. Details: costmodel explain D003\n")


def broken(text: str) -> tuple[Fault, ...]:
    """The faults of a scenario's text."""
    try:
        validate(Scenario, parse(text, "s.yaml"), "s.yaml")
    except CostModelError as error:
        return error.faults
    return ()


@pytest.mark.parametrize("other", ["[]", "{}", "x y", "-1", "true", ""])
def test_what_pydantic_says_is_never_heard(other: str, inline: str) -> None:
    for line in inline.splitlines():
        key, _, value = line.partition(":")
        if value.strip() and not line.lstrip().startswith("#"):
            for fault in broken(inline.replace(line, f"{key}: {other}")):
                assert "Input should" not in fault.sentence + fault.hint
                assert "should have" not in fault.sentence + fault.hint
                assert fault.place is not None
                assert fault.place.line
                assert fault.place.text


@pytest.mark.parametrize("schema", ["costmodel/page/v1", "costmodel/model/v1"])
def test_a_document_of_another_kind_is_one_fault(schema: str, run: Any, faults: Faults) -> None:
    (found,) = faults(run("estimate", "-", stdin=f"schema: {schema}\nword: x\nlayers: []\n"))
    assert found.sentence == f"this is {schema}, and costmodel/scenario/v1 is expected here"


def test_an_alias_bomb_does_not_go_off(run: Any, faults: Faults) -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    letters = "abcdefghijklmno"
    for before, letter in itertools.pairwise(letters):
        lines.append(f"{letter}: &{letter} [{', '.join([f'*{before}'] * 9)}]")
    found = faults(run("estimate", "-", stdin="\n".join(lines)))
    assert {fault.code for fault in found} == {"D012", "D011"}


def test_an_anchor_that_stands_twice_is_two_faults(run: Any, faults: Faults, scenario: str) -> None:
    found = faults(run("estimate", "-", stdin=scenario.replace("tp: 8", "tp: &a 8").replace("pp: 4", "pp: &a 4")))
    assert [(fault.code, fault.marked) for fault in found] == [("D012", "&a 8"), ("D012", "&a 4")]


@pytest.mark.parametrize("depth", [33, 100, 500, 100_000])
@pytest.mark.parametrize("brackets", ["[]", "{}"])
def test_deep_nesting(depth: int, brackets: str, run: Any, faults: Faults, scenario: str) -> None:
    nest = brackets[0] * depth + (brackets[1] * depth if brackets == "[]" else "")
    found = faults(run("estimate", "-", stdin=scenario.replace("tp: 8", f"tp: {nest}")))
    assert found[0].code in ("D012", "D002")


TEXTS = {
    "empty": (b"", "D002", "the document is empty"),
    "comment": (b"# nothing\n", "D002", "the document is empty"),
    "marker": (b"---\n", "D002", "the document is empty"),
    "null": (b"null", "D002", "the document is empty"),
    "word": (b"hello", "D006", "a document is a mapping of keys to values"),
    "list": (b"- a\n- b\n", "D006", "a document is a mapping of keys to values"),
    "latin-1": ("title: é".encode("latin-1"), "D001", "not UTF-8 text"),
    "utf-16": ("title: é".encode("utf-16"), "D001", "not UTF-8 text"),
    "binary": (bytes(range(256)) * 9, "D001", "not UTF-8 text"),
    "control": (b"title: \x01", "D002", "special characters"),
    "large": (b"#" * 4_000_001, "D001", "over 4 MB"),
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("way", ["file", "stdin"])
def test_texts_that_are_no_document(name: str, way: str, run: Any, faults: Faults, tmp_path: Path) -> None:
    data, code, sentence = TEXTS[name]
    (tmp_path / "s.yaml").write_bytes(data)
    ran = run("estimate", "s.yaml", cwd=tmp_path) if way == "file" else run("estimate", "-", stdin=data)
    (found,) = faults(ran)
    assert found.code == code
    assert sentence in found.sentence
    assert (found.help == "save it as UTF-8") is ("UTF-8" in sentence)
    assert found.place.startswith("s.yaml" if way == "file" else "<stdin>")


@pytest.mark.parametrize("change", ["crlf", "bom", "no end", "flow"])
def test_texts_that_are_fine(change: str, run: Any, scenario: str) -> None:
    text = {
        "crlf": scenario.replace("\n", "\r\n").encode(),
        "bom": b"\xef\xbb\xbf" + scenario.encode(),
        "no end": scenario.rstrip().encode(),
        "flow": scenario.replace("  tp: 8\n  pp: 4\n  micro_batch: 1\n", "  {tp: 8, pp: 4, micro_batch: 1}\n").encode(),
    }[change]
    assert run("estimate", "-", stdin=text) == run("estimate", "-", stdin=scenario)


@pytest.mark.parametrize(
    ("old", "new"),
    [("\n", "\r\n"), ("\n", "\r"), ("title: Llama", "title: a\x85b\u2028c"), ("schema:", "\ufeffschema:")],
    ids=["crlf", "cr", "other line ends", "bom"],
)
def test_the_caret_stays_right(old: str, new: str, run: Any, faults: Faults, scenario: str) -> None:
    broken = scenario.split("\n", 2)[2].replace("tp: 8", "tpp: 8").replace(old, new)
    found = next(fault for fault in faults(run("estimate", "-", stdin=broken)) if fault.code == "D003")
    assert found.marked == "tpp"


@pytest.mark.parametrize("text", ["8", '"8"', "8.0", "0x8", "0o10", "08", "8e0", "!!int 8", "!!str 8", "+8"])
def test_ways_to_write_eight(text: str, run: Any, scenario: str) -> None:
    assert run("estimate", "-", stdin=scenario.replace("tp: 8", f"tp: {text}")).code == 0


def test_a_fault_beside_a_spread_is_reported_at_its_own_key() -> None:
    text = "kind: serving\nprompt:\n  mean: abc\n  spread: 60 %\noutput: 8\nrate: 1 /s\n"
    with pytest.raises(CostModelError) as caught:
        validate(Serving, parse(text, "served.yaml"), "served.yaml")
    (place,) = [fault.place for fault in caught.value.faults]
    assert place is not None
    assert (place.path, place.line, place.text) == ("prompt.mean", 3, "  mean: abc")


def test_a_spread_without_its_percent_sign_is_refused() -> None:
    text = "kind: serving\nprompt: {mean: 512, spread: 60}\noutput: 8\nrate: 1 /s\n"
    with pytest.raises(CostModelError) as caught:
        validate(Serving, parse(text, "served.yaml"), "served.yaml")
    (fault,) = caught.value.faults
    assert (fault.code, fault.place and fault.place.path) == ("D008", "prompt.spread")
    assert fault.sentence.endswith("at least 0 and at most 10; if percent is meant, 60%")
    assert validate(Serving, parse(text.replace("60", "60 %"), "served.yaml"), "served.yaml").spread("prompt") == 0.6


# ── Hints that name a value ──────────────────────────────────────────────────────────────────────────────────────────

OF_WORKLOADS = {"training": "quickstart", "serving": "serve-llama-3.1-70b", "rl": "grpo-qwen-2.5-7b-64"}
_VALUE = re.compile(r"(?:for example|did you mean|write e\.g\.) ('[^']*'|[^;?]+)")
OF_ONE_VALUE = {"D004", "D007", "D008", "D009", "D010"}  # faults of a value alone; rules over several keys are D006


def paths_in(schema: type[BaseModel], above: str, node: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """Every key of a scenario beneath a mapping, and whether it is a mapping itself; not those of named documents."""
    for name, value in node.get("properties", {}).items():
        inner, held = f"{above}{name}", resolved(schema, value)
        is_mapping = bool(held.get("properties")) and inner not in REFERENCES
        yield inner, is_mapping
        if is_mapping:
            yield from paths_in(schema, f"{inner}.", held)


def faults_with(scenario: str, assignment: str) -> tuple[Fault, ...]:
    try:
        load_any(scenario, [assignment])
    except CostModelError as error:
        return error.faults
    return ()


@pytest.mark.parametrize("workload", OF_WORKLOADS)
def test_a_value_that_a_hint_names_brings_no_second_fault(workload: str) -> None:
    """Over all keys: of a mapping no fault at all, as plan.speculation=eagle had; of a value none of its own."""
    schema, scenario = SCENARIOS[workload], OF_WORKLOADS[workload]
    followed, wrong = set[bool](), list[tuple[str, str]]()
    for path, is_mapping in share_of(paths_in(schema, "", schema_tree(schema)), 4):
        for fault in [fault for fault in faults_with(scenario, f"{path}=zzz") if fault.place][:1]:
            found = _VALUE.search(fault.hint) or _VALUE.search(fault.sentence)
            if found is None:
                continue
            value = found[1].split(" or ")[0].strip().strip("'")
            again = faults_with(scenario, value if value.startswith(path) else f"{path}={value}")
            followed.add(is_mapping)
            wrong += [(path, value) for each in again if is_mapping or each.code in OF_ONE_VALUE]
    assert followed == {True, False}
    assert wrong == []


def test_an_example_of_a_mapping_is_built_of_its_required_keys() -> None:
    (fault,) = faults_with("serve-llama-3.1-70b", "plan.speculation=eagle")
    assert fault.hint.startswith("for example plan.speculation={tokens: 4, acceptance: 42 %, draft: eagle}; its keys:")


# ── Sections left out ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "section"),
    [
        *(("llama-3-70b-512", section) for section in ("limits", "assume", "assume.overlap", "search", "run", "stack")),
        *(("serve-llama-3.1-70b", section) for section in ("limits", "limits.ttft_p99", "assume", "search")),
        *(("grpo-qwen-2.5-7b-64", section) for section in ("limits", "run", "assume")),
    ],
)
def test_null_leaves_a_section_out_as_if_it_were_not_written(name: str, section: str, tmp_path: Path) -> None:
    dropped = load_any(name, [f"{section}=null"]).scenario
    above, _, key = section.rpartition(".")
    holder = getattr(dropped, above) if above else dropped
    default = type(holder).model_fields[key].get_default(call_default_factory=True)
    assert getattr(holder, key) == default


@pytest.mark.parametrize("section", ["workload", "model", "cluster", "cluster.node"])
def test_a_section_without_a_default_cannot_be_left_out(section: str) -> None:
    found = faults_with("llama-3-70b-512", f"{section}=null")
    assert [(fault.code, fault.sentence) for fault in found] == [
        ("D006", f"{section.rpartition('.')[2]} cannot be left out")
    ]


def test_a_sweep_leaves_a_section_out(run: Any, scenario: str, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(f"{scenario}\nlimits: {{mfu: {{at_least: 90 %}}}}\n", "utf-8")
    assert run("sweep", "mine.yaml", "--over", "plan.tp=8", cwd=tmp_path).code == 1
    assert run("sweep", "mine.yaml", "--over", "limits=null", cwd=tmp_path).code == 0


@pytest.mark.parametrize(
    ("name", "key"),
    [("quickstart", "objective"), ("serve-llama-3.1-70b", "objective"), ("quickstart", "workload.precision")],
)
def test_null_leaves_a_value_out_that_has_a_default(name: str, key: str) -> None:
    holder, last = load_any(name, [f"{key}=null"]).scenario, key.rpartition(".")[2]
    holder = holder.workload if key.startswith("workload.") else holder
    assert getattr(holder, last) == type(holder).model_fields[last].get_default(call_default_factory=True)


@pytest.mark.parametrize(
    ("name", "set_to", "hint"),
    [
        ("quickstart", "title=null", "leave the assignment out"),
        ("serve-llama-3.1-70b", "model=null", "leave the assignment out, or name a document"),
        ("serve-llama-3.1-70b", "workload=null", "leave the assignment out; costmodel list keys workload. shows"),
    ],
)
def test_what_cannot_be_left_out_is_one_fault_with_its_remedy(name: str, set_to: str, hint: str) -> None:
    (fault,) = faults_with(name, set_to)
    assert fault.sentence == f"{set_to.partition('=')[0]} cannot be left out"
    assert fault.hint.startswith(hint)
    assert "sequence" not in fault.hint


def test_a_faulty_list_of_groups_misses_no_keys_of_the_file() -> None:
    (fault,) = faults_with("quickstart", "cluster.groups=2")
    assert (fault.code, fault.sentence) == ("D006", "a list is expected here, not 2")


@pytest.mark.parametrize("given", ["start=30 s", "time=eagle"])
def test_the_examples_of_missing_keys_make_a_whole_section(given: str) -> None:
    missing = [fault for fault in faults_with("serve-llama-3.1-70b", f"assume.growth.{given}") if fault.code == "D004"]
    added = [shlex.split(fault.hint.partition("; add ")[2])[1] for fault in missing]
    assert len(added) == 2
    load_any("serve-llama-3.1-70b", [f"assume.growth.{given.replace('eagle', '60 s')}", *added])


def test_how_many_drafts_are_accepted_is_asked_for_where_nothing_states_it() -> None:
    (fault,) = faults_with("serve-llama-3.1-70b", "plan.speculation={tokens: 4, draft: eagle}")
    assert fault.sentence.startswith("none is given; how many drafted tokens are accepted is one of")
    assert "acceptance: 42 %" in fault.hint
