"""Validates documents without pydantic's validators, which take longer to build than a document to read.

The classes stay those of pydantic, and so do their fields. The types read here are those that documents are written in:
texts, quantities, choices, parts, lists and mappings of them. Whatever else a document holds, faults too, makes the
answer None: pydantic reads it then, and describes the faults.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    Discriminator,
    InstanceOf,
    PlainValidator,
    Tag,
    ValidationError,
    WithJsonSchema,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError, PydanticKnownError

from costmodel.documents.schemas.base import Document, PartIn, Quantity

D = TypeVar("D", bound=BaseModel)
Read = Callable[[Any], Any]
_FAULTS = (PydanticCustomError, PydanticKnownError, ValidationError, ValueError, AssertionError)


_IMMUTABLE = (str, int, float, type(None))  # defaults that documents share


class _NotPlain(Exception):
    """A value or a type that is left to pydantic."""


class _Class(NamedTuple):
    """What documents of a class are read with."""

    names: dict[str, str]  # of fields by the keys of documents
    required: frozenset[str]  # keys
    usual: dict[str, Any]  # the value of each field, None where it is made anew or required
    made: Sequence[tuple[str, Callable[..., Any]]]  # fields whose default is made anew
    before: Sequence[Read]
    after: Sequence[Read]
    around: Sequence[Callable[[Any, Read], Any]]


def validated(kind: type[D], tree: Any) -> D | None:
    """The document of a tree; None if pydantic has to read it."""
    try:
        document: D = _document(kind, tree)
    except (_NotPlain, *_FAULTS):
        return None
    return document


def _document(kind: Any, tree: Any) -> Any:
    """A document, or the part of one."""
    if isinstance(tree, kind):
        return tree
    known = _class(kind)
    read: Read = functools.partial(_constructed, kind, known)
    for around in known.around:
        read = functools.partial(_wrap_validator, around, read)
    for before in known.before:
        tree = before(tree)
    document = read(tree)
    for after in known.after:
        document = after(document)
    return document


def _wrap_validator(validate: Callable[[Any, Read], Any], read: Read, tree: Any) -> Any:
    """Reads a tree with a validator that pydantic wraps around the reading of the class."""
    return validate(tree, read)


def _constructed(kind: Any, known: _Class, tree: Any) -> Any:
    """The document of a mapping, as `model_construct` makes it."""
    if not isinstance(tree, dict) or not known.required <= tree.keys():
        raise _NotPlain
    values: dict[str, Any] = {}
    for key, value in tree.items():
        name = known.names.get(key)
        if name is None:
            raise _NotPlain
        values[name] = _field_reader(kind, name)(value)
    fields = {**known.usual, **values}
    for name, default in known.made:
        if name not in values:
            fields[name] = default()
    document = kind.__new__(kind)
    for slot, held in (
        ("__dict__", fields),
        ("__pydantic_fields_set__", {*values}),
        ("__pydantic_extra__", None),
        ("__pydantic_private__", None),
    ):
        object.__setattr__(document, slot, held)
    return document


@functools.cache
def _class(kind: Any) -> _Class:
    """The fields and validators of a class; a fault if it has others than of whole documents."""
    decorators = getattr(kind, "__pydantic_decorators__", None)
    if (
        not issubclass(kind, Document)
        or decorators is None
        or any((decorators.validators, decorators.field_validators, decorators.root_validators))
        or kind.__private_attributes__
        or kind.model_config.get("extra") != "forbid"
    ):
        raise _NotPlain
    fields: dict[str, FieldInfo] = kind.model_fields
    plain = {name: info.default for name, info in fields.items() if isinstance(info.default, _IMMUTABLE)}
    known = {*plain, *(name for name, info in fields.items() if info.is_required())}
    by_mode: dict[str, list[Any]] = {"before": [], "after": [], "wrap": []}
    for validator in decorators.model_validators.values():
        by_mode[validator.info.mode].append(validator.func)
    return _Class(
        {info.alias or name: name for name, info in fields.items()},
        frozenset(info.alias or name for name, info in fields.items() if info.is_required()),
        {name: plain.get(name) for name in fields},
        [(name, info.default_factory or info.get_default) for name, info in fields.items() if name not in known],
        *(by_mode[mode] for mode in ("before", "after", "wrap")),
    )


@functools.cache
def _field_reader(kind: Any, name: str) -> Read:
    """What reads the value of a field."""
    info: FieldInfo = kind.model_fields[name]
    choice = [] if info.discriminator is None else [info.discriminator]
    return _of_type(info.annotation, [*info.metadata, *choice])


def _of_type(annotation: Any, metadata: Sequence[Any] = ()) -> Read:
    """The function that reads values of a type, with the validators of its Annotated type."""
    if get_origin(annotation) is Annotated:
        annotation, *inner = get_args(annotation)
        return _of_type(annotation, [*inner, *metadata])
    beside = [part for given in metadata for part in (given.metadata if isinstance(given, FieldInfo) else [given])]
    read: Read | None = None
    for part in beside:
        if isinstance(part, Quantity):
            read = part.validate
        elif isinstance(part, PartIn):
            read = functools.partial(_document, part.found())
        elif isinstance(part, PlainValidator):
            read = _alone(part.func)
        elif isinstance(part, BeforeValidator):
            read = functools.partial(_validate_then_read, read or _type_reader(annotation, beside), _alone(part.func))
        elif isinstance(part, InstanceOf):  # type: ignore[misc]  # a class at run time
            read = functools.partial(_instance, get_origin(annotation) or annotation)
        elif not isinstance(part, WithJsonSchema | Tag | Discriminator):
            read = functools.partial(_check_limits, read or _type_reader(annotation, beside), *_limits(part))
    return read or _type_reader(annotation, beside)


def _alone(function: Any) -> Read:
    """A validator that takes the value alone."""
    if function.__code__.co_argcount != 1:
        raise _NotPlain
    read: Read = function
    return read


def _validate_then_read(read: Read, first: Read, value: Any) -> Any:
    return read(first(value))


def _limits(part: Any) -> tuple[int, int, re.Pattern[str] | None]:
    """The least and greatest length, and the pattern, of a constraint."""
    limits = {name: getattr(part, name) for name in ("min_length", "max_length", "pattern") if hasattr(part, name)}
    if not limits:
        raise _NotPlain
    pattern = limits.get("pattern")
    return (
        limits.get("min_length", 0),
        limits.get("max_length", 1 << 62),
        None if pattern is None else _pattern(pattern),
    )


@functools.cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.ASCII)


def _check_limits(read: Read, least: int, most: int, pattern: re.Pattern[str] | None, value: Any) -> Any:
    """The value, unless a constraint forbids it."""
    found = read(value)
    if found is None:
        return found
    if not least <= len(found) <= most or (pattern and ("\n" in found or not pattern.search(found))):
        raise _NotPlain
    return found


def _type_reader(annotation: Any, beside: Sequence[Any]) -> Read:
    """The function that reads values of a type without validators around it."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return _union_reader(inner, beside)
    if annotation in _READERS:
        return _READERS[annotation]
    if origin is Literal:
        return functools.partial(_read_choice, {choice: choice for choice in inner})
    if origin is list:
        return functools.partial(_read_list, _of_type(inner[0]))
    if origin is dict:
        return functools.partial(_read_mapping, _of_type(inner[0]), _of_type(inner[1]))
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return functools.partial(_document, annotation)
    raise _NotPlain


def _union_reader(kinds: Sequence[Any], beside: Sequence[Any]) -> Read:
    """What reads a value of one of several types: of one beside None, or the one whose tag the value has."""
    others = [kind for kind in kinds if kind is not NoneType]
    if len(others) == 1:
        read = _of_type(others[0])
    else:
        choose = next((part.discriminator for part in beside if isinstance(part, Discriminator)), None)
        tagged = {part.tag: kind for kind in others for part in get_args(kind)[1:] if isinstance(part, Tag)}
        if not callable(choose) or len(tagged) < len(others):
            raise _NotPlain
        read = functools.partial(_read_tagged, _alone(choose), {tag: _of_type(kind) for tag, kind in tagged.items()})
    return functools.partial(_read_optional, read) if len(others) < len(kinds) else read


def _read_optional(read: Read, value: Any) -> Any:
    return None if value is None else read(value)


def _read_tagged(choose: Read, readers: Mapping[str, Read], value: Any) -> Any:
    """The value, read as the type with its tag."""
    read = readers.get(choose(value))
    if read is None:
        raise _NotPlain
    return read(value)


def _read_choice(choices: Mapping[Any, Any], value: Any) -> Any:
    """The choice that a text or whole number is."""
    if isinstance(value, bool) or not isinstance(value, str | int) or value not in choices:
        raise _NotPlain
    return choices[value]


def _instance(kind: type, value: Any) -> Any:
    """The value as it was read, of this class."""
    if not isinstance(value, kind):
        raise _NotPlain
    return value


def _read_list(read: Read, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _NotPlain
    return [read(item) for item in value]


def _read_mapping(of_key: Read, of_value: Read, value: Any) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise _NotPlain
    return {of_key(key): of_value(item) for key, item in value.items()}


def _read_text(value: Any) -> str:
    """A text, without its place."""
    if not isinstance(value, str):
        raise _NotPlain
    if not value.isascii():
        value.encode()  # halves of characters are no text
    return str(value)


def _read_flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _NotPlain
    return value


def _unchanged(value: Any) -> Any:
    return value


_READERS: dict[Any, Read] = {str: _read_text, bool: _read_flag, Any: _unchanged}
