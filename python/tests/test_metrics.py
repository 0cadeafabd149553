from __future__ import annotations

import enum
import math
from fractions import Fraction
from typing import Any

import pytest

from trainhead._metrics import check_step, encode_json, flatten_metrics


class Scalar:
    """What numpy scalars and tensors have in common: `item()`."""

    def __init__(self, value: object) -> None:
        self._value = value

    def item(self) -> object:
        if isinstance(self._value, Exception):
            raise self._value
        return self._value


class Level(enum.IntEnum):
    HIGH = 7


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        (0.5, "0.5"),
        (-0.0, "-0.0"),
        (5e-324, "5e-324"),
        (3, "3"),
        (True, "1"),
        (False, "0"),
        (Level.HIGH, "7"),
        (2**53, "9007199254740992"),
        (10**300, "1e+300"),
        (math.nan, '"NaN"'),
        (math.inf, '"Infinity"'),
        (-math.inf, '"-Infinity"'),
        (Scalar(0.25), "0.25"),
        (Scalar(4), "4"),
        (Scalar(True), "1"),
        (Scalar(math.nan), '"NaN"'),
    ],
)
def test_a_number_is_sent_as_the_protocol_says(value: object, sent: str) -> None:
    assert encode_json(flatten_metrics({"x": value})) == f'{{"x":{sent}}}'


def test_numpy_scalars_and_arrays_of_one_element_are_numbers() -> None:
    np = pytest.importorskip("numpy")
    metrics = {
        "a": np.float64(0.5),
        "b": np.float32(0.25),
        "c": np.int64(3),
        "d": np.array([[2.0]]),
        "e": np.bool_(True),
        "f": np.float32("nan"),
    }
    sent = {"a": 0.5, "b": 0.25, "c": 3, "d": 2.0, "e": 1, "f": "NaN"}
    assert flatten_metrics(metrics) == sent
    with pytest.raises(ValueError, match=r"'g'.*ndarray is not of one element"):
        flatten_metrics({"g": np.zeros(2)})


def test_nested_metrics_become_keys_with_slashes() -> None:
    nested = {"loss": 1, "test": {"accuracy": 2, "top": {"5": 3}}, "empty": {}}
    assert flatten_metrics(nested) == {"loss": 1, "test/accuracy": 2, "test/top/5": 3}


@pytest.mark.parametrize(
    ("metrics", "error", "message"),
    [
        ({"a": 1, "model": object()}, TypeError, "'model' must be a number, not object"),
        ({"name": "resnet"}, TypeError, "'name' must be a number, not str"),
        ({"none": None}, TypeError, "'none' must be a number, not NoneType"),
        ({"list": [1.0]}, TypeError, "'list' must be a number, not list"),
        ({"half": Fraction(1, 2)}, TypeError, "'half' must be a number, not fractions.Fraction"),
        ({"z": 1j}, TypeError, "'z' must be a number, not complex"),
        ({"a": {"b": "x"}}, TypeError, "'a/b' must be a number"),
        ({"z": Scalar(1j)}, TypeError, "'z': .*Scalar holds complex, no number"),
        ({"s": Scalar(RuntimeError("2 elements"))}, ValueError, r"'s'.*one element \(2 elements\)"),
        ({"big": 10**400}, ValueError, "'big': the integer is too large"),
        ({1: 2.0}, TypeError, r"keys must be strings, not int \(1\)"),
        ({"a": {2: 2.0}}, TypeError, "not int .* below 'a'"),
        ({"": 1}, ValueError, "must not be empty"),
        ({"a": {"": 1}}, ValueError, "'a/'.*must not be empty"),
        ({"a\nb": 1}, ValueError, r"'a\\nb'.*control characters"),
        ({"\ud800": 1}, ValueError, "no valid Unicode"),
        ({"k" * 513: 1}, ValueError, "at most 512 bytes"),
        ({"ä" * 257: 1}, ValueError, "at most 512 bytes"),
        ({"a/b": 1, "a": {"b": 2}}, ValueError, "'a/b' is given twice"),
        ([("a", 1)], TypeError, "metrics must be a dict of numbers, not list"),
    ],
)
def test_what_is_no_metric_is_refused_by_name(
    metrics: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        flatten_metrics(metrics)


def test_a_dict_that_contains_itself_is_refused() -> None:
    metrics: dict[str, object] = {}
    metrics["self"] = metrics
    with pytest.raises(ValueError, match="at most 512 bytes"):
        flatten_metrics(metrics)


@pytest.mark.parametrize("key", ["loss (train)", "verlust/größe", "k" * 512, "ä" * 256, "损失"])
def test_any_printable_key_is_taken(key: str) -> None:
    assert flatten_metrics({key: 1}) == {key: 1}


@pytest.mark.parametrize("step", [None, 0, 7, 2**63 - 1])
def test_a_step_is_a_natural_number(step: int | None) -> None:
    assert check_step(step) == step


@pytest.mark.parametrize(
    ("step", "error"), [(-1, ValueError), (2**63, ValueError), (1.0, TypeError), ("1", TypeError)]
)
def test_another_step_is_refused(step: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="step must be"):
        check_step(step)
