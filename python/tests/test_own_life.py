"""Runs that a script records by itself, against the real head: how they end."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest
from conftest import DEADLINE_S, wait_until
from heads import Programs, RealHead, wait_for_file, wait_for_status

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("outside")]

Start = Callable[..., "subprocess.Popen[str]"]

# Beats quickly, so that tests need not wait for a stop request to be heard.
PRELUDE = """
import os, pathlib, signal, sys, time
import trainhead
from trainhead import _pulse
_pulse.BEATS = 300

def train(run):
    for step in range(10):
        run.log({"loss": 1 / (step + 1)}, step=step)
"""


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHead]:
    head = RealHead(tmp_path_factory.mktemp("head")).start()
    yield head
    head.end()


@pytest.fixture
def start(head: RealHead, tmp_path: Path) -> Iterator[Start]:
    programs, numbers = Programs(), itertools.count()

    def start(source: str, *arguments: object) -> subprocess.Popen[str]:
        script = tmp_path / f"train{next(numbers)}.py"
        script.write_text(PRELUDE + source)
        return programs.start(script, *arguments, TRAINHEAD_DATA_DIR=str(head.data_dir))

    yield start
    programs.end()


def last_step(head: RealHead, name: str) -> Any:
    try:
        return head.run(name)["evidence"]["progress"]["last_step"]
    except StopIteration:
        return None


ALONE = """
run = trainhead.init({name!r}, config={{"lr": 0.1}}, tags={{"kind": "test"}})
train(run)
{end}
"""
BLOCK = """
with trainhead.init({name!r}) as run:
    train(run)
    {end}
"""


@pytest.mark.parametrize(
    ("end", "code", "status", "detail"),
    [
        ("pass", 0, "FINISHED", None),
        ("sys.exit(0)", 0, "FINISHED", None),
        ("sys.exit(3)", 3, "ERRORED", "exited with code 3: SystemExit: 3"),
        ("sys.exit('no data')", 1, "ERRORED", "exited with code 1: SystemExit: no data"),
        ("raise ValueError('bad loss')", 1, "ERRORED", "exited with code 1: ValueError: bad loss"),
        ("raise KeyboardInterrupt", -2, "ABORTED", "stopped by user (KeyboardInterrupt)"),
        (
            "os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)",
            -15,
            "ERRORED",
            "killed by SIGTERM",
        ),
    ],
)
def test_a_run_ends_as_its_process_does(
    head: RealHead, start: Start, end: str, code: int, status: str, detail: str | None
) -> None:
    scripts = {
        f"{kind} {end}": start(source.format(name=f"{kind} {end}", end=end))
        for kind, source in (("alone", ALONE), ("block", BLOCK))
    }
    for name, script in scripts.items():
        _, err = script.communicate(timeout=DEADLINE_S)
        assert script.returncode == code, err
        run = head.run(name)
        assert (run["run_status"], run["status_detail"]) == (status, detail)
        assert run["ended_by"] == ("user" if status == "ABORTED" else "controller")
        assert run["evidence"]["progress"]["last_step"] == 9
        (attempt,) = run["attempts"]
        assert attempt["status"] == status
        (worker,) = run["workers"]
        assert (worker["pid"], worker["status"]) == (script.pid, "DEAD")
        failure = run["first_failure"]
        assert (failure is None) == (status != "ERRORED")
        if failure is not None:
            assert failure["message"] == detail
            assert failure["exit_code"] == (code if code > 0 else None)
            assert failure["signal"] == ("SIGTERM" if code < 0 else None)
            assert worker["exit"]["code"] == failure["exit_code"]
        if "ValueError" in end:
            assert failure["log_tail"][-1] == "ValueError: bad loss"
            assert failure["log_tail"][0] == "Traceback (most recent call last):"
            assert "ValueError: bad loss" in err, "the interpreter says it, too"
        assert head.points(run["id"], "loss")[0] == list(range(10))


@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize("end", ["os._exit(1)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_of_a_process_that_says_nothing_the_head_says_that_it_is_gone(
    head: RealHead, start: Start, end: str, wait: bool
) -> None:
    name = f"gone {wait} {end}"
    script = start(
        ALONE.format(name=name, end=f"if sys.argv[1:]: sys.stdin.read()\n{end}"),
        *("wait",) * wait,
    )
    if wait:
        wait_until(lambda: last_step(head, name) == 9, "what was logged is known")
    script.communicate(timeout=DEADLINE_S)
    run = head.run(name)
    assert (run["run_status"], run["ended_by"]) == ("ABORTED", "reconciler")
    assert f"controller process {script.pid}" in run["status_detail"]


def test_a_raised_system_exit_is_never_a_clean_end(head: RealHead, start: Start) -> None:
    script = start(ALONE.format(name="raised", end="raise SystemExit(4)"))
    _, err = script.communicate(timeout=DEADLINE_S)
    assert script.returncode == 4
    run = head.run("raised")
    if sys.version_info >= (3, 12):
        assert run["status_detail"] == "exited with code 4: SystemExit: 4"
    else:
        assert (run["run_status"], run["ended_by"]) == ("ABORTED", "reconciler")
        assert "will be shown as ABORTED" in err


def test_a_caught_exit_and_a_caught_exception_end_nothing(head: RealHead, start: Start) -> None:
    script = start(
        """
from sys import exit as leave
trainhead.init("caught")
for way in (leave, sys.exit, exit):
    try:
        way(5)
    except SystemExit:
        pass
try:
    1 / 0
except ZeroDivisionError:
    pass
"""
    )
    _, err = script.communicate(timeout=DEADLINE_S)
    assert script.returncode == 0, err
    assert head.run("caught")["run_status"] == "FINISHED"


def test_finish_in_finally_ends_as_the_exception_does(head: RealHead, start: Start) -> None:
    script = start(
        """
def run_it(name, fail):
    run = trainhead.init(name)
    try:
        if fail:
            raise OSError("disk gone")
    finally:
        run.finish()

run_it("finally well", False)
try:
    run_it("finally badly", True)
except OSError:
    run_it("finally within", False)   # not its exception
"""
    )
    _, err = script.communicate(timeout=DEADLINE_S)
    assert script.returncode == 0, err
    assert head.run("finally well")["run_status"] == "FINISHED"
    assert "OSError: disk gone" in head.run("finally badly")["status_detail"]
    assert head.run("finally within")["run_status"] == "FINISHED"


@pytest.mark.parametrize("block", [False, True], ids=["alone", "with"])
def test_a_stop_request_raises_stop_in_report_and_never_in_log(
    head: RealHead, start: Start, tmp_path: Path, block: bool
) -> None:
    name = f"stopped {block}"
    script = start(
        (BLOCK if block else ALONE).format(
            name=name,
            end="pathlib.Path(sys.argv[1]).touch()\n"
            + "    " * block
            + "while True: (trainhead.log if not run.stop_requested else trainhead.report)"
            "({'x': 1}); time.sleep(0.01)",
        ),
        tmp_path / "trains",
    )
    wait_for_file(tmp_path / "trains")
    run = wait_for_status(head, name, "STARTED")
    head.post(f"/api/train/runs/{run['id']}/stop", {"reason": "wrong data"})
    _, err = script.communicate(timeout=DEADLINE_S)
    assert script.returncode == 0, err
    run = head.run(name)
    assert (run["run_status"], run["status_detail"]) == (
        "ABORTED",
        "stopped by request: wrong data",
    )
    assert run["ended_by"] == "user"


def test_children_do_not_end_their_parents_run(head: RealHead, start: Start) -> None:
    script = start(
        """
import multiprocessing

def work(step):
    trainhead.log({"child": step})

run = trainhead.init("parent")
pid = os.fork()
if pid == 0:
    trainhead.log({"child": 1})
    run.finish()
    sys.exit(3)                       # by way of the exit handlers
assert os.waitpid(pid, 0)[1] >> 8 == 3
child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
child.start()
child.terminate()                     # our handler is not its
child.join()
assert child.exitcode == -signal.SIGTERM, child.exitcode
with multiprocessing.get_context("fork").Pool(2) as pool:
    pool.map(work, range(4))
run.log({"parent": 1}, step=7)
"""
    )
    _, err = script.communicate(timeout=DEADLINE_S)
    assert script.returncode == 0, err
    run = head.run("parent")
    assert (run["run_status"], run["last_metrics"]) == ("FINISHED", {"parent": 1})


def test_a_handler_of_the_script_is_not_replaced(head: RealHead, start: Start) -> None:
    script = start(
        """
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(7))
trainhead.init("handler")
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
"""
    )
    _, err = script.communicate(timeout=DEADLINE_S)
    assert script.returncode == 7, err
    assert head.run("handler")["status_detail"] == "exited with code 7: SystemExit: 7"


def test_term_in_the_middle_of_much_logging_is_still_told(head: RealHead, start: Start) -> None:
    script = start(
        """
run = trainhead.init("busy")
pathlib.Path(sys.argv[1]).touch()
while True:
    run.log({"loss": 0.5})
""",
        (trains := head.data_dir / "busy"),
    )
    wait_for_file(trains)
    wait_for_status(head, "busy", "STARTED")
    script.send_signal(signal.SIGTERM)
    _, err = script.communicate(timeout=DEADLINE_S * 2)
    assert script.returncode == -signal.SIGTERM, err
    assert "trainhead sync" in err or head.run("busy")["status_detail"] == "killed by SIGTERM"


def test_the_record_says_what_the_run_was_started_with(head: RealHead, start: Start) -> None:
    script = start(
        """
import argparse, dataclasses
@dataclasses.dataclass
class Config:
    lr: float = 0.1
    layers: tuple = (1, 2)
    path: pathlib.Path = pathlib.Path("/data")
    bad: float = float("inf")
run = trainhead.init("config", experiment="e", config=Config(), tags={"n": 1}, job_id="j-1")
assert trainhead.active_run() is run
with trainhead.init("inner", config=argparse.Namespace(a=None)) as inner:
    assert trainhead.active_run() is inner
    trainhead.log({"x": 1})
assert trainhead.active_run() is run
trainhead.log({"y": 1})
trainhead.log({"y": 2})
run.finish()
assert trainhead.active_run() is None
assert run.url.endswith(f"/runs/{run.id}"), run.url
run.log({"y": 3})
"""
    )
    _, err = script.communicate(timeout=DEADLINE_S)
    assert script.returncode == 0, err
    run: Any = head.get(f"/api/train/runs/{head.run('config')['id']}")
    assert run["settings"] == {"lr": 0.1, "layers": [1, 2], "path": "/data", "bad": "inf"}
    assert (run["experiment"], run["tags"], run["job_id"]) == ("e", {"n": "1"}, "j-1")
    assert run["framework_versions"]["python"].startswith("3.")
    assert head.points(run["id"], "y") == ([0, 1], [1.0, 2.0])
    assert head.run("inner")["last_metrics"] == {"x": 1}
    assert err.count("has ended: what is logged now is not recorded") == 1
