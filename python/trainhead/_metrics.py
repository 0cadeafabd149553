"""Checking what a script hands over as metrics, before anything is sent.

A wrong metric is a mistake in the script, so this is the one place of the package that raises
for the caller, always with the name of the key.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Mapping
from typing import Union

# A metric as it goes into JSON. JSON has no NaN and no infinities: those go as strings.
Number = Union[float, int, str]

MAX_KEY_BYTES = 512
MAX_STEP = 2**63 - 1

# Beyond this an integer is not exact as the 64-bit float that it is stored as.
_MAX_EXACT_INT = 2**53

_NON_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}

# One encoder for all calls: json.dumps() builds a new one for each call with options.
encode_json = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def flatten_metrics(metrics: Mapping[str, object]) -> dict[str, Number]:
    """Return `metrics` as one flat dict, nested keys joined with ``/``, values ready for JSON.

    Raises:
        TypeError: a key is no string, or a value is no number; the message names the key.
        ValueError: a value cannot be stored (too large, several elements) or a key is empty,
            too long, has control characters or appears twice; the message names the key.
    """
    if not isinstance(metrics, Mapping):
        raise TypeError(f"metrics must be a dict of numbers, not {_type_name(metrics)}")
    flat: dict[str, Number] = {}
    _flatten_into(flat, "", metrics)
    return flat


def check_step(step: int | None) -> int | None:
    """Return `step` as a plain int, or None.

    Raises:
        TypeError: it is no integer.
        ValueError: it is negative or beyond 64 bits.
    """
    if step is None:
        return None
    try:
        index = operator.index(step)
    except TypeError:
        raise TypeError(f"step must be an integer, not {_type_name(step)}") from None
    if not 0 <= index <= MAX_STEP:
        raise ValueError(f"step must be between 0 and 2**63 - 1, not {index}")
    return index


def _flatten_into(flat: dict[str, Number], prefix: str, metrics: Mapping[str, object]) -> None:
    for name, value in metrics.items():
        key = _join_key(prefix, name)
        if isinstance(value, Mapping):
            # Ends for a dict that contains itself, too: its keys soon are too long.
            _flatten_into(flat, key + "/", value)
        elif key in flat:
            raise ValueError(f"metric {key!r} is given twice")
        else:
            flat[key] = _to_number(key, value)


def _join_key(prefix: str, name: object) -> str:
    if not isinstance(name, str):
        where = f" below {prefix[:-1]!r}" if prefix else ""
        raise TypeError(
            f"metric keys must be strings, not {_type_name(name)} ({name!r}){where}",
        )
    if not name:
        raise ValueError(f"metric {prefix + name!r}: a key must not be empty")
    key = prefix + name
    if not (key.isascii() and key.isprintable()):
        _check_characters(key)
    # An ASCII key has as many bytes as characters; another one is at most four times as long.
    if len(key) > MAX_KEY_BYTES // 4 and len(key.encode()) > MAX_KEY_BYTES:
        raise ValueError(f"metric {key[:60]!r}...: a key has at most {MAX_KEY_BYTES} bytes")
    return key


def _check_characters(key: str) -> None:
    try:
        key.encode()
    except UnicodeEncodeError:
        raise ValueError(f"metric {key!r}: the key is no valid Unicode text") from None
    if any(character < " " or "\x7f" <= character < "\xa0" for character in key):
        raise ValueError(f"metric {key!r}: a key must not have control characters")


def _to_number(key: str, value: object) -> Number:
    # The two exact types first: nearly all metrics are one of them.
    kind = type(value)
    if kind is float or isinstance(value, float):
        return _from_float(float(value))  # type: ignore[arg-type]
    if isinstance(value, int):  # bool, too: it counts as 0 or 1
        return _from_int(key, int(value))
    return _from_scalar(key, value)


def _from_float(value: float) -> Number:
    if math.isfinite(value):
        return value
    return _NON_FINITE.get(value, "NaN")


def _from_int(key: str, value: int) -> Number:
    if -_MAX_EXACT_INT <= value <= _MAX_EXACT_INT:
        return value
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"metric {key!r}: the integer is too large for a 64-bit float") from None


def _from_scalar(key: str, value: object) -> Number:
    """A numpy scalar or a tensor or array of one element, known by its `item()`."""
    item = getattr(value, "item", None)
    if not callable(item):
        raise TypeError(f"metric {key!r} must be a number, not {_type_name(value)}")
    try:
        number = item()
    except Exception as error:
        # Whatever a library raises here (torch: RuntimeError, numpy: ValueError), the reader
        # needs the key first.
        raise ValueError(
            f"metric {key!r}: {_type_name(value)} is not of one element ({error})"
        ) from error
    if isinstance(number, float):
        return _from_float(float(number))
    if isinstance(number, int):
        return _from_int(key, int(number))
    raise TypeError(f"metric {key!r}: {_type_name(value)} holds {_type_name(number)}, no number")


def _type_name(value: object) -> str:
    kind = type(value)
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"
