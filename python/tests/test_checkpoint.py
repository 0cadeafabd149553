from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import CONTEXT, SessionServer, wait_until

import trainhead
from trainhead import Checkpoint, CheckpointUploadMode, _session

Capture = pytest.CaptureFixture[str]

SAID = {"number": 3, "step": 20, "attempt": 1, "path": "/storage/c3", "metrics": {"loss": "NaN"}}


def sent(server: SessionServer) -> Any:
    return server.reports[-1]["checkpoint"]


def test_a_checkpoint_is_handed_over_by_its_path(
    server: SessionServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model").mkdir()
    checkpoint = Checkpoint.from_directory("model")
    assert (checkpoint.path, checkpoint.number) == (str(tmp_path / "model"), None)
    trainhead.report({"loss": 1.0}, step=4, checkpoint=checkpoint)
    assert server.reports[-1]["step"] == 4
    path = str(tmp_path / "model")
    assert sent(server) == {"path": path, "upload_mode": "sync", "delete_local": False}
    trainhead.report({}, checkpoint="model", checkpoint_upload_mode=CheckpointUploadMode.ASYNC)
    assert sent(server) == {"path": path, "upload_mode": "async", "delete_local": True}
    trainhead.report(
        {},
        checkpoint=tmp_path / "model",
        checkpoint_upload_mode=CheckpointUploadMode.ASYNC,
        delete_local_checkpoint_after_upload=False,
        checkpoint_ranks=[0, 1],
    )
    assert sent(server) == {
        "path": path,
        "upload_mode": "async",
        "delete_local": False,
        "ranks": [0, 1],
    }
    elsewhere = "s3://bucket/model"
    trainhead.report(
        {}, checkpoint=elsewhere, checkpoint_upload_mode=CheckpointUploadMode.NO_UPLOAD
    )
    assert sent(server) == {"path": elsewhere, "upload_mode": "no_upload", "delete_local": False}
    trainhead.report({"loss": 1.0})
    assert "checkpoint" not in server.reports[-1]


def test_what_is_no_directory_is_the_scripts_mistake(server: SessionServer, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "absent"):
        with pytest.raises(NotADirectoryError, match=path.name):
            Checkpoint.from_directory(path)
        with pytest.raises(NotADirectoryError, match=path.name):
            trainhead.report({}, checkpoint=path)
    with pytest.raises(NotADirectoryError, match="s3://"):
        trainhead.report({}, checkpoint="s3://bucket/model")
    with pytest.raises(TypeError, match="CheckpointUploadMode"):
        trainhead.report({}, checkpoint=tmp_path, checkpoint_upload_mode="sync")  # type: ignore[arg-type]
    assert not server.reports


def test_a_checkpoint_that_the_controller_refuses_raises(
    server: SessionServer, tmp_path: Path
) -> None:
    server.answer("/report", 422, {"detail": "it is empty", "field": "checkpoint.path"})
    with pytest.raises(ValueError, match="it is empty"):
        trainhead.report({}, checkpoint=tmp_path)
    server.answer("/report", 422, {"detail": "no", "field": "metrics.loss"})
    trainhead.report({}, checkpoint=tmp_path)


def test_moving_a_checkpoint_may_take_long(
    server: SessionServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    session = _session.current_session()
    assert session is not None
    asked: list[float | None] = []
    ask = session._transport.request

    def request(method: str, target: str, body: bytes, timeout_s: float | None) -> Any:
        asked.append(timeout_s)
        return ask(method, target, body, timeout_s)

    monkeypatch.setattr(session._transport, "request", request)
    session._quiet_until_s = float("inf")  # it was silent before: a report is skipped
    trainhead.report({})
    assert asked == []
    trainhead.report({}, checkpoint=tmp_path)
    session._quiet_until_s = 0.0
    trainhead.report({}, checkpoint=tmp_path, checkpoint_upload_mode=CheckpointUploadMode.ASYNC)
    trainhead.report({})
    assert asked == [None, 60.0, 60.0]


def test_the_latest_checkpoint(server: SessionServer) -> None:
    server.answer("/checkpoint", 200, {"checkpoint": SAID})
    checkpoint = trainhead.get_checkpoint()
    assert checkpoint is not None
    assert (checkpoint.path, checkpoint.number, checkpoint.step) == ("/storage/c3", 3, 20)
    assert str(checkpoint.metrics["loss"]) == "nan"
    with checkpoint.as_directory() as directory:
        assert directory == "/storage/c3"
    assert server.requests[-1].target == "/checkpoint?rank=1"
    server.answer("/checkpoint", 200, {"checkpoint": None})
    assert trainhead.get_checkpoint() is None


@pytest.mark.parametrize(
    ("status", "body"), [(404, {"detail": "no such route"}), (200, {"checkpoint": {"number": "x"}})]
)
def test_a_controller_that_answers_badly_has_no_checkpoint(
    server: SessionServer, capsys: Capture, status: int, body: Any
) -> None:
    server.answer("/checkpoint", status, body)
    server.answer("/checkpoints", status, {"checkpoints": [{}]})
    assert trainhead.get_checkpoint() is None
    assert trainhead.get_all_reported_checkpoints() == []
    assert capsys.readouterr().err.count("trainhead: the controller") == 2


def test_the_contexts_checkpoint_is_fetched_when_it_is_elsewhere(server: SessionServer) -> None:
    server.answer("/context", 200, {**CONTEXT, "checkpoint": {**SAID, "path": None}, "trial": "t1"})
    server.answer("/checkpoint", 200, {"checkpoint": SAID})
    context = trainhead.get_context()
    assert context.trial == "t1"
    assert context.checkpoint is not None
    assert context.checkpoint.path is None
    assert isinstance(hash(context), int)
    with context.checkpoint.as_directory() as directory:
        assert directory == "/storage/c3"
    server.answer("/checkpoint", 200, {"checkpoint": None})
    with pytest.raises(FileNotFoundError), context.checkpoint.as_directory():
        pass


def test_all_reported_checkpoints(server: SessionServer) -> None:
    said = {
        "number": 3,
        "step": 20,
        "attempt": 1,
        "state": "VALIDATED",
        "uri": "/storage/c3",
        "metrics": {"loss": 0.5},
        "size_bytes": 10,
        "num_files": 2,
        "pinned": False,
        "best": True,
        "latest": True,
        "time_ms": 1500,
    }
    server.answer("/checkpoints", 200, {"checkpoints": [said, {**said, "uri": "s3://b/c4"}]})
    here, elsewhere = trainhead.get_all_reported_checkpoints(timeout_s=2.5)
    target = "/checkpoints?rank=1&consistency=validated&timeout_s=2.5"
    assert server.requests[-1].target == target
    assert (here.number, here.state, here.best, here.time) == (3, "VALIDATED", True, 1.5)
    assert here.checkpoint.path == "/storage/c3"
    assert elsewhere.checkpoint.path is None
    trainhead.get_all_reported_checkpoints(consistency="committed")
    assert server.requests[-1].target == "/checkpoints?rank=1&consistency=committed"
    with pytest.raises(ValueError, match="validated"):
        trainhead.get_all_reported_checkpoints(consistency="sometimes")


@pytest.mark.usefixtures("outside")
def test_outside_of_a_session_there_are_no_checkpoints(capsys: Capture, tmp_path: Path) -> None:
    assert trainhead.get_checkpoint() is None
    assert trainhead.get_all_reported_checkpoints() == []
    for _ in range(2):
        trainhead.report({"loss": 1.0}, checkpoint=Checkpoint.from_directory(tmp_path))
    assert (
        capsys.readouterr().err.count("checkpoints are kept in runs of `trainhead run` only") == 1
    )
    with pytest.raises(NotADirectoryError):
        trainhead.report({"loss": 1.0}, checkpoint=tmp_path / "absent")


def test_init_in_a_worker_is_the_sessions_run(server: SessionServer, capsys: Capture) -> None:
    with trainhead.init("another name", config={"lr": 1}) as run:
        assert (run.id, run.name, run.url) == ("0197-run", "mnist", None)
        run.report({"loss": 1.0}, step=1)
        trainhead.report({"loss": 2.0}, step=2)
        run.log({"x": 1.0}, step=3)
        assert run.stop_requested is False
        active = trainhead.active_run()
        assert active is not None
        assert active.id == run.id
    run.finish()
    assert [report["step"] for report in server.reports] == [1, 2]
    server.wait_until(lambda: len(server.points) == 1, "the point arrives")
    server.stop = True
    run.log({"x": 1.0})
    wait_until(lambda: run.stop_requested, "the stop is heard of with what is logged")
    with pytest.raises(trainhead.Stop):
        run.report({"loss": 1.0})
    assert capsys.readouterr().err == ""
