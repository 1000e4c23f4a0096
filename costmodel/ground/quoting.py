"""Formats values for use in a sentence."""

from __future__ import annotations

from typing import Any

LONGEST = 60  # letters
HUGE = 1e300  # integers have no largest; floats do


def quoted_value(value: Any) -> str:
    """A value as text for a sentence; only texts are in quotes."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    if isinstance(value, float):
        same = (text for text in (f"{value:.10g}", repr(float(value))) if float(text) == value)
        return min(same, key=len, default=f"{value}").replace("e+", "e")  # a NaN equals nothing
    text = str(value) if isinstance(value, str) or abs(value) < HUGE else "a number of hundreds of digits"
    text = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    return f"'{text}'" if isinstance(value, str) else text


def value_text(value: Any) -> str:
    """A value as it is written in an assignment `key=value`.

    >>> value_text(None), value_text(True), value_text(4.0), value_text(["optimizer", "parameters"])
    ('null', 'true', '4', '[optimizer, parameters]')
    """
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(value_text, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {value_text(inner)}' for key, inner in value.items())}}}"
    if isinstance(value, float):
        return f"{value:.10g}"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
