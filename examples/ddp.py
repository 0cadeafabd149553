"""Train a network on handwritten digits with PyTorch's DDP, and go on from a checkpoint.

    trainhead run --workers 2 --max-failures 1 -- python3 examples/ddp.py --fail-at 6
    torchrun --nproc_per_node 2 examples/ddp.py

On CPUs (gloo). In the first line rank 1 kills itself in epoch 6; TrainHead starts both ranks anew,
and they go on with epoch 6 from the checkpoint of epoch 5. The second one is torchrun's own: the
script trains just as well, and records nothing.

Needs ``pip install torch`` (or Debian's python3-torch) and numpy.
"""

from __future__ import annotations

import argparse
import gzip
import os
import signal
import sys
import tempfile
from pathlib import Path

import numpy
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

try:
    import trainhead
except ImportError:  # run from a clone, without `pip install ./python`
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
    import trainhead

DATA = Path(__file__).resolve().parent / "data" / "digits.csv.gz"


def load_samples() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the images and digits to train on, and every fifth of them to test with."""
    with gzip.open(DATA, "rt", encoding="ascii") as file:
        samples = numpy.loadtxt(file, delimiter=",", dtype=numpy.int64)
    is_test = numpy.arange(len(samples)) % 5 == 0
    images = torch.tensor(samples[:, :-1] / 16, dtype=torch.float32)
    digits = torch.tensor(samples[:, -1])
    return images[~is_test], digits[~is_test], images[is_test], digits[is_test]


def train(args: argparse.Namespace) -> None:
    """Train from the start, or from where an earlier attempt was."""
    context = trainhead.get_context()
    rank, world_size = context.rank, context.world_size
    torch.manual_seed(args.seed)
    train_images, train_digits, test_images, test_digits = load_samples()
    model = DistributedDataParallel(
        torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, 10))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    cross_entropy = torch.nn.CrossEntropyLoss()

    epoch = 0
    checkpoint = trainhead.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as directory:
            state = torch.load(Path(directory) / "state.pt")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        epoch = state["epoch"]
    print(f"rank {rank} of {world_size}: begins with epoch {epoch + 1}", flush=True)

    while epoch < args.epochs:
        epoch += 1
        # The same order on all ranks, and for an epoch that is begun anew.
        order = torch.randperm(
            len(train_images), generator=torch.Generator().manual_seed(args.seed + epoch)
        )
        for step, batch in enumerate(order.split(args.batch_size)):
            if context.restart_count == 0 and (rank, epoch, step) == (1, args.fail_at, 3):
                os.kill(os.getpid(), signal.SIGKILL)
            mine = batch[rank::world_size]
            optimizer.zero_grad()
            loss = cross_entropy(model(train_images[mine]), train_digits[mine])
            loss.backward()
            optimizer.step()

        with torch.no_grad():
            said = model(test_images)
            metrics = {
                "train/loss": loss.item(),
                "test/loss": cross_entropy(said, test_digits).item(),
                "test/accuracy": (said.argmax(1) == test_digits).float().mean().item(),
            }
        if rank == 0:
            print(f"epoch {epoch}/{args.epochs}  test {metrics['test/accuracy']:.1%}", flush=True)
        save(rank, epoch, model, optimizer, metrics)

    # All ranks took the same steps, so they hold the same weights.
    weights = torch.cat([p.detach().flatten() for p in model.parameters()])
    greatest = weights.clone()
    dist.all_reduce(greatest, dist.ReduceOp.MAX)
    assert torch.equal(greatest, weights), "the ranks' weights differ"


def save(
    rank: int,
    epoch: int,
    model: DistributedDataParallel,
    optimizer: torch.optim.Optimizer,
    metrics: dict[str, float],
) -> None:
    """Report an epoch: every rank does, and rank 0 hands over the checkpoint of all."""
    if rank != 0:
        trainhead.report(metrics, step=epoch)
        return
    with tempfile.TemporaryDirectory() as directory:
        state = {
            "epoch": epoch,
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
        }
        torch.save(state, Path(directory) / "state.pt")
        checkpoint = trainhead.Checkpoint.from_directory(directory)
        # Returns when the files are moved, so the directory may go.
        trainhead.report(metrics, step=epoch, checkpoint=checkpoint)


def main() -> None:
    """Read the command line, join the other ranks and train."""
    parser = argparse.ArgumentParser(description="Train on handwritten digits with DDP.")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=32, help="of all ranks together")
    parser.add_argument("--lr", type=float, default=0.05, help="learning rate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fail-at", type=int, help="epoch in which rank 1 kills itself, once")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    train(args)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
