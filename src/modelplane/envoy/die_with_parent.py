"""Run a program that ends when its parent does.

Started as a script between the plane and the program: `die_with_parent.py PARENT_PID PROGRAM ARGUMENT...`. It requests
the kernel (Linux: PR_SET_PDEATHSIG) to kill this process when the parent dies, and then executes the program, which
keeps the setting. The same call between fork and exec inside the plane would run Python code in a forked copy of a
process with threads, which may deadlock.

The kernel watches the thread that started the process: the plane starts Envoy from the thread of its event loop, which
lives as long as the plane. On other systems than Linux this only runs the program.

No import outside the standard library: it runs without site-packages to start in a few milliseconds.
"""

import ctypes
import os
import resource
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PARENT_GONE = 1


def die_with(parent: int) -> None:
    """End with `parent`, also if it ended before this call."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(_PARENT_GONE)


def lift_file_limit() -> None:
    """Allow as many open files as the system lets us: each request through two gateways holds four, each engine one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def main(arguments: list[str]) -> None:
    parent, program, *rest = arguments
    die_with(int(parent))
    lift_file_limit()
    os.execv(program, [program, *rest])  # noqa: S606  becoming the program is the purpose; there is no shell in it


if __name__ == "__main__":
    main(sys.argv[1:])
