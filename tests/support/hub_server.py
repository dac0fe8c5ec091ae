"""A hub as huggingface_hub talks to it: revisions, a tree with LFS digests in pages, and files behind redirects."""

import hashlib
import json
import re

from tests.support.file_server import FileServer, ServedFile


class HubServer:
    """One repository. Large files are redirected to a second host, as the hub does."""

    def __init__(self, hub: FileServer, storage: FileServer, repo: str, *, token=None, page=1000):
        self.hub, self.storage, self.repo, self.token, self.page = hub, storage, repo, token, page
        self.commits = {}
        self.refs = {}
        hub.handlers.append(self.answer)

    @property
    def url(self):
        return self.hub.url

    def commit(self, files, ref="main", large=("safetensors", "bin")):
        """Adds a commit with these files, and moves the branch to it."""
        sha = hashlib.sha1(repr(sorted(files.items())).encode(), usedforsecurity=False).hexdigest()
        self.commits[sha] = {path: (content, path.endswith(large)) for path, content in files.items()}
        self.refs[ref] = sha
        for content, is_large in self.commits[sha].values():
            if is_large:
                self.storage.add(f"/lfs/{hashlib.sha256(content).hexdigest()}", content)
        return sha

    def answer(self, handler, path):
        if self.token and handler.headers.get("Authorization") != f"Bearer {self.token}":
            self.hub.reply(handler, 401, b"{}", {"X-Error-Code": "GatedRepo"})
            return True
        rest = path.partition(f"/api/models/{self.repo}/")[2]
        if rest.startswith("revision/"):
            return self._revision(handler, rest.removeprefix("revision/"))
        if rest.startswith("tree/"):
            return self._tree(handler, rest.removeprefix("tree/").partition("/")[0])
        found = re.fullmatch(rf"/{self.repo}/resolve/([^/]+)/(.+)", path)
        return self._resolve(handler, found[1], found[2]) if found else False

    def _sha(self, revision):
        return self.refs.get(revision, revision)

    def _revision(self, handler, revision):
        sha = self._sha(revision)
        if sha not in self.commits:
            self.hub.reply(handler, 404, b'{"error":"no"}', {"X-Error-Code": "RevisionNotFound"})
            return True
        siblings = [{"rfilename": path} for path in self.commits[sha]]
        self._json(handler, {"_id": "1", "id": self.repo, "modelId": self.repo, "sha": sha, "siblings": siblings})
        return True

    def _tree(self, handler, revision):
        entries = [self._entry(path, *each) for path, each in sorted(self.commits[self._sha(revision)].items())]
        start = int((re.search(r"cursor=(\d+)", handler.path) or [0, 0])[1])
        more = {}
        if start + self.page < len(entries):
            base = handler.path.partition("?")[0]
            more["Link"] = f'<{self.url}{base}?recursive=true&cursor={start + self.page}>; rel="next"'
        self._json(handler, entries[start : start + self.page], more)
        return True

    def _entry(self, path, content, is_large):
        entry = {"type": "file", "path": path, "size": len(content), "oid": git_oid(content)}
        if is_large:
            digest = hashlib.sha256(content).hexdigest()
            entry["lfs"] = {"oid": digest, "size": len(content), "pointerSize": 134}
        return entry

    def _resolve(self, handler, revision, path):
        sha = self._sha(revision)
        content, is_large = self.commits[sha][path]
        digest = hashlib.sha256(content).hexdigest() if is_large else git_oid(content)
        headers = {"X-Repo-Commit": sha, "ETag": f'"{digest}"'}
        if not is_large:
            file = self.hub.files.setdefault(f"blob {digest}", ServedFile(content, etag=f'"{digest}"'))
            self.hub.send_file(handler, file, {"X-Repo-Commit": sha})
            return True
        headers |= {"X-Linked-Etag": f'"{digest}"', "X-Linked-Size": str(len(content))}
        self.hub.reply(handler, 302, b"", {**headers, "Location": f"{self.storage.url}/lfs/{digest}?Signature=x"})
        return True

    def _json(self, handler, document, more=None):
        body = json.dumps(document).encode()
        self.hub.reply(handler, 200, body, {"Content-Type": "application/json", **(more or {})})


def git_oid(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
