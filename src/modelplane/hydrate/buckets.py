"""Objects under a prefix of a bucket: S3, and what speaks its protocol, as Google Cloud Storage does."""

import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from urllib.parse import quote, urlencode

from modelplane.api.reasons import Reason
from modelplane.hydrate.artifact import ArtifactFile, FileStream, ResolvedArtifact, content_key
from modelplane.hydrate.credentials import MountedSecret
from modelplane.hydrate.errors import HydrateError, SourceInvalidError
from modelplane.hydrate.paths import safe_path, selected
from modelplane.hydrate.ranges import RangeReader
from modelplane.hydrate.sigv4 import AccessKey, signed_headers
from modelplane.hydrate.sources import BucketSource
from modelplane.hydrate.transport import Headers, StatusError, WebClient

_DEFAULT_REGION = "us-east-1"
_MOST_PAGES = 1000
_SIZE_DIGITS = 18
_KEY_IDS = ("access_key", "AWS_ACCESS_KEY_ID", "accessKeyID", "accessKeyId", "access_key_id", "access-key-id")
_KEYS = ("secret_key", "AWS_SECRET_ACCESS_KEY", "secretAccessKey", "secret_access_key", "secret-access-key")
_SAYS = {
    403: "the credentials are missing, wrong or may not list it",
    404: "the bucket does not exist",
    301: "the bucket is in another region; give its region",
}


class BucketOrigin:
    def __init__(self, source: BucketSource, client: WebClient, secret: MountedSecret) -> None:
        self._bucket, self._prefix = _place(source)
        self._region = source.region or _DEFAULT_REGION
        self._base = _base(source, self._bucket, self._region)
        self._source = source
        self._client = client
        self._key = None if source.anonymous else _access_key(secret)
        self._reader = RangeReader(client, lambda file: self._headers(file.url))

    def resolve(self) -> ResolvedArtifact:
        listed = sorted(self._objects(), key=lambda file: file.path)
        files = tuple(file for file in listed if selected(file.path, self._source.include, self._source.exclude))
        if not files:
            message = f"s3://{self._bucket}/{self._prefix} has no files that are selected"
            raise HydrateError(message, Reason.SOURCE_NOT_FOUND)
        revision = content_key({}, repr([(file.path, file.size, file.etag) for file in files]))
        identity = {"s3": self._base, "prefix": self._prefix}
        return ResolvedArtifact(content_key(identity, revision), revision, files)

    def open(self, file: ArtifactFile, start: int, stop: int | None) -> FileStream:
        return self._reader.open(file, start, stop)

    def abort(self) -> None:
        self._client.abort()

    def _objects(self) -> Iterator[ArtifactFile]:
        token: str | None = None
        for _ in range(_MOST_PAGES):
            page = self._page(token)
            for entry in page.iterfind("{*}Contents"):
                file = self._file(entry)
                if file is not None:
                    yield file
            token = page.findtext("{*}NextContinuationToken")
            if page.findtext("{*}IsTruncated") != "true" or not token:
                return
        raise SourceInvalidError(f"s3://{self._bucket}/{self._prefix} has more than {_MOST_PAGES} pages of objects")

    def _page(self, token: str | None) -> ET.Element:
        query = {"list-type": "2", "prefix": self._prefix, **({"continuation-token": token} if token else {})}
        url = f"{self._base}/?{urlencode(sorted(query.items()), quote_via=quote, safe='')}"
        try:
            content = self._client.get(url, self._headers(url)).small()
        except StatusError as error:
            raise HydrateError(f"s3://{self._bucket}: {_SAYS.get(error.status, error)}", error.reason) from error
        try:
            return ET.fromstring(content)  # noqa: S314  expat bounds what entities expand to, and the size is bounded
        except ET.ParseError as error:
            raise SourceInvalidError(f"s3://{self._bucket}: the listing cannot be read: {error}") from None

    def _file(self, entry: ET.Element) -> ArtifactFile | None:
        """An object as a file; keys that end with a slash stand for folders, and other keys only look alike."""
        key = entry.findtext("{*}Key") or ""
        folder = f"{self._prefix.rstrip('/')}/" if self._prefix else ""
        if key.endswith("/") or not (key == self._prefix or key.startswith(folder)):
            return None
        name = key.rpartition("/")[2] if key == self._prefix else key.removeprefix(folder)
        size = entry.findtext("{*}Size") or ""
        if not (size.isascii() and size.isdigit() and len(size) <= _SIZE_DIGITS):
            raise SourceInvalidError(f"s3://{self._bucket}/{key} has the size {size!r}")
        url = f"{self._base}/{quote(key, safe='/-_.~')}"
        return ArtifactFile(safe_path(name), int(size), url=url, etag=entry.findtext("{*}ETag"))

    def _headers(self, url: str) -> Headers:
        if self._key is None:
            return {}
        return signed_headers(self._key, self._region, url, time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()))


def _place(source: BucketSource) -> tuple[str, str]:
    """The bucket and the prefix, which is a whole folder or one object."""
    if source.uri is not None:
        bucket, _, prefix = source.uri.removeprefix("s3://").partition("/")
    else:
        bucket, prefix = source.bucket or "", source.prefix
    if not bucket or "/" in bucket:
        raise HydrateError("--source: s3 needs uri or bucket", Reason.INVALID)
    return bucket, prefix.lstrip("/")


def _base(source: BucketSource, bucket: str, region: str) -> str:
    """AWS wants the bucket in the host name; elsewhere it is in the path, which every service understands."""
    if source.endpoint is not None:
        return f"{source.endpoint.rstrip('/')}/{bucket}"
    if "." in bucket:
        return f"https://s3.{region}.amazonaws.com/{bucket}"
    return f"https://{bucket}.s3.{region}.amazonaws.com"


def _access_key(secret: MountedSecret) -> AccessKey | None:
    """The keys of the Secret, under the names that are usual. Without a Secret, requests are anonymous."""
    key_id = secret.value(*_KEY_IDS)
    key = secret.value(*_KEYS)
    token = secret.value("AWS_SESSION_TOKEN", "sessionToken", "session_token", "session-token")
    if secret.folder is None:
        return None
    if key_id is None or key is None:
        raise HydrateError("the Secret needs access_key and secret_key", Reason.SECRET_MISSING)
    return AccessKey(key_id, key, token)
