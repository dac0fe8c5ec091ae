"""The registry over real HTTP."""

import asyncio
import gzip
import io
import json
import sys
import tarfile
from pathlib import Path

import aiohttp
import pytest
import yaml

from lab.registry import Registry

PACKAGE = [{"kind": "Function", "metadata": {"name": "f"}}, {"kind": "Other"}]


async def pull(url, repository, tag):
    """What a client that follows the protocol finds in the layer that is marked as the package."""
    async with aiohttp.ClientSession(url) as session:
        async with session.get(f"/v2/{repository}/manifests/{tag}") as answer:
            assert answer.status == 200
            manifest, digest = await answer.json(content_type=None), answer.headers["Docker-Content-Digest"]
        async with session.get(f"/v2/{repository}/manifests/{digest}") as again:
            assert await again.json(content_type=None) == manifest
        (base,) = [each for each in manifest["layers"] if each.get("annotations") == {"io.crossplane.xpkg": "base"}]
        async with session.get(f"/v2/{repository}/blobs/{base['digest']}") as answer:
            layer = await answer.read()
        async with session.get(f"/v2/{repository}/blobs/{manifest['config']['digest']}") as answer:
            config = json.loads(await answer.read())
    plain = gzip.decompress(layer)
    with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
        return list(yaml.safe_load_all(archive.extractfile("package.yaml").read())), config, len(layer) == base["size"]


def serve(registry, story):
    async def main():
        await registry.start("127.0.0.1", 0)
        try:
            await story("http://{}:{}".format(*registry.address))
        finally:
            await registry.stop()

    asyncio.run(main())


def test_a_package_of_manifests_can_be_pulled():
    registry = Registry()
    digest = registry.add_manifests("team/f", "v1", PACKAGE)

    async def story(url):
        found, config, sized = await pull(url, "team/f", "v1")
        assert (found, sized, config["os"]) == (PACKAGE, True, "linux")
        assert (await pull(url, "team/f", digest))[0] == PACKAGE

    serve(registry, story)


def test_an_archive_as_our_own_tool_writes_it_can_be_pulled(tmp_path):
    sys.path.insert(0, str(Path("tools").absolute()))
    from oci import Image, layer_of, package_image, write_archive

    program = Image((layer_of({"bin/x": b"program"}),), entrypoint=("/bin/x",))
    path = tmp_path / "f.xpkg"
    write_archive(package_image(yaml.safe_dump_all(PACKAGE).encode(), program), path, "f:v1")
    registry = Registry()
    registry.add_file("team/f", "v1", path)

    async def story(url):
        found, config, _ = await pull(url, "team/f", "v1")
        assert (found, config["config"]["Entrypoint"]) == (PACKAGE, ["/bin/x"])
        assert len(config["rootfs"]["diff_ids"]) == 2

    serve(registry, story)


def test_what_is_pushed_can_be_pulled(tmp_path):
    """By the tool that users push with."""
    sys.path.insert(0, str(Path("tools").absolute()))
    from oci import Image, layer_of, package_image, read_archive, write_archive
    from oci_registry import PushError
    from oci_registry import Registry as Client

    stored = []
    for architecture in ("amd64", "arm64"):
        program = Image((layer_of({"bin/x": architecture.encode()}),), ("/bin/x",), architecture=architecture)
        path = tmp_path / architecture
        write_archive(package_image(yaml.safe_dump_all(PACKAGE).encode(), program), path, "f:v1")
        stored.append(read_archive(path))

    async def story(url):
        client = Client(url.removeprefix("http://"), plain_http=True)
        digest = await asyncio.to_thread(client.push, "team/f", "v1", tuple(stored))
        async with aiohttp.ClientSession(url) as session, session.get("/v2/team/f/manifests/v1") as answer:
            assert answer.headers["Content-Type"] == "application/vnd.oci.image.index.v1+json"
            assert answer.headers["Docker-Content-Digest"] == digest
            index = await answer.json(content_type=None)
        found, config, _ = await pull(url, "team/f", index["manifests"][1]["digest"])
        assert (found, config["architecture"]) == (PACKAGE, "arm64")
        with pytest.raises(PushError, match="405"):
            client._expect(await asyncio.to_thread(client._call, "DELETE", "/v2/team/f/manifests/v1"), 202, "it")

    serve(Registry(), story)


def test_what_is_not_there_is_not_found():
    registry = Registry()
    registry.add_manifests("team/f", "v1", PACKAGE)

    async def story(url):
        async with aiohttp.ClientSession(url) as session:
            for path, status in (("/v2/", 200), ("/v2/team/f/manifests/v2", 404), ("/v2/other/tags/list", 404)):
                async with session.get(path) as answer:
                    assert answer.status == status, path
            async with session.get("/v2/team/f/tags/list") as answer:
                assert await answer.json() == {"name": "team/f", "tags": ["v1"]}
            async with session.put("/v2/team/f/blobs/uploads/one?digest=sha256:0", data=b"x") as answer:
                assert answer.status == 400

    serve(registry, story)
