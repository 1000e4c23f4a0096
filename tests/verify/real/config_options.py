"""Options of the configuration classes that we read, with their defaults and second names, and all decoder classes."""

from __future__ import annotations

import dataclasses
from typing import Any

from .config_cases import families


def counted() -> dict[str, Any]:
    """By family its options as 'name=default', of those that not every class has; and every class of a decoder."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    found = {family.name: _of_class(family.configuration) for family in families()}
    return {"options": found, "decoders": dict(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)}


def _of_class(name: str) -> dict[str, Any]:
    import transformers

    configuration = getattr(transformers, name)
    general = {field.name for field in dataclasses.fields(transformers.PreTrainedConfig)}
    own = [field for field in dataclasses.fields(configuration) if field.name not in general]
    defaults = " ".join(f"{field.name}={_written(field)}" for field in own)
    return {"defaults": defaults, "names": dict(configuration.attribute_map)}


def _written(field: Any) -> str:
    """A default as text without blanks; of those made anew for every configuration, nothing."""
    plain = field.default is None or isinstance(field.default, bool | int | float | str)
    return str(field.default).replace(" ", "") if plain else ""
