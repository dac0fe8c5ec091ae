"""A repository of the Hugging Face hub, or of anything that speaks its API.

Large files carry a SHA-256 in the listing, small ones the hash of their git blob; both are checked. Names of blobs are
those that huggingface_hub gives them, so that its cache finds them.
"""

import re
from collections.abc import Iterator
from typing import TypeVar
from urllib.parse import quote, urljoin

import msgspec

from modelplane.api.reasons import Reason
from modelplane.hydrate.answers import FileSize, decode_answer
from modelplane.hydrate.artifact import ArtifactFile, FileStream, ResolvedArtifact, content_key
from modelplane.hydrate.credentials import MountedSecret
from modelplane.hydrate.errors import HydrateError, SourceInvalidError
from modelplane.hydrate.paths import safe_path, selected
from modelplane.hydrate.ranges import RangeReader
from modelplane.hydrate.sources import HuggingFaceSource
from modelplane.hydrate.transport import Headers, StatusError, WebClient, same_origin

T = TypeVar("T")

_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NEXT = re.compile(r'<([^>]+)>;\s*rel="next"')
_REPO = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?")
_MOST_PAGES = 1000
_SAYS = {
    401: "the token is missing or wrong, or the repository does not exist",
    403: "the token may not read it; a gated repository needs its licence accepted",
    404: "the repository or the revision does not exist",
}


class HubRevision(msgspec.Struct, frozen=True):
    sha: str


class LargeFile(msgspec.Struct, frozen=True):
    oid: str
    size: FileSize


class HubEntry(msgspec.Struct, frozen=True):
    type: str
    path: str
    oid: str = ""
    size: FileSize = 0
    lfs: LargeFile | None = None


class HuggingFaceOrigin:
    def __init__(self, source: HuggingFaceSource, client: WebClient, secret: MountedSecret) -> None:
        if not _REPO.fullmatch(source.repo) or "--" in source.repo or ".." in source.repo:
            raise HydrateError(f"--source: huggingFace: {source.repo!r} is not a repository", Reason.INVALID)
        safe_path(source.revision)
        self._source = source
        self._endpoint = source.endpoint.rstrip("/")
        self._client = client
        key = source.auth_secret.key if source.auth_secret is not None else None
        token = secret.token(key, ("HF_TOKEN", "token"))
        self._headers: Headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._reader = RangeReader(client, lambda _: self._headers)

    def resolve(self) -> ResolvedArtifact:
        commit = self._commit()
        include, exclude = self._source.include, self._source.exclude
        entries = [entry for entry in self._entries(commit) if entry.type == "file"]
        files = tuple(self._file(entry, commit) for entry in entries if selected(entry.path, include, exclude))
        if not files:
            message = f"{self._source.repo} has {len(entries)} files at {commit}, and none is selected"
            raise HydrateError(message, Reason.SOURCE_NOT_FOUND)
        identity = {
            "huggingFace": self._source.repo,
            "include": sorted(self._source.include),
            "exclude": sorted(self._source.exclude),
        }
        ref = self._source.revision if self._source.revision != commit else None
        return ResolvedArtifact(content_key(identity, commit), commit, files, repo=self._source.repo, ref=ref)

    def open(self, file: ArtifactFile, start: int, stop: int | None) -> FileStream:
        return self._reader.open(file, start, stop)

    def abort(self) -> None:
        self._client.abort()

    def _commit(self) -> str:
        path = f"revision/{quote(self._source.revision, safe='')}"
        found = _decoded(self._request(f"{self._api}/{path}")[0], HubRevision)
        if not _COMMIT.fullmatch(found.sha):
            raise SourceInvalidError(f"{self._endpoint} gave {found.sha!r}, which is not a commit")
        return found.sha

    def _entries(self, commit: str) -> Iterator[HubEntry]:
        url: str | None = f"{self._api}/tree/{commit}?recursive=true"
        for _ in range(_MOST_PAGES):
            if url is None:
                return
            content, url = self._request(url)
            yield from _decoded(content, list[HubEntry])
        raise SourceInvalidError(f"{self._source.repo} has more than {_MOST_PAGES} pages of files")

    def _file(self, entry: HubEntry, commit: str) -> ArtifactFile:
        path = safe_path(entry.path)
        url = f"{self._endpoint}/{self._source.repo}/resolve/{commit}/{quote(path)}"
        if entry.lfs is not None:
            oid = entry.lfs.oid.removeprefix("sha256:")
            if not _SHA256.fullmatch(oid):
                raise SourceInvalidError(f"{path} has the digest {oid!r}, which is not a SHA-256")
            return ArtifactFile(path, entry.lfs.size, url=url, digest=f"sha256:{oid}", blob=oid)
        if not _COMMIT.fullmatch(entry.oid):
            raise SourceInvalidError(f"{path} has the object id {entry.oid!r}, which is not a hash")
        return ArtifactFile(path, entry.size, url=url, digest=f"git:{entry.oid}", blob=entry.oid)

    @property
    def _api(self) -> str:
        return f"{self._endpoint}/api/models/{self._source.repo}"

    def _request(self, url: str) -> tuple[bytes, str | None]:
        """A page, and where the next one is."""
        headers = self._headers if same_origin(url, self._endpoint) else {}
        try:
            response = self._client.get(url, headers)
        except StatusError as error:
            why = _SAYS.get(error.status)
            message = f"{self._source.repo} at {self._source.revision}: {why}" if why else str(error)
            raise HydrateError(message, error.reason) from error
        following = _NEXT.search(response.headers.get("link", ""))
        return response.small(), urljoin(url, following[1]) if following else None


def _decoded(content: bytes, kind: type[T]) -> T:
    return decode_answer(content, kind, "the hub's answer cannot be read")
