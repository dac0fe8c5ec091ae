"""Fetches files: parts in parallel, in order, with retries; checksums follow beside them."""

import threading
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from modelplane.hydrate.artifact import ArtifactFile, FileStream, Origin
from modelplane.hydrate.errors import SourceChangedError, StoppedError, TryAgainError, as_hydrate_error
from modelplane.hydrate.progress import HydrationProgress
from modelplane.hydrate.retry import FailureCount
from modelplane.hydrate.settings import FetchSettings, Stop
from modelplane.hydrate.staged import DigestError, FileRecord, StagedFile, read_record, stream_file

_OPEN_FILES = 32
"""Files that are open at once: small files are ahead of their checksums by that many."""


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
        self._unfinished: set[StagedFile] = set()
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
                self._feed([file for file in missing if file.size is not None], hashing)
                for file in missing:
                    if file.size is None:
                        self._guard(self._stream, file)
            finally:
                self._queue.close()
                _await(futures)
        for staged in self._unfinished:
            staged.close()
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

    def _stream(self, file: ArtifactFile) -> None:
        """A file of unknown size cannot be resumed: it starts anew after each failure."""
        failures = FailureCount(self._settings.retry)
        while file.content_id not in self._records:
            self._check()
            before = self._progress.fetched_bytes
            try:
                self._records[file.content_id] = self._streamed(file)
            except StoppedError:
                raise
            except (TryAgainError, DigestError) as error:
                self._progress.have(before - self._progress.fetched_bytes)
                self._stop.wait(failures.delay_s(error, moved=False), error)
        self._progress.file_done()

    def _streamed(self, file: ArtifactFile) -> FileRecord:
        body = self._origin.open(file, 0, None)
        try:
            return stream_file(self._folder, file, body, self._count)
        finally:
            body.close()

    def _count(self, count: int) -> None:
        self._progress.fetched(count)
        self._check()

    def _opened(self, file: ArtifactFile) -> StagedFile:
        size = file.size or 0
        part_bytes = self._settings.part_bytes_of(size) if file.ranged else max(1, size)
        try:
            staged = StagedFile(self._folder, file, size=size, part_bytes=part_bytes)
        except OSError as error:
            raise as_hydrate_error(error) from error
        self._unfinished.add(staged)
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
        self._unfinished.discard(staged)
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
            except (SourceChangedError, StoppedError):
                raise
            except TryAgainError as error:
                moved = staged.state.counts[part] > before
                if not moved:
                    self._progress.failed_for_now(error)
                self._stop.wait(failures.delay_s(error, moved=moved), error)

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
            self._count(count)

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
            self._failure = as_hydrate_error(error) if isinstance(error, OSError) else error
        self._queue.close()
        self._origin.abort()


class AbandonedError(Exception):
    """Another part failed, so this one ends."""


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
