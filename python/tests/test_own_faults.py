"""Runs that a script records by itself, before a head that is away, slow, broken or killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest
from conftest import DEADLINE_S, PYTHON_DIR, wait_until
from heads import Faults, Programs, RealHead, binary, faults, wait_for_file, wait_for_status

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("outside")]

Start = Callable[..., "subprocess.Popen[str]"]

# Logs POINTS points, says how that went, waits for a line, and ends.
LOGS = """
import json, os, resource, sys, time
import trainhead

name, points, timeout_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
run = trainhead.init(name, id=name, head=os.environ.get("TEST_HEAD"))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
took = []
for step in range(points):
    begun = time.perf_counter()
    trainhead.log({"loss": step, "acc": 0.5}, step=step)
    took.append(time.perf_counter() - begun)
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
took.sort()
print(json.dumps({"p99": took[points * 99 // 100], "kib": grown}), flush=True)
sys.stdin.readline()
begun = time.monotonic()
run.finish(timeout_s)
print(json.dumps({"finish": time.monotonic() - begun}), flush=True)
sys.exit(5)
"""
POINTS = 3_000


@pytest.fixture
def head(tmp_path: Path) -> Iterator[RealHead]:
    head = RealHead(tmp_path / "data")
    yield head
    head.end()


@pytest.fixture
def proxy(head: RealHead) -> Iterator[Faults]:
    head.start()
    with faults(head) as proxy:
        yield proxy


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Start]:
    """Start the script that logs; see there."""
    (tmp_path / "logs.py").write_text(LOGS)
    programs = Programs()

    def start(
        name: str, points: int = POINTS, timeout_s: float = 30, head: str | None = None
    ) -> subprocess.Popen[str]:
        env = {"TEST_HEAD": head} if head else {}
        return programs.start(tmp_path / "logs.py", name, points, timeout_s, **env)

    yield start
    programs.end()


def logged(script: subprocess.Popen[str]) -> Any:
    """Wait until all is logged; how that went."""
    assert script.stdout is not None
    return json.loads(script.stdout.readline())


def finish(script: subprocess.Popen[str]) -> tuple[float, str]:
    """Have it finish; how long that took, and what it said."""
    out, err = script.communicate("go\n", timeout=DEADLINE_S * 2)
    assert script.returncode == 5, err
    assert "Traceback" not in err, err
    return float(json.loads(out)["finish"]), err


def assert_whole(head: RealHead, run_id: str, points: int = POINTS) -> None:
    steps, values = head.points(run_id, "loss")
    assert steps == list(range(points))
    assert values == list(range(points))


# The client's own, and that of the binary, which are to agree.
BY_PYTHON = (sys.executable, "-m", "trainhead", "sync")
BY_BINARY = (str(binary()), "sync")


def knows_sync() -> bool:
    return subprocess.run([*BY_BINARY, "--help"], capture_output=True).returncode == 0


def sync(*arguments: object, by: tuple[str, ...] = BY_PYTHON) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*by, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(PYTHON_DIR)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S * 2,
    )


@pytest.mark.parametrize("mode", ["500", "429", "hang", "lose"])
def test_what_is_logged_meanwhile_arrives_once_and_in_order(
    proxy: Faults, logs: Start, mode: str
) -> None:
    proxy.switch(mode)
    script = logs(mode, head=proxy.url)
    went = logged(script)
    # With a wide margin: what is measured in earnest is measured by benches/client.py.
    assert went["p99"] < 0.005, went
    assert went["kib"] < 64 * 1024, went
    proxy.wait_seen(mode, 1 if mode == "hang" else 3)
    proxy.switch("pass")
    _, err = finish(script)
    assert "sync" not in err
    assert err.count("the head is away") == 1
    assert_whole(proxy.head, mode)
    assert proxy.head.run(mode)["run_status"] == "FINISHED"
    assert not list((proxy.head.data_dir / "spool").iterdir())


def test_a_head_that_comes_later_gets_all_of_it(head: RealHead, logs: Start) -> None:
    script = logs("later")
    logged(script)
    head.start()
    wait_for_status(head, "later", "STARTED")
    _, err = finish(script)
    assert "the head is away (no head is to be found)" in err
    assert "the head answers again" in err
    assert_whole(head, "later")
    run = head.run("later")
    assert (run["run_status"], run["attempts"][0]["status"]) == ("FINISHED", "FINISHED")


def test_a_head_that_is_killed_in_the_middle_and_comes_back_elsewhere(
    head: RealHead, logs: Start
) -> None:
    head.start()
    script = logs("killed", points=10_000)
    wait_for_status(head, "killed", "STARTED")
    head.kill()
    logged(script)
    head.start()
    finish(script)
    assert_whole(head, "killed", 10_000)
    assert head.run("killed")["run_status"] == "FINISHED"


def test_finish_is_held_up_by_no_head_and_sync_delivers_the_rest(
    head: RealHead, logs: Start
) -> None:
    head.start()
    script = logs("unfinished", timeout_s=2)
    logged(script)
    head.kill()
    took_s, err = finish(script)
    assert took_s < 2.5
    (spool,) = (head.data_dir / "spool").iterdir()
    assert f"the rest is in {spool}" in err
    assert f"trainhead sync {spool}" in err
    copy = head.data_dir.parent / "copy"
    shutil.copytree(spool, copy)

    done = sync(spool, "--patience", 0.5)
    assert done.returncode == 1
    assert "are left in" in done.stderr
    head.start()
    done = sync()
    assert (done.returncode, "delivered" in done.stderr) == (0, True), done.stderr
    assert not spool.exists()
    assert_whole(head, "unfinished")
    run = head.run("unfinished")
    assert run["run_status"] == "FINISHED"
    # Once more changes nothing.
    assert sync(copy).returncode == 0
    assert_whole(head, "unfinished")
    assert head.run("unfinished")["end_time_ms"] == run["end_time_ms"]
    done = sync()
    assert (done.returncode, "nothing waits" in done.stderr) == (0, True)


def test_finish_is_held_up_by_no_head_that_never_answers(proxy: Faults, logs: Start) -> None:
    script = logs("silent", points=100, timeout_s=1, head=proxy.url)
    logged(script)
    proxy.switch("hang")
    took_s, err = finish(script)
    assert 0.9 < took_s < 2
    assert "trainhead sync" in err


@pytest.mark.parametrize("other", [BY_PYTHON, BY_BINARY], ids=["python", "binary"])
def test_a_spool_is_delivered_by_several_at_once(
    head: RealHead, logs: Start, other: tuple[str, ...]
) -> None:
    if other is BY_BINARY and not knows_sync():
        pytest.xfail("this binary does not know sync")
    script = logs("twice", timeout_s=0.5)
    logged(script)
    finish(script)
    (spool,) = (head.data_dir / "spool").iterdir()
    copy = head.data_dir.parent / "copy"
    shutil.copytree(spool, copy)
    head.start()
    # The same directory, which one of them gets, and a copy, which has the same messages.
    env = {**os.environ, "PYTHONPATH": str(PYTHON_DIR)}
    several = [
        subprocess.Popen([*by, str(path)], env=env, stderr=subprocess.PIPE, text=True)
        for by, path in ((BY_PYTHON, spool), (other, copy), (other, spool), (BY_PYTHON, copy))
    ]
    for process in several:
        _, err = process.communicate(timeout=DEADLINE_S * 2)
        assert process.returncode in (0, 2), err  # 2: it was gone already
    assert not spool.exists()
    assert not copy.exists()
    assert_whole(head, "twice")
    assert head.run("twice")["run_status"] == "FINISHED"


@pytest.mark.parametrize("by", [BY_PYTHON, BY_BINARY])
def test_two_spools_of_one_run_are_delivered_in_any_order(
    head: RealHead, logs: Start, by: tuple[str, ...]
) -> None:
    head.start()
    head.kill()
    # Both processes say that they drive the run `shared`; the one logs what the other does not.
    spools: list[Path] = []
    for points, key in ((5_000, "a"), (8_000, "b")):
        script = logs("shared", points=points, timeout_s=0.2)
        logged(script)
        finish(script)
        (new,) = set((head.data_dir / "spool").iterdir()) - set(spools)
        for segment in new.glob("*.jsonl"):
            segment.write_text(segment.read_text().replace('"loss"', f'"{key}"'))
        spools.append(new)
    one, other = spools
    again = head.data_dir.parent / "again"
    shutil.copytree(one, again)
    head.start()
    for spool in (one, other, again):
        done = sync(spool, by=by)
        assert done.returncode == 0, done.stderr
    assert head.points("shared", "a")[0] == list(range(5_000))
    assert head.points("shared", "b")[0] == list(range(8_000))
    run = head.run("shared")
    assert (run["run_status"], run["num_attempts"]) == ("FINISHED", 1)


def test_a_spool_of_a_process_that_lives_is_left_alone(head: RealHead, logs: Start) -> None:
    script = logs("living", points=10)
    logged(script)
    head.start()
    done = sync()
    assert (done.returncode, "another process" in done.stderr) == (0, True), done.stderr
    finish(script)
    assert_whole(head, "living", 10)


def test_a_spool_that_was_cut_off_is_delivered_up_to_there(head: RealHead, logs: Start) -> None:
    script = logs("cut", points=1_000)
    logged(script)
    (spool,) = (head.data_dir / "spool").iterdir()
    segment = spool / "000000000001.jsonl"
    wait_for_file(segment)
    # Its attempt, too: the first report stands behind it.
    wait_until(lambda: b'"report"' in segment.read_bytes(), "the spool holds a report")
    script.send_signal(signal.SIGKILL)
    script.wait(DEADLINE_S)
    segment.write_bytes(segment.read_bytes() + b'{"report":{"writer":"x","seq":')
    head.start()
    done = sync(spool)
    assert done.returncode == 0, done.stderr
    run = head.run("cut")
    assert (run["run_status"], run["ended_by"]) == ("ABORTED", "reconciler")
    ends = [event for event in head.events(run["id"]) if event["to"] == "ABORTED"]
    assert len(ends) == 2, "late words do not bring the run, and its attempt, back"
