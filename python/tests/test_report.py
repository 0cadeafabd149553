from __future__ import annotations

import subprocess
import threading
import time
from typing import Any, Callable

import pytest
from conftest import DEADLINE_S, SessionServer

import trainhead
from trainhead import _session

Run = Callable[[str], "subprocess.CompletedProcess[str]"]
Capture = pytest.CaptureFixture[str]


def test_a_report_arrives_flat_with_rank_step_and_time(server: SessionServer) -> None:
    before_ms = time.time_ns() // 1_000_000
    trainhead.report({"loss": float("nan"), "test": {"accuracy": 0.5}}, step=7)
    (sent,) = server.reports
    assert before_ms <= sent.pop("time_ms") <= time.time_ns() // 1_000_000
    assert sent == {"rank": 1, "step": 7, "metrics": {"loss": "NaN", "test/accuracy": 0.5}}


def test_a_report_without_a_step_leaves_it_to_the_controller(server: SessionServer) -> None:
    trainhead.report({"loss": 1.0})
    assert "step" not in server.reports[0]


def test_reports_share_one_connection(server: SessionServer) -> None:
    for step in range(5):
        trainhead.report({"loss": 1.0}, step=step)
    assert [sent["step"] for sent in server.reports] == [0, 1, 2, 3, 4]
    assert server.connections_opened == 1


def test_a_report_waits_until_it_is_taken(server: SessionServer) -> None:
    server.hold()
    returned = threading.Event()

    def train() -> None:
        trainhead.report({"loss": 1.0})
        returned.set()

    thread = threading.Thread(target=train)
    thread.start()
    server.wait_until(lambda: len(server.reports) == 1, "the report has arrived")
    assert not returned.is_set()
    server.release()
    assert returned.wait(DEADLINE_S)
    thread.join()


def test_threads_report_side_by_side(server: SessionServer) -> None:
    threads = [
        threading.Thread(target=trainhead.report, args=({"loss": 1.0},), kwargs={"step": step})
        for step in range(8)
    ]
    server.hold()
    for thread in threads:
        thread.start()
    server.wait_until(lambda: len(server.reports) == 8, "all reports have arrived")
    server.release()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert sorted(sent["step"] for sent in server.reports) == list(range(8))


def test_a_wrong_metric_raises_and_nothing_is_sent(server: SessionServer) -> None:
    with pytest.raises(TypeError, match="'model'"):
        trainhead.report({"loss": 1.0, "model": object()})
    with pytest.raises(TypeError, match="'model'"):
        trainhead.log({"loss": 1.0, "model": object()})
    with pytest.raises(ValueError, match="step"):
        trainhead.report({"loss": 1.0}, step=-1)
    trainhead.report({"loss": 2.0})
    assert [sent["metrics"] for sent in server.reports] == [{"loss": 2.0}]
    assert server.points == []


def test_stop_leaves_the_training_function(server: SessionServer) -> None:
    server.stop = True
    with pytest.raises(trainhead.Stop) as caught:
        trainhead.report({"loss": 1.0})
    assert isinstance(caught.value, SystemExit)
    assert caught.value.code == 0


def test_stop_ends_a_script_with_exit_code_0(server: SessionServer, run_script: Run) -> None:
    server.stop = True
    done = run_script(
        """
import trainhead
try:
    trainhead.report({"loss": 1.0})
except Exception:
    print("swallowed")
finally:
    print("cleaned up")
print("went on")
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "cleaned up\n", "")


def test_a_connection_closed_while_idle_is_replaced(server: SessionServer, capsys: Capture) -> None:
    trainhead.report({"loss": 1.0}, step=1)
    server.close_connections()
    server.wait_until(lambda: server.open_connections() == 0, "the connection is closed")
    trainhead.report({"loss": 1.0}, step=2)
    server.hang_up_on_next()
    trainhead.report({"loss": 1.0}, step=3)
    assert [sent["step"] for sent in server.reports] == [1, 2, 3]
    assert capsys.readouterr().err == ""


def test_a_server_that_keeps_no_connections_is_served(server: SessionServer) -> None:
    server.hang_up_on_next()
    trainhead.report({"loss": 1.0}, step=1)  # on a new connection: not sent twice
    assert server.reports == []
    trainhead.report({"loss": 1.0}, step=2)
    assert [sent["step"] for sent in server.reports] == [2]


def test_a_dead_controller_is_noted_once_and_training_goes_on(
    server: SessionServer, capsys: Capture
) -> None:
    trainhead.report({"loss": 1.0}, step=1)
    server.die()
    for step in range(2, 5):
        trainhead.report({"loss": 1.0}, step=step)
    assert capsys.readouterr().err.count("cannot be reached") == 1
    server.listen()
    trainhead.report({"loss": 1.0}, step=5)
    assert [sent["step"] for sent in server.reports] == [1, 5]
    assert "takes reports again; 3 before this one were lost" in capsys.readouterr().err


def test_a_controller_that_was_never_there_is_noted_once(
    server: SessionServer, capsys: Capture
) -> None:
    server.die()
    server.path.unlink()
    trainhead.report({"loss": 1.0})
    trainhead.report({"loss": 1.0})
    assert capsys.readouterr().err.count("trainhead:") == 1


def test_a_silent_controller_holds_the_training_up_once(
    server: SessionServer, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_session, "ANSWER_TIMEOUT_S", 0.2)
    server.hold()
    started_s = time.monotonic()
    trainhead.report({"loss": 1.0})
    assert time.monotonic() - started_s >= 0.2
    assert "no answer of the controller in 0.2 s" in capsys.readouterr().err

    for _ in range(1000):
        trainhead.report({"loss": 1.0})
    assert len(server.reports) == 1
    assert capsys.readouterr().err == ""

    server.release()
    session = _session.current_session()
    assert session is not None
    session._quiet_until_s = time.monotonic()  # as if the pause were over
    trainhead.report({"loss": 1.0})
    assert len(server.reports) == 2
    assert "1001 before this one were lost" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (422, {"detail": "metric 'loss' is refused", "field": "loss"}, "422, metric 'loss' is ref"),
        (500, "Internal Server Error", "500, no reason given"),
        (503, {}, "503"),
        (200, "no json", "no JSON object"),
        (200, [], "no JSON object"),
    ],
)
def test_a_controller_that_answers_badly_never_raises(
    server: SessionServer, capsys: Capture, status: int, body: Any, said: str
) -> None:
    server.answer("/report", status, body)
    for _ in range(3):
        trainhead.report({"loss": 1.0})
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
    server.answer_as_usual("/report")
    trainhead.report({"loss": 1.0})
    assert len(server.reports) == 4


@pytest.mark.usefixtures("outside")
def test_outside_of_a_session_metrics_are_checked_and_no_more(capsys: Capture) -> None:
    for step in range(3):
        trainhead.report({"loss": 1.0}, step=step)
        trainhead.log({"loss": 1.0}, step=step)
    assert capsys.readouterr().err.count("not started by `trainhead run`") == 1
    with pytest.raises(TypeError, match="'x'"):
        trainhead.report({"x": "y"})
    with pytest.raises(TypeError, match="'x'"):
        trainhead.log({"x": "y"})


@pytest.mark.usefixtures("outside")
def test_an_address_of_another_kind_is_noted(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("TRAINHEAD_SESSION", "quic:somewhere")
    trainhead.report({"loss": 1.0})
    assert "cannot use TRAINHEAD_SESSION=quic:somewhere" in capsys.readouterr().err
