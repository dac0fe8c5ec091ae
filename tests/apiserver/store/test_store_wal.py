"""The write-ahead log as bytes, held against what SQLite itself reads."""

import sqlite3

import pytest

from modelplane.apiserver.store.wal import WriteAheadLog

PAGE, FRAME = 4096, 4096 + 24


@pytest.fixture(name="log")
def log_of_twenty_transactions(tmp_path):
    connection = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, v BLOB)")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for number in range(20):
        connection.execute("INSERT INTO t VALUES (?, ?)", (number, b"x" * 3000))
    data = (tmp_path / "a.db-wal").read_bytes()
    connection.close()
    return data


def rows(tmp_path, log):
    """What SQLite reads from the log over an empty table."""
    path = tmp_path / "b.db"
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, v BLOB)")
    connection.close()
    path.with_name("b.db-wal").write_bytes(log)
    connection = sqlite3.connect(path)
    found = connection.execute("SELECT count(*) FROM t").fetchone()[0]
    connection.close()
    return found


def flipped(log, at):
    return log[:at] + bytes([log[at] ^ 1]) + log[at + 1 :]


@pytest.mark.parametrize(
    ("place", "what"),
    [(2, "magic"), (18, "salt"), (28, "checksum"), (32 + 24 + 50, "page"), (32 + 5 * FRAME + 9, "salt of a frame")],
)
def test_sqlite_reads_all_of_a_mended_log(tmp_path, log, place, what):
    damaged = flipped(log, place)
    assert rows(tmp_path, damaged) < 20, what
    assert rows(tmp_path, WriteAheadLog(damaged, PAGE).mended()) == 20


def test_a_log_without_damage_is_mended_to_what_sqlite_reads(tmp_path, log):
    assert rows(tmp_path, WriteAheadLog(log, PAGE).mended()) == 20


def test_transactions_beyond_what_was_read_are_counted(log):
    found = [WriteAheadLog(log, PAGE).lost_transactions(read) for read in (0, 10, 10**6)]
    assert (found[0], 0 < found[1] < 20, found[2]) == (20, True, 0)


def test_frames_of_an_earlier_round_are_not_of_this_log(log):
    other = bytearray(log)
    for at in range(32 + 10 * FRAME, len(log) - FRAME + 1, FRAME):
        other[at + 8 : at + 16] = b"\0" * 8
    whole, cut = WriteAheadLog(log, PAGE), WriteAheadLog(bytes(other), PAGE)
    assert cut.lost_transactions(0) == whole.lost_transactions(0) - whole.lost_transactions(10)
    assert len(cut.mended()) == 32 + 10 * FRAME


@pytest.mark.parametrize("data", [b"", b"\0" * 31, b"\0" * 40, b"\0" * 5000])
def test_no_log_is_no_loss(data):
    assert WriteAheadLog(data, PAGE).lost_transactions(0) == 0
