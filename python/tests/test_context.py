from __future__ import annotations

import dataclasses

import pytest
from conftest import CONTEXT, SessionServer

import trainhead


def test_the_context_is_the_controllers(server: SessionServer) -> None:
    context = trainhead.get_context()
    assert context == trainhead.Context(
        rank=1,
        world_size=2,
        local_rank=1,
        local_world_size=2,
        node_rank=0,
        attempt=3,
        restart_count=2,
        run_id="0197-run",
        run_name="mnist",
        experiment=None,
        storage_path="/storage/default/0197-run",
        grace_period=30.0,
        config={"lr": 0.1},
    )
    assert server.requests[0].target == "/context?rank=1"


def test_the_controller_is_asked_once(server: SessionServer) -> None:
    assert trainhead.get_context() is trainhead.get_context()
    assert len(server.requests) == 1


def test_a_context_cannot_be_changed_and_can_be_hashed(server: SessionServer) -> None:
    context = trainhead.get_context()
    with pytest.raises(dataclasses.FrozenInstanceError):
        context.rank = 0  # type: ignore[misc]
    assert isinstance(hash(context), int)


@pytest.mark.usefixtures("outside")
def test_outside_of_a_session_a_process_trains_alone() -> None:
    assert trainhead.get_context() == trainhead.Context()


@pytest.mark.usefixtures("outside")
def test_outside_of_a_session_the_ranks_are_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {
        "RANK": 3,
        "WORLD_SIZE": 8,
        "LOCAL_RANK": 1,
        "LOCAL_WORLD_SIZE": 2,
        "GROUP_RANK": 1,
        "TORCHELASTIC_RESTART_COUNT": 5,
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, str(value))
    assert trainhead.get_context() == trainhead.Context(
        rank=3, world_size=8, local_rank=1, local_world_size=2, node_rank=1, restart_count=5
    )


@pytest.mark.usefixtures("outside")
def test_a_rank_that_is_no_integer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "two")
    with pytest.raises(ValueError, match="WORLD_SIZE is 'two'"):
        trainhead.get_context()


@pytest.mark.parametrize(
    "answer", [(500, {}), (200, {}), (200, {**CONTEXT, "world_size": None}), (200, "nonsense")]
)
def test_without_a_usable_answer_the_environment_counts(
    server: SessionServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: tuple[int, object],
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("TRAINHEAD_RUN_ID", "0197-run")
    monkeypatch.setenv("TRAINHEAD_ATTEMPT", "1")
    server.answer("/context", *answer)
    expected = trainhead.Context(rank=1, world_size=2, run_id="0197-run", attempt=1)
    assert trainhead.get_context() == expected
    assert capsys.readouterr().err.count("trainhead:") == 1

    server.answer_as_usual("/context")
    assert trainhead.get_context().run_name == "mnist"
