"""The whole API, walked by schemathesis from the committed document."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import REPOSITORY

pytestmark = pytest.mark.e2e

# Every answer is one that the document knows, and what the document forbids is refused.
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_schema_conformance,response_headers_conformance,negative_data_rejection,"
    "missing_required_header,unsupported_method,allow_header_conformance"
)


def post(url: str, body: object, token: str | None = None) -> Any:
    headers = {"content-type": "application/json"}
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


@pytest.fixture
def head(tmp_path: Path) -> Iterator[str]:
    binary = os.environ.get("TRAINHEAD_BIN") or REPOSITORY / "target" / "debug" / "trainhead"
    command = [str(binary), "serve", "--port", "0", "--json", "--data-dir", str(tmp_path / "data")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"]
        process.terminate()
        assert process.wait(30) == 0


def test_no_request_makes_an_answer_that_the_document_does_not_know(
    head: str, tmp_path: Path
) -> None:
    tokens = {}
    for run in ("live", "ended"):
        controller = {"actor_id": "c", "lease_ttl_ms": 3_600_000}
        at = f"{head}/api/train/runs"
        body = {"id": run, "controller": controller, "experiment": "e", "tags": {"k": "v"}}
        token = post(at, body)["controller_token"]
        tokens[run] = token
        post(f"{at}/{run}/attempts", {"attempt_id": "a", "num_workers": 1}, token)
        worker = {"actor_id": "w", "world_rank": 0, "node_id": "n", "node_ip": "127.0.0.1"}
        post(f"{at}/{run}/attempts/a/running", {"workers": [worker]}, token)
        report = {"step": 1, "metrics": {"loss": 0.5, "nan": "NaN"}}
        post(f"{at}/{run}/reports", {"writer": "w", "seq": 1, "reports": [report]}, token)
    post(f"{head}/api/train/runs/ended/end", {"run_status": "FINISHED"}, tokens["ended"])
    walk = subprocess.run(
        [
            str(Path(sys.executable).parent / "schemathesis"),
            "run",
            str(REPOSITORY / "openapi" / "trainhead.json"),
            *("--url", head),
            *("--header", f"Authorization: Bearer {tokens['live']}"),
            *("--phases", "coverage,fuzzing"),
            *("--max-examples", "25"),
            *("--seed", "20261130"),
            *("--checks", CHECKS),
            # It never ends.
            *("--exclude-path", "/api/train/events"),
            *("--request-timeout", "20"),
            "--no-color",
        ],
        cwd=tmp_path,
        env={
            **os.environ,
            "SCHEMATHESIS_HOOKS": "api_walk_hooks",
            "PYTHONPATH": str(Path(__file__).parent),
            "WALK_RUNS": ",".join(tokens),
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert walk.returncode == 0, walk.stdout[-20_000:] + walk.stderr
    # It got past the front door: runs were found and written.
    assert "Tested: " in walk.stdout, walk.stdout
    with urllib.request.urlopen(f"{head}/readyz", timeout=30) as answer:
        assert json.load(answer)["status"] == "ready"
