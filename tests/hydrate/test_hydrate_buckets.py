"""Buckets of moto's S3 server, which checks signatures' shape, pages listings and gives ranges."""

import hashlib

import pytest

from modelplane.api.reasons import Reason
from modelplane.hydrate.credentials import MountedSecret
from modelplane.hydrate.errors import HydrateError
from modelplane.hydrate.sigv4 import AccessKey, signed_headers
from tests.support.model_sources import s3_client, s3_server

pytestmark = pytest.mark.slow

CONTENT = hashlib.shake_128(b"s3").digest(2_500_000)


@pytest.fixture(scope="module")
def s3():
    with s3_server() as url:
        yield url


@pytest.fixture
def bucket(s3):
    client = s3_client(s3)
    client.create_bucket(Bucket="models")
    yield client
    for entry in client.list_objects_v2(Bucket="models").get("Contents", ()):
        client.delete_object(Bucket="models", Key=entry["Key"])
    client.delete_bucket(Bucket="models")
    client.close()


@pytest.fixture(params=[("access_key", "secret_key"), ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")])
def secret(request, tmp_path):
    for name, value in zip(request.param, ("id", "secret"), strict=True):
        (tmp_path / name).write_text(value)
    return MountedSecret(tmp_path)


def test_the_objects_below_a_prefix_are_staged(stage, s3, bucket, secret):
    for key in ("qwen/config.json", "qwen/a b+c/ü.bin", "qwen/", "qwen-2/other.json"):
        bucket.put_object(Bucket="models", Key=key, Body=b"" if key.endswith("/") else CONTENT)
    stage({"s3": {"uri": "s3://models/qwen", "endpoint": s3, "region": "us-east-1"}}, secret=secret)
    assert stage.files() == {"config.json": CONTENT, "a b+c/ü.bin": CONTENT}


def test_a_secret_without_keys_is_not_read_as_anonymous(stage, tmp_path):
    (tmp_path / "token").write_text("x")
    with pytest.raises(HydrateError, match="the Secret needs access_key and secret_key") as raised:
        stage({"s3": {"bucket": "models"}}, secret=MountedSecret(tmp_path))
    assert raised.value.reason is Reason.SECRET_MISSING


def test_listings_have_pages(stage, s3, bucket, monkeypatch):
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "2")
    for name in "abcde":
        bucket.put_object(Bucket="models", Key=f"p/{name}", Body=name.encode(), ACL="public-read")
    stage({"s3": {"bucket": "models", "prefix": "p/", "endpoint": s3, "anonymous": True}})
    assert stage.files() == {name: name.encode() for name in "abcde"}


def test_an_object_that_was_replaced_gives_another_key(stage, s3, bucket):
    source = {"gcs": {"uri": "gs://models/w", "endpoint": s3}}
    bucket.put_object(Bucket="models", Key="w/a", Body=b"1", ACL="public-read")
    first = stage(source)
    bucket.put_object(Bucket="models", Key="w/a", Body=b"2", ACL="public-read")
    assert stage(source).key != first.key
    assert stage.files() == {"a": b"2"}


def test_a_bucket_that_is_not_there(stage, s3):
    with pytest.raises(HydrateError, match="s3://nothing: the bucket does not exist"):
        stage({"s3": {"uri": "s3://nothing/x", "endpoint": s3}})


def test_signatures_are_those_of_botocore():
    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    url = "http://127.0.0.1:9000/models/a%20b/%C3%BC.bin?list-type=2&prefix=a%2Fb"
    request = AWSRequest("GET", url)
    signer = S3SigV4Auth(Credentials("id", "secret", "session"), "s3", "eu-central-1")
    signer.add_auth(request)
    theirs = dict(request.headers)
    ours = signed_headers(AccessKey("id", "secret", "session"), "eu-central-1", url, theirs["X-Amz-Date"])
    assert _signature(ours["authorization"]) == _signature(theirs["Authorization"])


def _signature(header):
    return header.replace(", ", ",")
