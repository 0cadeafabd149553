"""The way from a script to a head, part by part."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Callable

import pytest
from conftest import wait_until

from trainhead import _pulse, _writer
from trainhead._host import new_id
from trainhead._outbox import Outbox
from trainhead._queue import Point, Queue, batches, word
from trainhead._registration import registration
from trainhead._spool import Spool, SpoolInUseError

pytestmark = pytest.mark.usefixtures("outside")

Capture = pytest.CaptureFixture[str]
Reply = Callable[[str, Any], "tuple[int, Any]"]


class FakeHead:
    """Answers as a test wants; by default as a head does that takes everything."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Any]] = []  # path and body, but heartbeats
        self.reply: Reply = lambda path, body: (200, {})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        serve = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        serve.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def words(self) -> list[str]:
        return [path.rpartition("/")[2] for path, _ in self.heard]

    def steps(self) -> list[int]:
        steps: list[int] = []
        for path, body in self.heard:
            if path.endswith("/reports"):
                steps += (body.get("columns") or {"step": []})["step"]
                steps += [row["step"] for row in body.get("reports", ())]
        return steps

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        head = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                path = self.path.removeprefix("/api/train/")
                status, answer = head.reply(path, body)
                if status == 200 and path == "heartbeats":
                    answer = answer or {"runs": [{"stop_requested": False}]}
                elif status == 200:
                    head.heard.append((path, body))
                    if path == "runs":
                        answer = {"controller_token": "t", "name": "named", "num_attempts": 0}
                text = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        return Handler


@pytest.fixture
def head() -> Iterator[FakeHead]:
    head = FakeHead()
    yield head
    head.close()


@pytest.fixture
def outbox(head: FakeHead, tmp_path: Path) -> Iterator[Outbox]:
    outbox = Outbox(registration("r", id="run"), head=head.url, data_dir=tmp_path)
    yield outbox
    outbox.close(0.0)


def problem(status: int, slug: str) -> tuple[int, dict[str, str]]:
    return status, {"type": f"/problems/{slug}", "detail": "no"}


def test_the_order_of_words_and_points_is_kept(head: FakeHead, outbox: Outbox) -> None:
    outbox.begin_attempt({"attempt_id": "a", "num_workers": 1})
    outbox.report(0, 0, 1, 1, {"loss": 1.0})
    outbox.say("end_attempt", ["a", {"status": "FINISHED"}])
    outbox.report(0, 0, 2, 1, {"loss": 1.0})
    outbox.report(0, 1, 2, 1, {"loss": 1.0})
    outbox.say("end", {"run_status": "FINISHED"})
    assert outbox.close(10)
    assert head.words() == ["runs", "attempts", "reports", "end", "reports", "reports", "end"]
    assert head.heard[1] == ("runs/run/attempts", {"attempt_id": "a", "num_workers": 1})
    assert [body["seq"] for path, body in head.heard if path.endswith("reports")] == [1, 2, 3]
    assert not outbox.spool_dir.exists()
    assert outbox.name == "named"


def test_what_a_head_refuses_for_good_is_dropped_and_said_once(
    head: FakeHead, outbox: Outbox, capsys: Capture
) -> None:
    refused = {2, 3}

    def reply(path: str, body: Any) -> tuple[int, Any]:
        return problem(422, "invalid") if body.get("seq") in refused else (200, {})

    head.reply = reply
    for step in range(5):
        outbox.report(0, 0, step, 1, {"loss": 1.0})
        outbox.say("set_state", {"state": "RUNNING"})  # so that each is a message of its own
    assert outbox.close(10)
    assert head.steps() == [0, 3, 4]
    assert capsys.readouterr().err.count("did not take metrics: 422, no") == 1


def test_a_run_that_a_head_does_not_record_is_said_and_holds_nothing_up(
    head: FakeHead, tmp_path: Path, capsys: Capture
) -> None:
    head.reply = lambda path, body: problem(422, "invalid")
    outbox = Outbox(registration(), head=head.url, data_dir=tmp_path)
    for step in range(100_000):
        outbox.report(0, 0, step, 1, {"loss": 1.0})
    assert outbox.close(10)
    assert head.heard == []
    assert not list((tmp_path / "spool").iterdir())
    assert capsys.readouterr().err.count("the run is not recorded: 422, no") == 1


@pytest.mark.parametrize("slug", ["run-exists", "run-ended"])
def test_a_run_of_another_controller_is_joined(
    head: FakeHead, tmp_path: Path, capsys: Capture, slug: str
) -> None:
    head.reply = lambda path, body: (
        problem(409, slug) if path == "runs" and not body.get("join") else (200, {})
    )
    outbox = Outbox(registration(), head=head.url, data_dir=tmp_path)
    outbox.say("set_state", {"state": "RUNNING"})
    outbox.report(0, 0, 1, 1, {"loss": 1.0})
    outbox.say("end", {"run_status": "FINISHED"})
    assert outbox.close(10)
    assert head.words() == ["runs", "reports"]
    assert "metrics are added to it" in capsys.readouterr().err


def test_metrics_are_taken_after_another_controller_has_ended_the_run(
    head: FakeHead, outbox: Outbox
) -> None:
    joined: list[bool] = []

    def reply(path: str, body: Any) -> tuple[int, Any]:
        if path == "runs" and body.get("join"):
            joined.append(True)
        elif not joined and (path.endswith("reports") or (path == "runs" and head.heard)):
            return problem(409, "run-ended")
        return 200, {}

    head.reply = reply
    assert outbox.wait_registered(10)
    outbox.report(0, 0, 1, 1, {"loss": 1.0})
    outbox.say("end", {"run_status": "FINISHED"})
    assert outbox.close(10)
    assert (head.steps(), head.words()[-1]) == ([1], "reports")


def test_what_is_no_head_is_waited_for(head: FakeHead, tmp_path: Path, capsys: Capture) -> None:
    asked: list[str] = []

    def reply(path: str, body: Any) -> tuple[int, Any]:
        asked.append(path)
        return (404, {"error": "another program"}) if len(asked) < 3 else (200, {})

    head.reply = reply
    outbox = Outbox(registration(), head=head.url, data_dir=tmp_path)
    outbox.report(0, 0, 1, 1, {"loss": 1.0})
    wait_until(lambda: head.steps() == [1], "it is taken")
    assert outbox.close(10)
    assert "what answers is no head (404)" in capsys.readouterr().err


def test_a_stop_comes_with_a_heartbeat(
    head: FakeHead, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_pulse, "BEATS", 1000)
    said = {"stop_requested": True, "stop_reason": "wrong data", "grace_period_ms": 1500}
    head.reply = lambda path, body: (200, {"runs": [said]} if path == "heartbeats" else {})
    outbox = Outbox(registration(), head=head.url, data_dir=tmp_path)
    wait_until(lambda: outbox.stop is not None, "it is heard of")
    assert outbox.stop == ("wrong data", 1.5)
    outbox.close(10)


def test_a_full_spool_drops_points_counts_them_and_keeps_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, head: FakeHead
) -> None:
    monkeypatch.setattr(_writer, "MAX_BYTES", 20_000)
    head.reply = lambda path, body: (503, {})
    outbox = Outbox(registration(), head=head.url, data_dir=tmp_path)
    for step in range(50_000):
        outbox.report(0, 0, step, 1, {"loss": 1.0})
    outbox.say("end", {"run_status": "FINISHED"})
    wait_until(lambda: outbox.dropped_points > 0, "the spool is full")
    head.reply = lambda path, body: (200, {})
    assert outbox.close(30)
    steps = head.steps()
    assert len(steps) + outbox.dropped_points == 50_000
    assert steps == sorted(steps)
    assert head.words()[-1] == "end"
    assert capsys.readouterr().err.count("metrics are dropped") == 1


def test_without_a_disk_some_of_it_is_kept_in_memory(
    tmp_path: Path, head: FakeHead, capsys: Capture
) -> None:
    (tmp_path / "spool").write_text("in the way")
    head.reply = lambda path, body: (503, {})
    outbox = Outbox(registration(), head=head.url, data_dir=tmp_path)
    for step in range(10_000):
        outbox.report(0, 0, step, 1, {"loss": 1.0})
    outbox.say("end", {"run_status": "FINISHED"})
    head.reply = lambda path, body: (200, {})
    assert outbox.close(30)
    assert head.steps() == list(range(10_000))
    assert head.words()[-1] == "end"
    assert capsys.readouterr().err.count("kept in memory only") == 1


def test_points_become_columns_if_their_keys_are_the_same_and_rows_otherwise() -> None:
    points = [Point(0, rank, step, 5, {"a": step}) for step in range(2) for rank in range(2)]
    one, other = batches(points)
    columns = {"step": [0, 1], "time_ms": [5, 5], "metrics": {"a": [0, 1]}}
    assert one == {"attempt": 0, "rank": 0, "columns": columns}
    assert other == {"attempt": 0, "rank": 1, "columns": columns}
    (mixed,) = batches([Point(1, 0, 0, 5, {"a": 1}), Point(1, 0, 1, 6, {"b": 2})])
    assert mixed["reports"] == [
        {"step": 0, "time_ms": 5, "metrics": {"a": 1}},
        {"step": 1, "time_ms": 6, "metrics": {"b": 2}},
    ]


def test_the_queue_gives_a_word_alone_and_points_in_bounds() -> None:
    queue = Queue()
    for step in range(1_500):
        queue.put(Point(0, 0, step, 0, {"a": 1}))
    queue.put(word("say", 1))
    queue.put(Point(0, 0, 0, 0, {str(key): 1 for key in range(10_000)}))
    queue.put(Point(0, 0, 1, 0, {"a": 1}))
    assert [len(queue.take()) for _ in range(6)] == [1000, 500, 1, 1, 1, 0]
    assert (queue.values, len(queue)) == (0, 0)


def test_segments_are_read_in_order_and_removed_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainhead._spool.SEGMENT_BYTES", 100)
    spool = Spool(tmp_path / "s")
    spool.create({"run_id": "r"})
    lines = [f"line {i}".encode() for i in range(100)]
    for line in lines[:50]:
        spool.append(line)
    read = []
    for _ in range(40):
        read.append(spool.read())
        assert spool.read() == read[-1], "the same until it is done with"
        spool.advance()
    for line in lines[50:]:
        spool.append(line)
    files = len(list(spool.directory.glob("*.jsonl")))
    while (rest := spool.read()) is not None:
        read.append(rest)
        spool.advance()
    assert read == lines
    assert len(list(spool.directory.glob("*.jsonl"))) == 1 < files
    assert 0 < spool.size_bytes <= 110
    with pytest.raises(SpoolInUseError):
        Spool(tmp_path / "s").open()
    assert (spool.directory / "spool.json").stat().st_mode & 0o777 == 0o600
    assert spool.directory.stat().st_mode & 0o777 == 0o700
    spool.close()
    again = Spool(tmp_path / "s")
    assert again.open()["run_id"] == "r"
    assert again.read() is not None, "of a segment that was not finished all comes again"
    again.remove()
    assert not (tmp_path / "s").exists()


def test_ids_sort_by_time_and_are_uuids() -> None:
    ids = [new_id() for _ in range(3)]
    assert all(len(id) == 36 and id[14] == "7" and id[19] in "89ab" for id in ids)


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"name": ""}, ValueError, "name"),
        ({"name": 3}, TypeError, "name"),
        ({"experiment": "a\nb"}, ValueError, "experiment"),
        ({"id": "../x"}, ValueError, "id"),
        ({"tags": ["a"]}, TypeError, "tags"),
        ({"config": 3}, TypeError, "config"),
    ],
)
def test_a_wrong_argument_is_named(arguments: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        registration(**arguments)
