"""Fetches files: parts in parallel, in order, with retries; checksums follow beside them."""

import errno
import random
import threading
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from modelplane.hydrate.artifact import ArtifactFile, FileStream, Origin
from modelplane.hydrate.errors import HydrateError, OutOfSpaceError, SourceChangedError, TryAgainError
from modelplane.hydrate.progress import HydrationProgress
from modelplane.hydrate.settings import FetchSettings, RetryPolicy, Stop
from modelplane.hydrate.staged import DigestError, FileRecord, StagedFile, read_record

_OPEN_FILES = 32
"""Files that are open at once: small files are ahead of their checksums by that many."""
_OUT_OF_SPACE = (errno.ENOSPC, errno.EDQUOT)


class Fetcher:
    """Fetches each content once into a folder, and gives the record of each by its content id."""

    def __init__(
        self, origin: Origin, folder: Path, settings: FetchSettings, progress: HydrationProgress, stop: Stop
    ) -> None:
        self._origin = origin
        self._folder = folder
        self._settings = settings
        self._progress = progress
        self._stop = stop
        self._queue = PartQueue()
        self._open = threading.Semaphore(_OPEN_FILES)
        self._records: dict[str, FileRecord] = {}
        self._failure: BaseException | None = None

    def fetch(self, files: Iterable[ArtifactFile]) -> dict[str, FileRecord]:
        wanted = {file.content_id: file for file in files}
        missing = [file for file in wanted.values() if not self._have(file)]
        workers = self._settings.connections
        with (
            ThreadPoolExecutor(workers, "fetch") as fetching,
            ThreadPoolExecutor(self._settings.hash_threads, "hash") as hashing,
        ):
            futures = [fetching.submit(self._guard, self._work) for _ in range(workers)]
            try:
                self._feed(missing, hashing)
            finally:
                self._queue.close()
                _await(futures)
        if self._failure is not None:
            raise self._failure
        return self._records

    def _have(self, file: ArtifactFile) -> bool:
        data = self._folder / f"{file.content_id}.data"
        record = read_record(data.with_suffix(".json"), data)
        if record is None:
            return False
        self._records[file.content_id] = record
        self._progress.have(record.size)
        self._progress.file_done()
        return True

    def _feed(self, files: Iterable[ArtifactFile], hashing: ThreadPoolExecutor) -> None:
        """Opens files in order, a few ahead, and waits for all."""
        done: list[Future[None]] = []
        try:
            for file in files:
                while not self._open.acquire(timeout=0.2):
                    self._check()
                self._check()
                staged = self._opened(file)
                self._queue.add(staged)
                done.append(hashing.submit(self._guard, self._complete, staged))
            _await(done)
        except BaseException as error:  # noqa: BLE001  the workers end first; then `fetch` raises it
            self._fail(error)
        _await(done)

    def _opened(self, file: ArtifactFile) -> StagedFile:
        size = file.size or 0
        try:
            staged = StagedFile(self._folder, file, size=size, part_bytes=self._settings.part_bytes_of(size))
        except OSError as error:
            raise _as_hydrate_error(error) from error
        self._progress.have(staged.state.done_bytes)
        return staged

    def _complete(self, staged: StagedFile) -> None:
        """Checks a file. A wrong digest may be a damaged transfer: the file is fetched once more."""
        try:
            record = self._checked(staged)
        except DigestError:
            self._progress.have(-staged.state.done_bytes)
            staged.reset()
            self._queue.add(staged)
            record = self._checked(staged)
        self._records[staged.file.content_id] = record
        self._progress.file_done()
        self._open.release()

    def _checked(self, staged: StagedFile) -> FileRecord:
        if self._settings.verify:
            return staged.finish(staged.follow(self._check, self._settings.sync_bytes))
        staged.await_whole(self._check)
        return staged.finish("")

    def _work(self) -> None:
        """One connection."""
        block = memoryview(bytearray(self._settings.block_bytes))
        while (taken := self._queue.take()) is not None:
            self._part(*taken, block)

    def _part(self, staged: StagedFile, part: int, block: memoryview) -> None:
        failures = FailureCount(self._settings.retry)
        start, stop = staged.state.bounds(part)
        while (before := staged.state.counts[part]) < stop - start:
            self._check()
            try:
                self._read(staged, part, block)
            except SourceChangedError:
                raise
            except TryAgainError as error:
                self._stop.wait(failures.delay_s(error, moved=staged.state.counts[part] > before))

    def _read(self, staged: StagedFile, part: int, block: memoryview) -> None:
        start, stop = staged.state.bounds(part)
        done = staged.state.counts[part]
        body = self._origin.open(staged.file, start + done, stop)
        try:
            self._copy(staged, part, body, block)
        finally:
            body.close()

    def _copy(self, staged: StagedFile, part: int, body: FileStream, block: memoryview) -> None:
        start, stop = staged.state.bounds(part)
        done = staged.state.counts[part]
        while done < stop - start:
            count = body.readinto(block[: min(len(block), stop - start - done)])
            if not count:
                raise TryAgainError(f"{staged.file.path} ended at byte {start + done} of {staged.size}")
            staged.write(part, done, block[:count])
            done += count
            self._progress.fetched(count)
            self._check()

    def _check(self) -> None:
        if self._failure is not None:
            raise AbandonedError
        self._stop.check()

    def _guard(self, work: object, *arguments: object) -> None:
        try:
            work(*arguments)  # type: ignore[operator]  # one of two methods of this class
        except AbandonedError:
            return
        except BaseException as error:  # noqa: BLE001  a worker's failure is everyone's; `fetch` raises it
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if self._failure is None and not isinstance(error, AbandonedError):
            self._failure = _as_hydrate_error(error) if isinstance(error, OSError) else error
        self._queue.close()
        self._origin.abort()


class AbandonedError(Exception):
    """Another part failed, so this one ends."""


class FailureCount:
    """Failures of one part: how long to wait after each, and when to give up."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._count = 0

    def delay_s(self, error: TryAgainError, *, moved: bool) -> float:
        self._count = 1 if moved else self._count + 1
        if self._count >= self._policy.attempts:
            raise error
        bound = min(self._policy.longest_s, self._policy.first_s * 2.0 ** (self._count - 1))
        return max(error.retry_after_s or 0.0, random.uniform(0, bound))  # noqa: S311  jitter, not a secret


class PartQueue:
    """Parts in the order of the files, so that checksums follow closely."""

    def __init__(self) -> None:
        self._parts: deque[tuple[StagedFile, int]] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def add(self, staged: StagedFile) -> None:
        with self._changed:
            self._parts.extend((staged, part) for part in staged.state.missing())
            self._changed.notify_all()

    def take(self) -> tuple[StagedFile, int] | None:
        """The next part; None when there will be no more."""
        with self._changed:
            while not self._parts and not self._closed:
                self._changed.wait()
            return self._parts.popleft() if self._parts and not self._closed else None

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def _await(futures: Iterable[Future[None]]) -> None:
    for future in futures:
        future.result()


def _as_hydrate_error(error: OSError) -> HydrateError:
    """What the volume refuses. Everything that a source raises is a HydrateError already."""
    if error.errno in _OUT_OF_SPACE:
        return OutOfSpaceError("the volume is full")
    return HydrateError(f"the volume cannot be written: {error.strerror or error}")
