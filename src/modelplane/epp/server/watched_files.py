"""Files that are read again while the picker runs: its configuration and its certificate."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import msgspec

from modelplane.api.errors import InputError
from modelplane.epp.transport.tls import ServerIdentity, read_identity
from modelplane.reconcile.log_lines import because
from modelplane.reconcile.log_reasons import LogReason

_LOG = logging.getLogger(__name__)


async def watch_config(path: Path, known: bytes, every_s: float, on_text: Callable[[bytes], None]) -> None:
    """Calls `on_text` with each text that differs from the one before."""
    while True:
        await asyncio.sleep(every_s)
        text = text_of(path)
        if text and text != known:
            known = text
            on_text(text)


async def watch_identity(
    folder: Path, identity: ServerIdentity, every_s: float, on_identity: Callable[[ServerIdentity], None]
) -> None:
    """Calls `on_identity` with each certificate that differs from the one before."""
    while True:
        await asyncio.sleep(every_s)
        try:
            found = read_identity(folder)
            found = msgspec.structs.replace(identity, certificate=found.certificate, key=found.key)
            if found != identity:
                on_identity(found)
                _LOG.info("reloaded the certificate from %s", folder, extra=because(LogReason.CERTIFICATE_RELOADED))
        except InputError as error:
            _LOG.error("kept the previous certificate: %s", error, extra=because(LogReason.CERTIFICATE_INVALID))
        else:
            identity = found


def text_of(path: Path | None) -> bytes:
    """A file that is being replaced may be missing for a moment: nothing."""
    if path is None:
        return b""
    try:
        return path.read_bytes()
    except OSError:
        return b""
