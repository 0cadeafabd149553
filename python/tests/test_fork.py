from __future__ import annotations

import subprocess
from typing import Callable

import pytest
from conftest import SessionServer

Run = Callable[[str], "subprocess.CompletedProcess[str]"]

FORK = """
import os, sys, time
import trainhead

def wait_for(pid):
    _, status = os.waitpid(pid, 0)
    assert status == 0, status
"""


def test_a_forked_child_reports_and_logs_on_its_own(server: SessionServer, run_script: Run) -> None:
    done = run_script(
        FORK
        + """
trainhead.report({"who": 0}, step=0)
for step in range(1000):
    trainhead.log({"parent": 1}, step=step)   # still in the queue at the fork
pid = os.fork()
if pid == 0:
    trainhead.report({"who": 1}, step=1)
    trainhead.log({"child": 1}, step=0)
    sys.exit(0)                               # by way of atexit: sends the rest
wait_for(pid)
trainhead.report({"who": 0}, step=2)
"""
    )
    assert (done.returncode, done.stderr) == (0, "")
    reports = [request for request in server.requests if request.target == "/report"]
    assert [report.body["step"] for report in reports] == [0, 1, 2]
    assert reports[0].connection == reports[2].connection != reports[1].connection
    assert [p["step"] for p in server.points if "parent" in p["metrics"]] == list(range(1000))
    assert [p["step"] for p in server.points if "child" in p["metrics"]] == [0]


def test_a_child_does_not_keep_the_parents_connections_open(
    server: SessionServer, run_script: Run
) -> None:
    server.hold()  # so that the parent forks while its thread waits for an answer, too
    done = run_script(
        FORK
        + """
trainhead.log({"loss": 1.0})
connections = trainhead._session._session._transport._connections
while not connections:
    time.sleep(0.001)
mine = {os.fstat(connection.fileno()).st_ino for connection in connections}
pid = os.fork()
if pid == 0:
    inherited = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            inherited.add(os.fstat(int(name)).st_ino)
        except OSError:
            pass  # the descriptor of this listing
    os._exit(1 if inherited & mine else 0)
wait_for(pid)
os._exit(0)
"""
    )
    assert (done.returncode, done.stderr) == (0, "")
    server.release()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_of_multiprocessing_report(
    server: SessionServer, run_script: Run, method: str
) -> None:
    done = run_script(
        f"""
import multiprocessing
import trainhead

def work(step):
    trainhead.report({{"child": 1}}, step=step)

if __name__ == "__main__":
    trainhead.report({{"parent": 1}}, step=0)
    trainhead.log({{"parent": 1}}, step=0)
    context = multiprocessing.get_context("{method}")
    children = [context.Process(target=work, args=(step,)) for step in (1, 2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
        assert child.exitcode == 0
    trainhead.report({{"parent": 1}}, step=3)
"""
    )
    assert done.returncode == 0, done.stderr
    assert sorted(sent["step"] for sent in server.reports) == [0, 1, 2, 3]
