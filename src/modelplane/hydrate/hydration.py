"""One hydration: resolve, see what is there, fetch what is not, publish. Each step may be the last of a process."""

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from modelplane.api.reasons import Reason
from modelplane.hydrate.artifact import ArtifactFile, Origin, ResolvedArtifact
from modelplane.hydrate.errors import HydrateError, SourceChangedError, TryAgainError, as_hydrate_error
from modelplane.hydrate.fetch import Fetcher
from modelplane.hydrate.layouts import fits_layout, lay_out, layout_of
from modelplane.hydrate.paths import check_distinct
from modelplane.hydrate.progress import HydrationProgress
from modelplane.hydrate.retry import FailureCount
from modelplane.hydrate.settings import FetchSettings, Stop
from modelplane.hydrate.staged import FileRecord, read_record, store_record
from modelplane.hydrate.volume import CacheVolume, CompleteMarker

_RESOLUTIONS = 3
_WATCH_S = 0.2


@dataclass(frozen=True, slots=True)
class HydrationOptions:
    expected_key: str | None = None
    cache_key: str | None = None
    """The key of the ModelCache's source, for the marker."""
    layout: str | None = None
    progress_interval_s: float = 5.0
    kept_revisions: int = 1
    """Revisions beside the current one that stay for engines that still read them."""
    fetch: FetchSettings = field(default_factory=FetchSettings)


class Hydration:
    def __init__(
        self, origin: Origin, volume: CacheVolume, options: HydrationOptions, progress: HydrationProgress, stop: Stop
    ) -> None:
        self._origin = origin
        self._volume = volume
        self._options = options
        self._progress = progress
        self._stop = stop

    def run(self) -> CompleteMarker:
        """Stages the artifact, or finds that it is there. Raises HydrateError."""
        self._volume.prepare()
        with self._volume.locked(self._stop), self._reporting():
            marker = self._complete(self._options.expected_key) or self._staged()
        self._progress.key, self._progress.revision = marker.key, marker.revision
        self._progress.expect(files=len(marker.files), total=marker.bytes)
        self._progress.have(marker.bytes)
        return marker

    def _staged(self) -> CompleteMarker:
        """A source that changes while it is read is resolved again; files that stayed the same are kept."""
        for _ in range(_RESOLUTIONS - 1):
            with suppress(SourceChangedError):
                return self._stage(self._resolve())
        return self._stage(self._resolve())

    def _resolve(self) -> ResolvedArtifact:
        failures = FailureCount(self._options.fetch.retry)
        while True:
            self._stop.check()
            try:
                return self._origin.resolve()
            except TryAgainError as error:
                self._progress.failed_for_now(error)
                self._stop.wait(failures.delay_s(error, moved=False), error)

    def _stage(self, artifact: ResolvedArtifact) -> CompleteMarker:
        self._expect(artifact)
        found = self._complete(artifact.key)
        if found is not None:
            return found
        self._reuse(artifact)
        self._volume.check_space(self._missing_bytes(artifact))
        self._progress.report("Fetching")
        fetcher = Fetcher(self._origin, self._volume.staging, self._options.fetch, self._progress, self._stop)
        records = fetcher.fetch(artifact.files)
        self._progress.report("Publishing")
        layout = layout_of(artifact, self._options.layout)
        marker = self._laid_out(artifact, records, layout)
        self._volume.publish(marker)
        self._tidy(marker)
        return marker

    def _laid_out(self, artifact: ResolvedArtifact, records: Mapping[str, FileRecord], layout: str) -> CompleteMarker:
        try:
            return self._named(lay_out(self._volume, artifact, records, layout, self._stop.check))
        except OSError as error:
            raise as_hydrate_error(error) from error

    def _expect(self, artifact: ResolvedArtifact) -> None:
        check_distinct(file.path for file in artifact.loose_files)
        wanted = self._options.expected_key
        if wanted is not None and wanted != artifact.key:
            message = f"the source has the content key {artifact.key} now, and {wanted} was expected"
            raise HydrateError(message, Reason.DIGEST_MISMATCH)
        self._progress.key, self._progress.revision = artifact.key, artifact.revision
        contents = {file.content_id for file in artifact.files}
        self._progress.expect(files=len(contents), total=artifact.total_bytes)

    def _complete(self, key: str | None) -> CompleteMarker | None:
        """The revision with this key, if the volume holds it. It becomes the current one."""
        marker = self._volume.marker(key) if key is not None else None
        if marker is None or not self._volume.holds(marker) or not fits_layout(marker, self._options.layout):
            return None
        named = self._named(marker)
        if self._volume.marker() != named:
            self._volume.publish(named)
        return named

    def _named(self, marker: CompleteMarker) -> CompleteMarker:
        key = self._options.cache_key
        return marker if key is None else msgspec.structs.replace(marker, cache_key=key)

    def _reuse(self, artifact: ResolvedArtifact) -> None:
        """Contents that another revision has are linked, not fetched."""
        here = {
            file.sha256: (self._volume.root / marker.root / file.path, file.size)
            for marker in self._volume.markers()
            for file in marker.files
        }
        blobs = {file.blob: file.sha256 for marker in self._volume.markers() for file in marker.files if file.blob}
        for file in artifact.files:
            sha256 = blobs.get(file.blob or "") or (file.digest or "").removeprefix("sha256:")
            if sha256 in here:
                self._link(file, *here[sha256], sha256)

    def _link(self, file: ArtifactFile, path: Path, size: int, sha256: str) -> None:
        data = self._volume.staging / f"{file.content_id}.data"
        if read_record(data.with_suffix(".json"), data) is not None:
            return
        with suppress(OSError):  # a filesystem without hard links: it is fetched
            data.unlink(missing_ok=True)
            os.link(path.resolve(), data)
            store_record(data.with_suffix(".json"), FileRecord(sha256, size))

    def _missing_bytes(self, artifact: ResolvedArtifact) -> int:
        """What is to be written yet. Blocks of partial files count as written."""
        staged = (self._volume.staging / f"{file.content_id}.data" for file in artifact.files)
        there = sum(path.stat().st_blocks * 512 for path in set(staged) if path.exists())
        unpacked = sum(layer.file.size or 0 for layer in artifact.layers)  # at least: archives may be compressed
        return max(0, artifact.total_bytes - there) + unpacked

    def _tidy(self, marker: CompleteMarker) -> None:
        """Removes what is staged, and revisions older than those that are kept."""
        self._volume.clear_staging()
        others = [each for each in self._volume.markers() if each.key != marker.key]
        kept = [marker, *others[: self._options.kept_revisions]]
        for old in others[self._options.kept_revisions :]:
            self._volume.remove_revision(old, kept)

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        """Reports at the interval from a thread of its own, and ends reads when it is time to stop."""
        ended = threading.Event()
        reporter = threading.Thread(target=self._report_until, args=(ended,), name="progress", daemon=True)
        self._progress.report()
        reporter.start()
        try:
            yield
        finally:
            ended.set()
            reporter.join()
            self._origin.abort()

    def _report_until(self, ended: threading.Event) -> None:
        due = time.monotonic() + self._options.progress_interval_s
        while not ended.wait(_WATCH_S):
            if self._stop.is_set:
                self._origin.abort()
            if time.monotonic() >= due:
                due += self._options.progress_interval_s
                self._progress.report()
