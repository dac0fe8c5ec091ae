"""Judges a change of any file of the repository in a copy of its tree, where no module can be given another text.

The copy has what git has or would take, a repository of its own (some tests ask git) and the same .venv.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_SECONDS = 120
_WORDS = ("-q", "-x", "-n", "0", "-p", "no:randomly", "--hypothesis-profile", "core", "--no-header", "--tb=no", "-rs")


def is_killed(root: Path, file: str, source: str, test: str) -> bool:
    """Whether a test is red with this text in a file. It must be green without: a copy may lack what a test needs."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        copy_tree(root, copy)
        code, said = _tested(copy, test)
        if code or " passed" not in said:
            raise RuntimeError(f"{test} is not green in a copy without the change to {file}:\n{said}")
        (copy / file).write_text(source)
        return _tested(copy, test)[0] != 0


def copy_tree(root: Path, copy: Path) -> None:
    for name in filter(None, _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")):
        if os.path.lexists(root / name):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, copy / name, follow_symlinks=False)
    if not os.path.lexists(copy / ".venv"):
        (copy / ".venv").symlink_to(root / ".venv")
    _git(copy, "init", "--quiet")


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True)  # noqa: S603, S607  git, our words
    return done.stdout


def _tested(copy: Path, test: str) -> tuple[int, str]:
    """How pytest ends and what it prints. What takes too long is red."""
    paths = os.pathsep.join([str(copy / "src"), str(copy)])
    words = [sys.executable, "-m", "pytest", *_WORDS, test]
    environment = {**os.environ, "PYTHONPATH": paths}
    try:
        done = subprocess.run(  # noqa: S603  our own words
            words, cwd=copy, env=environment, check=False, capture_output=True, text=True, timeout=_SECONDS
        )
    except subprocess.TimeoutExpired:
        return 1, f"no end within {_SECONDS} s"
    return done.returncode, done.stdout + done.stderr
