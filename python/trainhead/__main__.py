"""`python -m trainhead`: what there is to do where the `trainhead` command is not at hand."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ._sync import PATIENCE_S, sync


def main(arguments: list[str] | None = None) -> int:
    """Do what the command line says; return an exit code."""
    parser = argparse.ArgumentParser("python -m trainhead", description="The client of TrainHead.")
    commands = parser.add_subparsers(dest="command", required=True)
    what = "deliver to the head what waits on disk, of runs whose processes have ended"
    command = commands.add_parser(
        "sync",
        help=what,
        description=f"{what}. In any order, and twice, without harm.",
    )
    command.add_argument(
        "directory", nargs="*", type=Path, help="a spool; all of the data directory without it"
    )
    command.add_argument("--head", help="the head's address, in place of the one that it was for")
    command.add_argument("--data-dir", type=Path, help="the data directory")
    command.add_argument(
        "--patience",
        type=float,
        default=PATIENCE_S,
        metavar="SECONDS",
        help="give up on a head that takes nothing for so long (default %(default)s)",
    )
    given = parser.parse_args(arguments)
    return sync(
        given.directory, head=given.head, data_dir=given.data_dir, patience_s=given.patience
    )


if __name__ == "__main__":
    sys.exit(main())
