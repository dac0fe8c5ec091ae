import json
import stat

from modelplane.envoy.files import table_file
from modelplane.envoy.storage import Storage


def test_a_directory_is_made_ready_and_old_logs_are_kept_once(tmp_path):
    storage = Storage(tmp_path / "data")
    storage.prepare()
    storage.access_log.write_text("old")
    with storage.open_log() as log:
        log.write(b"old")
    socket = storage.prepare()
    assert socket == tmp_path / "data" / "admin.sock"
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == [
        "access.log.1",
        "bootstrap.json",
        "envoy.log.1",
        "xds",
    ]
    assert json.loads((tmp_path / "data" / "bootstrap.json").read_bytes())["admin"] == {
        "address": {"pipe": {"path": str(socket), "mode": stat.S_IRUSR | stat.S_IWUSR}}
    }


def test_nothing_is_left_of_the_admin_interface(tmp_path):
    storage = Storage(tmp_path)
    storage.prepare().touch()
    storage.clean()
    assert not (tmp_path / "admin.sock").exists()


def test_a_table_is_put_in_place_whole(tmp_path):
    storage = Storage(tmp_path)
    storage.prepare()
    for number in range(2):
        storage.write(table_file("cds", [{"number": number}]))
    assert [path.name for path in (tmp_path / "xds").iterdir()] == ["cds.json"]
    assert json.loads((tmp_path / "xds" / "cds.json").read_bytes())["resources"] == [{"number": 1}]
    assert stat.S_IMODE((tmp_path / "xds" / "cds.json").stat().st_mode) == stat.S_IRUSR | stat.S_IWUSR


def test_a_long_directory_has_its_socket_elsewhere(tmp_path):
    storage = Storage(tmp_path / ("x" * 120))
    socket = storage.prepare()
    assert len(str(socket)) < 100
    assert socket.parent.is_dir()
    storage.clean()
    assert not socket.parent.exists()


def test_the_log_is_read_from_a_position_on(tmp_path):
    storage = Storage(tmp_path)
    with storage.open_log() as log:
        log.write(b"one\n")
    position = storage.log_size()
    with storage.open_log() as log:
        log.write(b"two \xff\n")
    assert storage.read_log(position) == "two \N{REPLACEMENT CHARACTER}\n"
    assert storage.read_log().startswith("one")
