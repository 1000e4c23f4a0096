"""Turns trees into documents and reports every fault: its place, a sentence, the nearest name and a remedy."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from costmodel.documents.keys.field_aliases import key_hint, value_meant
from costmodel.documents.keys.paths import REFERENCES
from costmodel.documents.keys.schema_paths import Location, has_default, holders_of, item_at, samples_of, schema_at
from costmodel.documents.keys.suggestions import nearest
from costmodel.documents.text.yaml_tree import Items, Mapping, assigned, copied
from costmodel.ground.errors import COMMAND_LINE, CostModelError, Fault, Place, fail, quoted_value, value_text
from costmodel.ground.parsing import late_pattern

D = TypeVar("D", bound=BaseModel)

_CODES = {
    "extra_forbidden": "D003",
    "missing": "D004",
    "quantity_unit": "D007",
    "quantity_range": "D008",
    "literal_error": "D010",
}
_MOST_KEYS = 24  # of a mapping in a remedy
_MAPPING = "a mapping of keys to values is expected here"
_WANTED = {
    "string_type": "text is expected here",
    "list_type": "a list is expected here",
    **dict.fromkeys(("model_type", "dict_type", "is_instance_of"), _MAPPING),
    "bool_type": "true or false is expected here",
    "bool_parsing": "true or false is expected here",
    "too_short": "the list is empty",
    "string_pattern_mismatch": "a name is made of small letters, digits and . + -, and begins with a letter or digit",
    "string_too_long": "a name has at most 64 letters",
}
_HINTS = {
    "too_short": "leave the key out, or name at least one value",
    "best_above_peak": "change both; without a measured rate best_matmul is {}",
    "loads": "leave one of them out, or set it to null as in --set workload.users=null; think_time goes with users, "
    "and concurrency beside a rate is the most in flight",
    "accepted": "for example acceptance: 42 %, of a log of vLLM; chance: 70 %; or length: 2.7, of a log of SGLang",
    "no_load": "for example --set 'workload.rate=8 /s'",
    "memory": "change both: usable is what a job can have of the capacity",
}
_ONE_KIND = ("cluster", "cluster.node", "cluster.node.accelerator", "accelerator")
_MIXED = "a scenario has one kind of node with one kind of accelerator: a mixed cluster is not modelled"
_EACH = "write a scenario for each kind, or take the slowest for all; costmodel sweep --over cluster.node=A,B compares"
_OF_TRANSFORMERS = {"architectures", "model_type", "transformers_version"}
_SCHEMA = late_pattern(r"costmodel/([\w-]+)/v\d+")
_NAMED = late_pattern(r"did you mean ('[^']*')")  # the value that a hint names
_MOST_GUESSED = 20  # of the first keys that are unknown, what was meant is looked for; it takes long


def validate(kind: type[D], tree: Any, file: str, found: Sequence[Fault] = ()) -> D:
    """The validated document of a tree, or all its faults at once, starting with those found while reading."""
    if not isinstance(tree, dict):
        if found:
            raise CostModelError(*found)
        place = tree.places[0] if isinstance(tree, Items) and tree else getattr(tree, "place", Place(file, 1, 1))
        raise fail("D006", "a document is a mapping of keys to values", place, "costmodel show llama-3-70b-512")
    try:
        document = kind.model_validate(tree)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=True)
        faults = _Faults(kind, tree, file).of(details)
        known = {_written_at(fault) for fault in found}
        fresh = [fault for fault in faults if _written_at(fault) not in known]
        raise CostModelError(*found, *dict.fromkeys(fresh)) from None
    if found:
        raise CostModelError(*found)
    return document


class _Faults:
    """Turns pydantic's errors for one tree into faults."""

    def __init__(self, kind: type[BaseModel], tree: Any, file: str) -> None:
        self.kind, self.tree, self.file = kind, tree, file
        self.guessed: dict[Location, str] = {}  # of the first keys that are unknown, the one that was meant
        self.keys: dict[int, dict[Any, Any]] = {}  # of a mapping, the keys with their places

    @property
    def workload(self) -> str:
        """The workload of a scenario; empty for any other document."""
        from costmodel.documents.keys.workload_keys import workload_of  # it imports the schemas of all workloads

        return workload_of(self.kind)

    def of(self, details: Sequence[ErrorDetails]) -> list[Fault]:
        """The faults for pydantic's errors, without those that follow from a misspelt key or another schema."""
        located = [(detail, self.inside(detail)) for detail in details]
        unknown = [(detail, where) for detail, where in located if _is_error_type(detail, "extra")]
        unknown.sort(key=lambda item: _written_at(Fault("", "", self.spot(item[1], key=True))))
        self.guessed = {where: self.meant(detail, where) for detail, where in unknown[:_MOST_GUESSED]}
        mistyped = {(*where[:-1], close) for where, close in self.guessed.items()}
        replaced = {
            where[:-1] for detail, where in located if not _is_error_type(detail, "missing") and self.is_typed(where)
        }
        located = [
            (detail, where)
            for detail, where in located
            if not _is_error_type(detail, "missing") or not (where in mistyped or where[:-1] in replaced)
        ]
        foreign = [where[:-1] for _, where in located if where[-1:] == ("schema",)]
        faults = []
        for detail, where in located:
            if any(where[: len(prefix)] == prefix and where[-1] != "schema" for prefix in foreign):
                continue
            faults.append(self.fault(detail, where))
        return sorted(faults, key=_written_at)

    def fault(self, detail: ErrorDetails, where: Location) -> Fault:
        """The fault for one error of pydantic: its code, a sentence, the place and a remedy."""
        kind, value = detail["type"], detail["input"]
        if _is_error_type(detail, "extra"):
            return self.unknown(detail, where)
        if _is_error_type(detail, "missing"):
            return self.missing(detail, where)
        place = self.spot_of(detail, where)
        if where[-1:] == ("schema",) and kind == "literal_error":
            expected = str(detail["ctx"]["expected"]).strip("'")
            return Fault("D011", *_of_another(expected, value, place, self.tree))
        if kind == "literal_error":
            return self.choice(detail, where)
        if isinstance(value, list) and ".".join(map(str, where)) in _ONE_KIND:
            return Fault("D006", _MIXED, place, _EACH)
        sentence = _WANTED.get(kind, detail["msg"])
        hint = _HINTS.get(kind, "")
        if where[:2] == ("limits", "memory"):
            hint = "it is a share of the usable memory; bytes are of limits.memory_peak, e.g. 70 GiB"
        if kind == "string_type" and value is not None and not isinstance(value, dict | list):
            hint = f'write it in quotes: "{quoted_value(value)}"'
        if kind == "list_type" and value is not None and not isinstance(value, dict):
            hint = self.listed(detail, quoted_value(value).strip("'"))
        if _WANTED.get(kind) == _MAPPING:
            named = "name a document" if value is None else "or the name of a document"
            hint = named if detail["loc"][-1:] == ("inline",) else self.mapped(detail, place)
        whole = _WANTED.get(kind) == _MAPPING or place.file == COMMAND_LINE
        if value is None and kind in _WANTED and whole and not self.is_optional(where):
            sentence = f"{where[-1]} cannot be left out"
            hint = ", or ".join(filter(None, ("leave the assignment out", hint)))
        elif kind in _WANTED and kind.endswith("_type"):
            sentence += f", not {quoted_value(value)}"
        return Fault(_CODES.get(kind, "D006"), sentence, place, hint)

    def is_typed(self, where: Location) -> bool:
        """Whether the command line set a faulty value in a section of a file: missing keys may be a consequence."""
        typed, written = self.spot(where), self.spot(where[:-1], key=True)
        return len(where) > 1 and typed.file == COMMAND_LINE != written.file

    def choice(self, detail: ErrorDetails, where: Location) -> Fault:
        """The fault for a value that is not a valid choice, with a suggestion."""
        expected, value = str(detail["ctx"]["expected"]), detail["input"]
        fault = _choice(expected, value, self.spot_of(detail, where), _mappings(schema_at(self.kind, detail["loc"])))
        key = next((part for part in reversed(where) if isinstance(part, str)), "")
        meant = value_meant(key, quoted_value(value).strip("'"), self.workload)
        match = _NAMED.match(meant)
        return replace(fault, hint=meant) if meant and (match is None or match[1] in expected) else fault

    def is_optional(self, where: Location) -> bool:
        """Whether null resets a section to its default on the command line; in a file null is a mistake."""
        return has_default(self.kind, ".".join(map(str, where)))

    def mapped(self, detail: ErrorDetails, place: Place) -> str:
        """A hint that shows a mapping where a value or list was given: a valid example, or the keys."""
        keys = self.known(detail["loc"])
        if not keys:
            return ""
        left = len(keys) - _MOST_KEYS
        more = f" and {left} more; costmodel list keys shows them" if left > 0 else ""
        named = f"its keys: {', '.join(keys[:_MOST_KEYS])}{more}"
        examples = () if isinstance(detail["input"], list) else self.examples(detail)
        found = next((example for example in examples if self.holds(self.inside(detail), example)), None)
        if found is None:
            return named
        written = f"{{{', '.join(f'{key}: {value}' for key, value in found.items())}}}"
        typed = place.file == COMMAND_LINE and place.path
        if typed and len(found) == 1:
            ((key, value),) = found.items()
            return f"for example {place.path}.{key}={value}; {named}"
        return f"for example {f'{place.path}={written}' if typed else written}; {named}"

    def examples(self, detail: ErrorDetails) -> Iterator[dict[str, str]]:
        """Possible mappings for a hint: the value under one of the keys, else the required keys with examples."""
        node = schema_at(self.kind, detail["loc"])
        inner, required = node.get("properties", {}), node.get("required", [])
        value = detail["input"]
        if value is not None:
            path = ".".join(map(str, self.inside(detail)))
            keys = [key for key in inner if {key} >= {*required} and f"{path}.{key}" not in REFERENCES]
            yield from ({key: quoted_value(value).strip("'")} for key in keys)
        samples = {key: next(iter(samples_of(self.kind, each)), "") for key, each in inner.items()}
        if required:
            yield {key: samples[key] for key in required}
            yield {key: samples[key] for key, each in inner.items() if key in required or "examples" in each}
            return
        yield from ({key: sample} for key, sample in samples.items() if sample)

    def holds(self, where: Location, mapping: dict[str, str]) -> bool:
        """Whether a mapping is valid at a location of the document."""
        tree = copied(self.tree)
        here = tree
        for part in where[:-1]:
            here = here[part]
        here[where[-1]] = assigned(".".join(map(str, where)), value_text(mapping))[1]
        others = {key for key in self.broken(self.tree) if key[0][: len(where)] != where}
        return self.broken(tree) <= others

    def broken(self, tree: Any) -> set[tuple[Location, str]]:
        """The location and type of every error that a tree would raise."""
        try:
            self.kind.model_validate(tree)
        except ValidationError as error:
            inside = _Faults(self.kind, tree, self.file).inside
            return {(inside(detail), detail["type"]) for detail in error.errors(include_url=False)}
        return set()

    def listed(self, detail: ErrorDetails, value: str) -> str:
        """The hint that shows a list where a single value was given."""
        item = item_at(self.kind, detail["loc"])
        if "properties" in item:
            keys = ", ".join(f"{key}: …" for key in item.get("required", ()))
            return f"each item is a mapping: [{{{keys}}}]"
        inside = isinstance(detail["loc"][-1], int)
        return f"each of them is a list: [[{value}]]" if inside else f"one value is a list too: [{value}]"

    def unknown(self, detail: ErrorDetails, where: Location) -> Fault:
        """The fault for an unknown key, with the key that was probably meant."""
        if other := self.of_another_workload(where):
            return other
        close = self.guessed.get(where, "")
        if close and str(where[-1]).startswith(f"{close}:"):
            sentence = f"there is no space between the key '{close}' and its value"
            return Fault("D003", sentence, self.spot(where, key=True), f"write {str(where[-1]).replace(':', ': ', 1)}")
        known = self.known(detail["loc"][:-1]) if where in self.guessed else []
        hint = f"did you mean '{close}'?" if close else "known: " + ", ".join(known) if known else ""
        holders = holders_of(self.kind, str(where[-1]))
        if holders:
            hint = "it belongs to " + " or ".join(f"'{holder}'" for holder in holders)
            hint = f"write {' or '.join(f'{holder}.{where[0]}' for holder in holders)}" if len(where) == 1 else hint
        slip = close.rstrip("s") == str(where[-1]).rstrip("s")
        hint = hint if slip else self.foreign(detail, where) or hint
        return Fault("D003", f"unknown key {quoted_value(where[-1])}", self.spot(where, key=True), hint)

    def of_another_workload(self, where: Location) -> Fault | None:
        """The fault for a key that exists only for another workload; None for any other key."""
        from costmodel.documents.keys.workload_keys import of_another_workload  # imports the schemas of all workloads

        path = ".".join(map(str, where))
        fault = of_another_workload(self.workload, path) if "." in path else None
        return Fault("D003", fault[0], self.spot(where, key=True), fault[1]) if fault is not None else None

    def foreign(self, detail: ErrorDetails, where: Location) -> str:
        """The hint for a key that other tools use, alone or with the first key inside it."""
        from costmodel.documents.keys.workload_keys import in_place, labelled  # it imports the schemas of all workloads

        word, section = str(where[-1]), ".".join(map(str, where[:-1]))
        if called := labelled(self.workload, f"{section}.{word}"):
            return called
        held = detail["input"]
        words = [f"{word}.{key}" for key in held] if isinstance(held, dict) else []
        kind = self.kind.__name__.lower()
        prefix = next((path for path, reference in REFERENCES.items() if reference.kind == kind), "")
        instead = partial(in_place, self.workload) if self.workload else None
        hints = (key_hint(each, section, prefix, instead) for each in (*words[:1], word))
        return next(filter(None, hints), "")

    def missing(self, detail: ErrorDetails, where: Location) -> Fault:
        """The fault for a missing key, with what it means and an example."""
        place = self.spot(where[:-1], key=True)
        path = ".".join(map(str, where))
        if where[-1] == "schema":
            properties = schema_at(self.kind, detail["loc"][:-1]).get("properties", {})
            hint = f"schema: {properties.get('schema', {}).get('const')}"
            if isinstance(detail["input"], dict) and _OF_TRANSFORMERS & set(detail["input"]):
                file = self.file if " " not in self.file else f"'{self.file}'"
                hint = f"this is a config of transformers: --model {file} names it, or model: {file} in a scenario"
            return Fault("D011", f"the key '{path}' is missing", place, hint)
        node = schema_at(self.kind, detail["loc"][:-1]).get("properties", {}).get(where[-1], {})
        hint = f"{where[-1]}: {node['description']}" if node.get("description") else ""
        sample = next(samples_of(self.kind, node), "") if place.file == COMMAND_LINE else ""
        added = f"; add {shlex.join(['--set', f'{path}={sample}'])}" if hint and sample else ""
        return Fault("D004", f"the key '{path}' is missing", place, f"{hint}{added}")

    def known(self, location: Location) -> list[str]:
        return list(schema_at(self.kind, location).get("properties", {}))

    def meant(self, detail: ErrorDetails, where: Location) -> str:
        """The key with a title, or before a colon without a space, else the key with the nearest name."""
        known = schema_at(self.kind, detail["loc"][:-1]).get("properties", {})
        titled = {node.get("title"): key for key, node in known.items()}
        before = str(where[-1]).partition(":")[0]
        return titled.get(where[-1]) or (before if before in known else "") or nearest(str(where[-1]), list(known))

    def inside(self, detail: ErrorDetails) -> Location:
        """The location without the tags that pydantic adds for unions."""
        kept: list[int | str] = []
        here = self.tree
        for position, part in enumerate(detail["loc"]):
            last = position == len(detail["loc"]) - 1
            if _has_part(here, part):
                kept.append(part)
                here = here[part]
            elif last and (_is_error_type(detail, "missing") or part not in ("name", "inline")):
                kept.append(part)
        return tuple(kept)

    def spot_of(self, detail: ErrorDetails, where: Location) -> Place:
        """The place of a value; for contradicting keys, the one on the command line, else the first."""
        keys = detail.get("ctx", {}).get("keys", ())
        places = [self.spot((*where, *key.split("."))) for key in keys] or [self.spot(where)]
        return next((place for place in places if place.file == COMMAND_LINE), places[0])

    def spot(self, where: Location, *, key: bool = False) -> Place:
        """The place of a value, or of its key, or of the nearest parent that has one."""
        plain = Place(self.file, 1, 1, ".".join(map(str, where)))  # of a tree that was never text
        best = self.tree.place if isinstance(self.tree, Mapping) else plain
        here = self.tree
        for position, part in enumerate(where):
            if not _has_part(here, part):
                break
            if isinstance(here, dict):
                written = self.written(here)[part]
                wants_key = key and position == len(where) - 1
                inner = replace(best, path=f"{best.path}.{part}".removeprefix("."))
                best = getattr(written, "place" if wants_key else "at", inner)
            elif isinstance(here, Items):
                best = here.places[int(part)]
            here = here[part]
        return best

    def written(self, mapping: dict[Any, Any]) -> dict[Any, Any]:
        """The keys of a mapping with their places, cached for each mapping."""
        if id(mapping) not in self.keys:
            self.keys[id(mapping)] = {key: key for key in mapping}
        return self.keys[id(mapping)]


def _written_at(fault: Fault) -> tuple[int, int]:
    return (fault.place.line, fault.place.column) if fault.place else (0, 0)


def _of_another(expected: str, value: Any, place: Place, tree: dict[str, Any]) -> tuple[str, Place, str]:
    """Sentence, place and hint for a document of another schema than the expected one."""
    meant, wanted = (_SCHEMA.fullmatch(text) if isinstance(text, str) else None for text in (value, expected))
    assert wanted is not None
    if meant is None:
        return f"{quoted_value(value)} is no schema", place, f"schema: {expected}"
    sentence, kind = f"this is {value}, and {expected} is expected here", meant[1]
    if kind == wanted[1]:
        return sentence, place, f"schema: {expected}"
    if kind == "buy" and wanted[1] == "scenario":
        again = tree.get("plan_command") or "costmodel estimate with the flags and the set of its machine"
        return f"this is an answer of buy, and {expected} is expected here", place, f"{again} --write plan.yaml"
    keys = [path for path, reference in REFERENCES.items() if reference.kind == kind]
    if wanted[1] == "scenario" and keys:
        return sentence, place, f"costmodel init writes a scenario; in it {keys[0]} is such a file, by its path"
    return sentence, place, f"costmodel show prints those that are shipped, costmodel schema {wanted[1]} its keys"


def _is_error_type(detail: ErrorDetails, start: str) -> bool:
    return detail["type"].startswith(start)


def _has_part(here: Any, part: int | str) -> bool:
    if isinstance(here, list):
        return isinstance(part, int) and part < len(here)
    return isinstance(here, dict) and part in here


def _mappings(node: dict[str, Any]) -> dict[str, str]:
    """The choices inside a mapping that may be written in place of a word, each with its full spelling."""
    keys = node.get("properties", {})
    return {word: f"{{{key}: {word}}}" for key, inner in keys.items() for word in inner.get("enum", ())}


def _choice(expected: str, value: Any, place: Place, mappings: dict[str, str]) -> Fault:
    """A fault for a value that is not one of the expected words; the hint may suggest a mapping."""
    choices = expected.replace("'", "").replace(" or ", ", ").split(", ")
    sentence = f"{quoted_value(value)} is not one of {expected}"
    if len(choices) == 1:
        only = f"{expected} or a mapping is" if mappings else f"{expected} is the only one"
        sentence = f"{quoted_value(value)} is not a choice here; {only}"
    if isinstance(value, dict | list):
        return Fault("D006", f"one of {expected} is expected here, not {quoted_value(value)}", place)
    if isinstance(value, str) and value in choices:
        return Fault("D010", sentence, place, f"write it without quotes: {value}")
    close = nearest(str(value).lower(), [*choices, *mappings])
    if close in mappings and place.file == COMMAND_LINE:
        return Fault("D010", sentence, place, shlex.join(["--set", f"{place.path}={mappings[close]}"]))
    return Fault("D010", sentence, place, f"did you mean {mappings.get(close, repr(close))}?" if close else "")
