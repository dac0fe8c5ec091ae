"""The key of the plane's API is its owner's alone."""

import ssl

from modelplane.plane.certificates import server_context

NOW = 1767225600.0


def test_the_key_is_readable_by_its_owner_only_also_where_a_file_was_there(tmp_path):
    old = tmp_path / "api.key"
    old.write_text("old")
    old.chmod(0o644)
    context, certificate = server_context(tmp_path, now=NOW)
    assert old.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "api.crt").read_bytes() == certificate
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_every_start_has_a_new_key(tmp_path):
    keys = []
    for _ in range(2):
        server_context(tmp_path, now=NOW)
        keys.append((tmp_path / "api.key").read_bytes())
    assert keys[0] != keys[1]
