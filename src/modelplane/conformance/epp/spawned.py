"""A picker that the kit starts itself, as a process of its own, so that it can stop it and start it again."""

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from modelplane.api.errors import InputError

_START_S, _STOP_S = 90.0, 40.0
_AGAIN_S = 0.05


class SpawnedPicker:
    """`words` start a picker that serves at `address`; its output goes to a file of the caller."""

    def __init__(
        self,
        words: Sequence[str],
        address: str,
        environment: Mapping[str, str] | None = None,
        output: int | None = None,
    ) -> None:
        self._words = tuple(words)
        host, _, port = address.rpartition(":")
        self._place = (host.strip("[]"), int(port))
        self._environment = environment
        self._output = output
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    async def start(self) -> None:
        try:
            process = await asyncio.create_subprocess_exec(
                *self._words,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
            )
        except OSError as error:
            raise InputError(f"{self._words[0]}: {error.strerror}") from error
        self._process = process
        async with asyncio.timeout(_START_S):
            while not await self._is_open():
                if process.returncode is not None:
                    raise InputError(f"{self._words[0]} ended with {process.returncode} before it served")
                await asyncio.sleep(_AGAIN_S)

    async def _is_open(self) -> bool:
        try:
            _, writer = await asyncio.open_connection(*self._place)
        except OSError:
            return False
        writer.close()
        return True

    async def stop(self) -> None:
        """One that does not end by itself is killed."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(_STOP_S):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["SpawnedPicker"]:
        try:
            await self.start()
            yield self
        finally:
            await self.stop()
