"""What a run is registered with: the body, made of what a script says."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Mapping
from typing import Any

from ._host import check_id, new_id, now_ms, process_identity
from ._metrics import encode_json

# Deeper settings are refused by the head.
_MAX_DEPTH = 30
_FRAMEWORKS = (
    "torch",
    "tensorflow",
    "jax",
    "keras",
    "lightning",
    "sklearn",
    "xgboost",
    "lightgbm",
    "transformers",
    "ray",
)


def registration(
    name: str | None = None,
    *,
    id: str | None = None,
    experiment: str | None = None,
    config: object = None,
    tags: Mapping[str, object] | None = None,
    job_id: str | None = None,
    lease_ms: int | None = None,
    resume: bool = False,
) -> dict[str, Any]:
    """Return the body with which a run is registered, this process being its controller.

    Args:
        name: a name for people.
        id: the run's id; made if missing.
        experiment: the experiment that it belongs to.
        config: a dict, dataclass, `argparse.Namespace`, or whatever has ``items()`` or attributes.
            What is no JSON in it goes as its text.
        tags: labels.
        job_id: the job that it belongs to, for example of Slurm.
        lease_ms: how long a heartbeat vouches for this process.
        resume: go on with the run `id`, which has ended.

    Raises:
        TypeError, ValueError: one of them cannot be used; the message says which.
    """
    controller: dict[str, Any] = {"actor_id": new_id(), "process": process_identity()}
    if lease_ms is not None:
        controller["lease_ttl_ms"] = lease_ms
    body: dict[str, Any] = {
        "id": new_id() if id is None else check_id("id", id),
        "controller": controller,
        "settings": _settings(config),
        "tags": _tags(tags),
        "framework_versions": _framework_versions(),
        "start_time_ms": now_ms(),
    }
    texts = {"name": name, "experiment": experiment, "job_id": job_id}
    for key, value in texts.items():
        if value is not None:
            body[key] = _text(key, value)
    if resume:
        body["resume"] = True
    return body


def _text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{key} must be a string, not {type(value).__name__}")
    if not value or len(value) > 256 or any(c < " " or "\x7f" <= c < "\xa0" for c in value):
        raise ValueError(f"{key} must have 1 to 256 characters, and no control characters")
    return value


def _tags(tags: Mapping[str, object] | None) -> dict[str, str]:
    if tags is None:
        return {}
    if not isinstance(tags, Mapping):
        raise TypeError(f"tags must be a dict of strings, not {type(tags).__name__}")
    return {str(key): str(value) for key, value in tags.items()}


def _settings(config: object) -> dict[str, Any]:
    if config is None:
        return {}
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        config = dataclasses.asdict(config)
    elif isinstance(config, argparse.Namespace):
        config = vars(config)
    elif not isinstance(config, Mapping):
        try:
            config = dict(config)  # type: ignore[call-overload]
        except (TypeError, ValueError):
            raise TypeError(f"config must be a dict, not {type(config).__name__}") from None
    plain: dict[str, Any] = _plain(config, 0)
    return plain


def _plain(value: object, depth: int) -> Any:
    """`value` as JSON: what is none goes as its text."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if depth < _MAX_DEPTH:
        if isinstance(value, Mapping):
            return {str(key): _plain(item, depth + 1) for key, item in value.items()}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [_plain(item, depth + 1) for item in value]
    try:
        encode_json(value)
    except (TypeError, ValueError):
        item = getattr(value, "item", None)
        if callable(item) and getattr(value, "size", 1) == 1:
            try:
                return _plain(item(), _MAX_DEPTH)
            except Exception:
                return repr(value)
        return str(value)
    return value


def _framework_versions() -> dict[str, str]:
    """Of those that the script has imported: none is imported for this."""
    versions = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in _FRAMEWORKS:
        version = getattr(sys.modules.get(name), "__version__", None)
        if isinstance(version, str):
            versions[name] = version
    return versions
