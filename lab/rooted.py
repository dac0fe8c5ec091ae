"""Runs a program that looks for files at paths which this machine does not have, without making them here.

`python -m lab.rooted FOLDER PATH=SOURCE... -- COMMAND...` becomes the command under a root of its own: everything of
this machine where it is but shared memory, and each source at its path. It needs a mount namespace of its own and the
right to mount; the folder must be empty.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def main(arguments: list[str]) -> None:
    folder, *rest = arguments
    at = rest.index("--")
    root = Path(folder)
    _run("mount", "-t", "tmpfs", "tmpfs", folder)
    placed = dict(each.split("=", 1) for each in rest[:at])
    for entry in Path("/").iterdir():
        if f"/{entry.name}" not in placed:
            _same(entry, root / entry.name)
    for path, source in placed.items():
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        _bind(Path(source), target)
    # What a program shares with others of its kind there would outlive it.
    _run("mount", "-t", "tmpfs", "tmpfs", str(root / "dev" / "shm"))
    os.chroot(root)
    os.chdir("/")
    command = rest[at + 1 :]
    os.execvp(command[0], command)  # noqa: S606 - becoming the program is the purpose; there is no shell in it


def _same(entry: Path, target: Path) -> None:
    if entry.is_symlink():
        target.symlink_to(entry.readlink())
    else:
        _bind(entry, target)


def _bind(source: Path, target: Path) -> None:
    if source.is_dir():
        target.mkdir(exist_ok=True)
    else:
        target.touch()
    _run("mount", "--rbind", str(source), str(target))


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
