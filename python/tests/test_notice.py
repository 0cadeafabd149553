from __future__ import annotations

import pytest
from conftest import SessionServer

import trainhead


def test_a_report_brings_the_notice_and_it_stays(server: SessionServer) -> None:
    trainhead.report({"loss": 1.0}, step=1)
    assert trainhead.notice() is None
    server.preemption = {
        "reason": "preemption",
        "deadline_ms": 1_800_000_000_500,
        "checkpoint_at_step": 3,
    }
    trainhead.report({"loss": 1.0}, step=2)
    expected = trainhead.Notice("preemption", 1_800_000_000.5, 3)
    assert trainhead.notice() == expected
    server.preemption = None
    trainhead.report({"loss": 1.0}, step=3)
    assert trainhead.notice() == expected


@pytest.mark.parametrize("said", [{}, {"reason": "resize"}, "soon", 7, []])
def test_a_notice_that_is_not_understood_is_none(server: SessionServer, said: object) -> None:
    server.preemption = said
    trainhead.report({"loss": 1.0}, step=1)
    assert trainhead.notice() is None


def test_heeding_is_said_with_the_question_for_the_context(server: SessionServer) -> None:
    trainhead.heed_notices()
    (request,) = server.requests
    assert request.target == "/context?rank=1&heeds_notices=true"


def test_what_training_returns_is_handed_over(server: SessionServer) -> None:
    trainhead.finish({"accuracy": 0.97, "classes": ["a", "b"]})
    (request,) = server.requests
    assert request.target == "/finish"
    assert request.body == {"rank": 1, "value": {"accuracy": 0.97, "classes": ["a", "b"]}}
    with pytest.raises(TypeError):
        trainhead.finish(object())


@pytest.mark.usefixtures("outside")
def test_outside_of_a_session_nothing_happens() -> None:
    trainhead.heed_notices()
    trainhead.finish(1)
    assert trainhead.notice() is None
