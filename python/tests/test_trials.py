"""Hosting trials: one process, one session after the other."""

from __future__ import annotations

from typing import Any, Callable

import pytest
from conftest import CONTEXT, SessionServer

import trainhead


class Sweep:
    """Answers as the controller of trials does: these one after the other, then leave."""

    def __init__(self, server: SessionServer, *configs: dict[str, Any]) -> None:
        self.asked = 0
        self.configs = configs
        self.ends: list[dict[str, Any]] = []
        self.order: list[str] = []
        self.current = ""
        self._plain = server._usual_answer

        def answer(path: str, body: Any) -> dict[str, object]:
            self.order.append(path)
            if path == "/trial":
                return self._offer()
            if path == "/context":
                return {**CONTEXT, "trial": self.current}
            if path == "/finish":
                self.ends.append(body)
            return self._plain(path, body)

        server._usual_answer = answer  # type: ignore[method-assign]

    def _offer(self) -> dict[str, object]:
        self.asked += 1
        if self.asked % 2 == 1:
            return {"trial": None, "leave": False}  # nothing yet: ask again
        number = self.asked // 2
        if number > len(self.configs):
            return {"trial": None, "leave": True}
        self.current = f"trial-{number}"
        config = self.configs[number - 1]
        return {"trial": {"number": number, "name": self.current, "config": config}, "leave": False}


@pytest.fixture(autouse=True)
def on_demand(outside: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINHEAD_REPORTING", "on_demand")


def test_a_process_runs_one_trial_after_the_other(server: SessionServer) -> None:
    sweep = Sweep(server, {"lr": 1}, {"lr": 2})
    seen: list[tuple[str | None, dict[str, Any]]] = []

    def train(config: dict[str, Any]) -> dict[str, Any]:
        seen.append((trainhead.get_context().trial, config))
        trainhead.report({"loss": 0.5})
        return {"best": config["lr"]}

    trainhead.run_trials(train)
    assert seen == [("trial-1", {"lr": 1}), ("trial-2", {"lr": 2})]
    assert sweep.ends == [
        {"rank": 1, "trial": 1, "value": {"best": 1}},
        {"rank": 1, "trial": 2, "value": {"best": 2}},
    ]


def test_a_stop_ends_the_trial_and_not_the_process(server: SessionServer) -> None:
    sweep = Sweep(server, {}, {})
    calls = 0

    def train(config: dict[str, Any]) -> None:
        nonlocal calls
        calls += 1
        server.stop = calls == 1
        trainhead.report({"loss": 0.5})
        assert calls == 2, "the first one was left"

    trainhead.run_trials(train)
    assert sweep.ends == [{"rank": 1, "trial": 1}, {"rank": 1, "trial": 2, "value": None}]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda: (_ for _ in ()).throw(SystemExit(3)), "SystemExit: 3"),
        (lambda: object(), "TypeError: Object of type object is not JSON serializable"),
    ],
)
def test_an_error_is_told_and_the_next_trial_begins(
    server: SessionServer, wrong: Callable[[], object], message: str
) -> None:
    sweep = Sweep(server, {"bad": True}, {"bad": False})

    def train(config: dict[str, Any]) -> object:
        return wrong() if config["bad"] else None

    trainhead.run_trials(train)
    first, second = sweep.ends
    assert first["error"]["message"] == message
    assert "Traceback" in first["error"]["traceback"] or "Error" in first["error"]["traceback"]
    assert second == {"rank": 1, "trial": 2, "value": None}


def test_what_a_trial_logged_is_delivered_before_it_is_over(server: SessionServer) -> None:
    sweep = Sweep(server, {})

    def train(config: dict[str, Any]) -> None:
        for step in range(100):
            trainhead.log({"loss": 0.5}, step=step)

    trainhead.run_trials(train)
    assert len(server.points) == 100
    assert sweep.order.index("/finish") > max(
        i for i, path in enumerate(sweep.order) if path == "/log"
    )


def test_a_controller_that_is_gone_ends_the_hosting(server: SessionServer) -> None:
    server.die()
    trainhead.run_trials(lambda config: pytest.fail("there is no trial"))


def test_outside_of_a_sweep_the_function_is_called_once(
    server: SessionServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRAINHEAD_REPORTING")
    seen: list[dict[str, Any]] = []

    def train(config: dict[str, Any]) -> int:
        seen.append(config)
        return 7

    trainhead.run_trials(train)
    assert seen == [CONTEXT["config"]]
    ends = [r.body for r in server.requests if r.target == "/finish"]
    assert ends == [{"rank": 1, "value": 7}]


def test_without_a_controller_the_function_is_called_with_nothing(outside: None) -> None:
    seen: list[dict[str, Any]] = []
    trainhead.run_trials(seen.append)
    assert seen == [{}]
