"""Train a small neural network on handwritten digits, on one process or on several.

    python3 examples/digits.py                                        # alone
    trainhead run --workers 2 -- python3 examples/digits.py           # two workers, recorded

Every few epochs the weights are a checkpoint, from which a later attempt of the run goes on: try
``trainhead run --workers 2 --max-failures 1`` and kill one of the workers.

Each worker computes the gradients of its part of every batch; the workers then add them up over
TCP (an all-reduce), so all of them take the same step and hold the same weights all the time.
Needs nothing but Python. With numpy installed it is several times as quick; the results are the
same, but for rounding.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import os
import random
import socket
import struct
import sys
import tempfile
import time
import zlib
from array import array
from collections.abc import Sequence
from operator import mul
from pathlib import Path

try:
    import trainhead
except ImportError:  # run from a clone, without `pip install ./python`
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
    import trainhead

PIXELS = 64
HIDDEN = 32
CLASSES = 10

# All weights in one flat vector, so that an all-reduce and a checksum are one call each:
# the hidden layer's rows and biases, then the output layer's rows and biases.
HIDDEN_BIASES = HIDDEN * PIXELS
OUTPUT_ROWS = HIDDEN_BIASES + HIDDEN
OUTPUT_BIASES = OUTPUT_ROWS + CLASSES * HIDDEN
NUM_WEIGHTS = OUTPUT_BIASES + CLASSES

# How long workers wait for each other, at the start and at every step.
PEER_TIMEOUT_S = 60.0

Sample = tuple[list[float], int]  # the pixels, each from 0 to 1, and the digit


class Network:
    """64 pixels, 32 tanh units, 10 classes by softmax, in plain Python."""

    def sums(self, weights: array[float], samples: Sequence[Sample]) -> array[float]:
        """Return, summed over the samples, the gradients, then the loss and the correct answers."""
        rows, biases, output_rows, output_biases = _layers(weights)
        row_sums = [[0.0] * PIXELS for _ in rows]
        bias_sums = [0.0] * HIDDEN
        output_row_sums = [[0.0] * HIDDEN for _ in output_rows]
        output_bias_sums = [0.0] * CLASSES
        loss = 0.0
        correct = 0
        for pixels, digit in samples:
            hidden = [math.tanh(b + _dot(row, pixels)) for row, b in zip(rows, biases)]
            scores = [b + _dot(row, hidden) for row, b in zip(output_rows, output_biases)]
            highest = max(scores)
            exps = [math.exp(score - highest) for score in scores]
            total = sum(exps)
            loss += math.log(total) - (scores[digit] - highest)
            correct += scores[digit] == highest

            errors = [e / total for e in exps]
            errors[digit] -= 1.0
            hidden_errors = [0.0] * HIDDEN
            for k, error in enumerate(errors):
                output_bias_sums[k] += error
                output_row_sums[k] = _add_scaled(output_row_sums[k], error, hidden)
                hidden_errors = _add_scaled(hidden_errors, error, output_rows[k])
            for j, output in enumerate(hidden):
                error = hidden_errors[j] * (1.0 - output * output)
                bias_sums[j] += error
                row_sums[j] = _add_scaled(row_sums[j], error, pixels)

        sums = array("d")
        for row in row_sums:
            sums.extend(row)
        sums.extend(bias_sums)
        for row in output_row_sums:
            sums.extend(row)
        sums.extend(output_bias_sums)
        sums.extend((loss, correct))
        return sums


class NumpyNetwork(Network):
    """The same with numpy, a whole batch at a time."""

    def __init__(self) -> None:
        import numpy

        self._np = numpy

    def sums(self, weights: array[float], samples: Sequence[Sample]) -> array[float]:
        """As in `Network`."""
        np = self._np
        flat = np.frombuffer(weights)
        rows = flat[:HIDDEN_BIASES].reshape(HIDDEN, PIXELS)
        output_rows = flat[OUTPUT_ROWS:OUTPUT_BIASES].reshape(CLASSES, HIDDEN)
        pixels = np.array([pixels for pixels, _ in samples]).reshape(len(samples), PIXELS)
        digits = np.array([digit for _, digit in samples], dtype=int)
        each = np.arange(len(samples))

        hidden = np.tanh(pixels @ rows.T + flat[HIDDEN_BIASES:OUTPUT_ROWS])
        scores = hidden @ output_rows.T + flat[OUTPUT_BIASES:]
        highest = scores.max(axis=1, keepdims=True)
        exps = np.exp(scores - highest)
        totals = exps.sum(axis=1, keepdims=True)
        rights = scores[each, digits]
        loss = np.log(totals).sum() - (rights - highest[:, 0]).sum()
        correct = (rights == highest[:, 0]).sum()

        errors = exps / totals
        errors[each, digits] -= 1.0
        hidden_errors = (errors @ output_rows) * (1.0 - hidden * hidden)
        parts = (
            hidden_errors.T @ pixels,
            hidden_errors.sum(axis=0),
            errors.T @ hidden,
            errors.sum(axis=0),
            loss,
            correct,
        )
        return array("d", np.concatenate([np.ravel(part) for part in parts]).tobytes())


def _layers(
    weights: array[float],
) -> tuple[list[list[float]], list[float], list[list[float]], list[float]]:
    flat = weights.tolist()
    rows = [flat[i : i + PIXELS] for i in range(0, HIDDEN_BIASES, PIXELS)]
    output_rows = [flat[i : i + HIDDEN] for i in range(OUTPUT_ROWS, OUTPUT_BIASES, HIDDEN)]
    return rows, flat[HIDDEN_BIASES:OUTPUT_ROWS], output_rows, flat[OUTPUT_BIASES:]


def _dot(a: list[float], b: list[float]) -> float:
    total: float = sum(map(mul, a, b))
    return total


def _add_scaled(a: list[float], factor: float, b: list[float]) -> list[float]:
    return [x + factor * y for x, y in zip(a, b)]


class PeerGoneError(RuntimeError):
    """Another worker of the group has left in the middle of the training."""

    def __init__(self, rank: int, reason: object) -> None:
        super().__init__(f"peer gone: rank {rank}: {reason}")


class Group:
    """The workers, joined by TCP in a star: rank 0 in the middle adds up and hands back."""

    def __init__(self, rank: int, world_size: int) -> None:
        self._rank = rank
        self._peers: dict[int, socket.socket] = {}  # by rank; for all but rank 0, only rank 0
        if world_size == 1:
            return
        address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        if rank == 0:
            self._accept(address, world_size)
        else:
            self._peers[0] = self._connect(address)
            self._send(0, struct.pack("!I", rank))
        for peer in self._peers.values():
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def all_reduce(self, values: array[float]) -> array[float]:
        """Return the element-wise sum of all workers' values: on each the same, bit by bit."""
        if self._rank == 0:
            for rank in sorted(self._peers):  # always in this order: float sums depend on it
                theirs = array("d", self._receive(rank, len(values) * values.itemsize))
                values = array("d", [a + b for a, b in zip(values, theirs)])
            for rank in self._peers:
                self._send(rank, values.tobytes())
        elif self._peers:
            self._send(0, values.tobytes())
            values = array("d", self._receive(0, len(values) * values.itemsize))
        return values

    def _accept(self, address: tuple[str, int], world_size: int) -> None:
        with socket.create_server(address) as server:
            server.settimeout(PEER_TIMEOUT_S)
            while len(self._peers) < world_size - 1:
                try:
                    peer, _ = server.accept()
                except socket.timeout:
                    missing = set(range(1, world_size)) - set(self._peers)
                    raise PeerGoneError(min(missing), "it never joined") from None
                peer.settimeout(PEER_TIMEOUT_S)
                (rank,) = struct.unpack("!I", _receive_exactly(peer, 4))
                self._peers[rank] = peer

    def _connect(self, address: tuple[str, int]) -> socket.socket:
        deadline = time.monotonic() + PEER_TIMEOUT_S
        while True:
            try:
                return socket.create_connection(address, timeout=PEER_TIMEOUT_S)
            except OSError as error:
                if time.monotonic() > deadline:
                    raise PeerGoneError(0, error) from error
                time.sleep(0.05)  # rank 0 may not listen yet

    def _send(self, rank: int, data: bytes) -> None:
        try:
            self._peers[rank].sendall(data)
        except OSError as error:
            raise PeerGoneError(rank, error) from error

    def _receive(self, rank: int, size_bytes: int) -> bytes:
        try:
            return _receive_exactly(self._peers[rank], size_bytes)
        except OSError as error:
            raise PeerGoneError(rank, error) from error


def _receive_exactly(peer: socket.socket, size_bytes: int) -> bytes:
    data = bytearray()
    while len(data) < size_bytes:
        part = peer.recv(size_bytes - len(data))
        if not part:
            raise ConnectionError("it closed the connection")
        data += part
    return bytes(data)


def load_samples() -> tuple[list[Sample], list[Sample]]:
    """Return the samples to train on, and every fifth one to test with."""
    train: list[Sample] = []
    test: list[Sample] = []
    path = Path(__file__).resolve().parent / "data" / "digits.csv.gz"
    with gzip.open(path, "rt", encoding="ascii") as file:
        for number, line in enumerate(file):
            *pixels, digit = map(int, line.split(","))
            part = test if number % 5 == 0 else train
            part.append(([pixel / 16 for pixel in pixels], digit))
    return train, test


def initial_weights(seed: int) -> array[float]:
    """Return random weights, the same on every worker for the same seed."""
    generator = random.Random(seed)
    weights = array("d", bytes(8 * NUM_WEIGHTS))
    for i in range(HIDDEN_BIASES):
        weights[i] = generator.gauss(0.0, 1 / math.sqrt(PIXELS))
    for i in range(OUTPUT_ROWS, OUTPUT_BIASES):
        weights[i] = generator.gauss(0.0, 1 / math.sqrt(HIDDEN))
    return weights


def make_network() -> Network:
    """Return the quickest network that this Python can run."""
    try:
        return NumpyNetwork()
    except ImportError:
        return Network()


def train(args: argparse.Namespace) -> None:
    """Train, and leave the weights at `args.out`."""
    context = trainhead.get_context()
    rank, world_size = context.rank, context.world_size
    group = Group(rank, world_size)
    network = make_network()
    train_samples, test_samples = load_samples()
    print(
        f"rank {rank} of {world_size}: {len(train_samples)} images to train on, "
        f"{len(test_samples)} to test with, {type(network).__name__}",
        flush=True,
    )

    weights = initial_weights(args.seed)
    shuffler = random.Random(args.seed)  # the same order on every worker
    step = done = 0
    checkpoint = trainhead.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as directory:
            saved = json.loads((Path(directory) / "digits.json").read_text(encoding="ascii"))
        weights, done, step = array("d", saved["weights"]), saved["epoch"], saved["step"]
        for _ in range(done):
            shuffler.shuffle(train_samples)
        print(f"rank {rank}: goes on after epoch {done}", flush=True)
    for epoch in range(done + 1, args.epochs + 1):
        started_s = time.monotonic()
        shuffler.shuffle(train_samples)
        train_loss = train_correct = 0.0
        for start in range(0, len(train_samples), args.batch_size):
            batch = train_samples[start : start + args.batch_size]
            mine = batch[rank::world_size]
            step += 1
            sums = network.sums(weights, mine)
            if mine:
                trainhead.log({"batch/loss": sums[-2] / len(mine)}, step=step)
            sums = group.all_reduce(sums)
            rate = args.lr / len(batch)
            weights = array("d", [w - rate * g for w, g in zip(weights, sums)])
            train_loss += sums[-2]
            train_correct += sums[-1]

        test_sums = group.all_reduce(network.sums(weights, test_samples[rank::world_size]))
        loss, accuracy = train_loss / len(train_samples), train_correct / len(train_samples)
        test_loss, test_accuracy = (total / len(test_samples) for total in test_sums[-2:])
        print(
            f"epoch {epoch:3}/{args.epochs}  loss {loss:.4f}  train {accuracy:.1%}  "
            f"test {test_accuracy:.1%}  ({time.monotonic() - started_s:.2f} s)",
            flush=True,
        )
        metrics = {
            "epoch": epoch,
            "train": {"loss": loss, "accuracy": accuracy},
            "test": {"loss": test_loss, "accuracy": test_accuracy},
        }
        if rank == 0 and epoch % args.checkpoint_every == 0:
            # All workers hold the same weights: one of them is enough.
            with tempfile.TemporaryDirectory() as directory:
                save_weights(weights, Path(directory) / "digits.json", epoch, step)
                trainhead.report(metrics, step=step, checkpoint=directory)
        else:
            trainhead.report(metrics, step=step)

    # A checksum has 32 bits: the sum of those of all workers is exact as a float.
    checksum = zlib.crc32(weights.tobytes())
    (total,) = group.all_reduce(array("d", [checksum]))
    assert total == checksum * world_size, "the workers' weights differ"
    print(f"rank {rank}: weights {checksum:08x}, the same on all {world_size} workers", flush=True)
    if rank == 0:
        path = args.out or Path(context.storage_path or ".") / "digits.json"
        save_weights(weights, path, args.epochs, step)
        print(f"saved {path}", flush=True)


def save_weights(weights: array[float], path: Path, epoch: int, step: int) -> None:
    """Write the weights as JSON, all of the file or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".tmp")
    layers = [PIXELS, HIDDEN, CLASSES]
    content = {"layers": layers, "epoch": epoch, "step": step, "weights": weights.tolist()}
    unfinished.write_text(json.dumps(content), encoding="ascii")
    unfinished.replace(path)


def main() -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser(description="Train a network on handwritten digits.")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=32, help="of all workers together")
    parser.add_argument("--lr", type=float, default=0.2, help="learning rate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint-every", type=int, default=5, help="so many epochs")
    parser.add_argument(
        "--out", type=Path, help="file for the weights (default: digits.json in the run's storage)"
    )
    train(parser.parse_args())


if __name__ == "__main__":
    main()
