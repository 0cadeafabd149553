"""`python -m trainhead sync`: delivers what waits on disk, of runs whose processes have ended."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Callable

from ._delivery import Delivery, NotNowError, NotRecordedError, is_report
from ._head import HeadClient, head_finder
from ._host import data_dir as find_data_dir
from ._spool import Spool, SpoolInUseError

# A head that takes nothing for so long is given up.
PATIENCE_S = 30.0
RETRY_FIRST_S = 0.1
RETRY_MOST_S = 5.0
# Somebody else who is delivering the same is waited for.
OTHER_S = 600.0
# Between lines of progress, on a terminal and elsewhere.
SHOW_S = 0.2
SHOW_PLAIN_S = 5.0


def sync(
    directories: list[Path],
    *,
    head: str | None = None,
    data_dir: Path | None = None,
    patience_s: float = PATIENCE_S,
) -> int:
    """Deliver these spools, or all of the data directory; return an exit code.

    0 if nothing is left of them, 1 if something is, 2 if one of them is no spool.
    """
    root = find_data_dir(data_dir)
    spools: list[Path] = []
    for directory in directories or [root]:
        found = list(_spools(directory))
        if not found and directories:
            _say(f"{directory} is no spool, and has none")
            return 2
        spools += found
    if not spools:
        _say(f"nothing waits in {root}")
    left = [path for path in spools if not _sync_one(path, head, root, patience_s)]
    if left:
        _say(f"{len(left)} of {len(spools)} are left; try again when the head answers")
    return 1 if left else 0


def _spools(directory: Path) -> Iterator[Path]:
    """The directory itself, or those in it: of scripts on their own, and of controllers."""
    if (directory / "spool.json").is_file():
        yield directory
        return
    for pattern in ("*/spool.json", "spool/*/spool.json", "runs/*/spool*/spool.json"):
        yield from (path.parent for path in sorted(directory.glob(pattern)))


def _sync_one(path: Path, head: str | None, root: Path, patience_s: float) -> bool:
    """Deliver one spool; return whether nothing is left of it that is ours to deliver."""
    spool = Spool(path)
    try:
        about = _open(spool)
        return _deliver_all(spool, about, dict(about["register"]), head, root, patience_s)
    except SpoolInUseError as error:
        what = "takes long to deliver it" if error.delivering else "writes it, and delivers it"
        _say(f"{path}: another process {what}")
        return not error.delivering
    except FileNotFoundError:
        _say(f"{path}: it was delivered meanwhile")
        return True
    except (OSError, ValueError, KeyError, TypeError) as error:
        _say(f"{path}: it cannot be read ({error})")
        return False
    finally:
        spool.close()


def _open(spool: Spool) -> dict[str, Any]:
    """Open a spool; one that somebody else is delivering is waited for."""
    deadline = time.monotonic() + OTHER_S
    while True:
        try:
            return spool.open()
        except SpoolInUseError as error:
            if not error.delivering or time.monotonic() > deadline:
                raise
        # Nothing tells when it is done.
        time.sleep(RETRY_FIRST_S)


def _deliver_all(
    spool: Spool,
    about: dict[str, Any],
    register: dict[str, Any],
    head: str | None,
    root: Path,
    patience_s: float,
) -> bool:
    register.setdefault("id", about["run_id"])
    client = HeadClient(head_finder(head or about.get("head"), _data_dir_of(spool.directory, root)))
    delivery = Delivery(client, register, about.get("controller_token"))
    progress = _Progress(str(register.get("name") or register["id"]), spool.size_bytes)
    try:
        # What became of the run comes first, and then, as somebody who has joined it, its metrics:
        # late words are not to look like a controller that lives.
        for word in spool.lines():
            if not is_report(word):
                _persist(partial(delivery.deliver, word), patience_s)
        of_others = delivery.joined
        _persist(delivery.join, patience_s)
        while (line := spool.read()) is not None:
            if is_report(line):
                _persist(partial(delivery.deliver, line), patience_s)
            spool.advance()
            progress.add(len(line) + 1)
    except (NotNowError, NotRecordedError) as error:
        progress.end(f"delivered, {progress.left} are left in {spool.directory}: {error}")
        return False
    finally:
        client.close()
    spool.remove()
    notes = []
    if of_others:
        notes.append("the run is another controller's or has ended, so its metrics only")
    if delivery.refused:
        notes.append(f"{delivery.refused} messages were refused")
    progress.end("; ".join(["delivered", *notes]))
    return True


def _persist(act: Callable[[], object], patience_s: float) -> None:
    """Do it until the head has answered, or the patience is over."""
    deadline = time.monotonic() + patience_s
    pause_s = RETRY_FIRST_S
    while True:
        try:
            act()
            return
        except NotNowError as error:
            wait_s = pause_s if error.retry_after_s is None else error.retry_after_s
            if time.monotonic() + wait_s > deadline:
                raise
            time.sleep(wait_s)
            pause_s = min(pause_s * 2, RETRY_MOST_S)


def _data_dir_of(spool: Path, root: Path) -> Path:
    """The data directory that a spool lies in, as long as a head serves it; else the usual one."""
    for directory in list(spool.absolute().parents)[1:3]:
        if (directory / "head.json").is_file():
            return directory
    return root


class _Progress:
    """What is shown of one spool."""

    def __init__(self, name: str, total_bytes: int) -> None:
        self._name = name
        self._total = total_bytes
        self._done = 0
        self._live = sys.stderr.isatty()
        self._next_s = time.monotonic() + (SHOW_S if self._live else SHOW_PLAIN_S)

    @property
    def left(self) -> str:
        """How much there still is."""
        return _size(self._total - self._done)

    def add(self, count: int) -> None:
        """So many bytes more are delivered."""
        self._done += count
        if time.monotonic() >= self._next_s:
            percent = 100 * self._done // max(self._total, 1)
            end = "\r" if self._live else "\n"
            text = f"run {self._name}: {percent} % of {_size(self._total)}"
            print(text, end=end, file=sys.stderr, flush=True)
            self._next_s = time.monotonic() + (SHOW_S if self._live else SHOW_PLAIN_S)

    def end(self, text: str) -> None:
        """Nothing more will be."""
        _say(f"run {self._name}: {_size(self._done)} {text}")


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"


def _say(text: str) -> None:
    print(f"\x1b[K{text}" if sys.stderr.isatty() else text, file=sys.stderr, flush=True)
