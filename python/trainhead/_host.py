"""This process and this host: ids, the process's identity for the head, and the data directory."""

from __future__ import annotations

import os
import re
import secrets
import socket
import time
from pathlib import Path
from typing import Any

_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")


def new_id() -> str:
    """Return a UUIDv7: ids that are made later sort later."""
    ms = now_ms().to_bytes(6, "big")
    rest = bytearray(secrets.token_bytes(10))
    rest[0] = 0x70 | rest[0] & 0x0F
    rest[2] = 0x80 | rest[2] & 0x3F
    text = (ms + bytes(rest)).hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def check_id(name: str, value: str) -> str:
    """Return `value` if it can be an id: ids become names of directories.

    Raises:
        TypeError: it is no string.
        ValueError: it cannot be an id.
    """
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, not {type(value).__name__}")
    if not _ID.fullmatch(value):
        raise ValueError(
            f"{name} {value!r}: an id is 1 to 128 letters, digits, '.', '_' and '-',"
            " and does not begin with '.'"
        )
    return value


def now_ms() -> int:
    """Return the UNIX time in milliseconds."""
    return time.time_ns() // 1_000_000


def host_name() -> str:
    """Return the host's name, which is the identity of its node, too."""
    return os.uname().nodename or "localhost"


def host_address() -> str:
    """Return the address under which others reach this host, as far as that can be told."""
    try:
        # Nothing is sent: connecting a datagram socket only looks up the route.
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
    except OSError:
        return "127.0.0.1"


def process_identity() -> dict[str, Any] | None:
    """Return what names this process for ever, so that a head on this host can watch it.

    None where the system does not say.
    """
    try:
        stat = Path("/proc/self/stat").read_text(errors="replace")
        return {
            "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
            "pid_namespace": Path("/proc/self/ns/pid").stat().st_ino,
            "pid": os.getpid(),
            # Field 22; the command before it may hold anything, so count from its last bracket.
            "start_time_ticks": int(stat.rpartition(")")[2].split()[19]),
            "host": host_name(),
        }
    except (OSError, ValueError, IndexError):
        return None


def data_dir(given: str | os.PathLike[str] | None = None) -> Path:
    """Return the data directory, as the `trainhead` command finds it."""
    named = os.fspath(given) if given is not None else os.environ.get("TRAINHEAD_DATA_DIR")
    if named:
        return Path(named).absolute()
    # The XDG rule: a path that is not absolute counts as none.
    base = os.environ.get("XDG_DATA_HOME", "")
    return Path(base if base.startswith("/") else Path.home() / ".local/share") / "trainhead"
