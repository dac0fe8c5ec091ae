import pytest

from modelplane.k8s.admission.formats import is_formatted

# Verdicts of the API server's own code.
GOOD = {
    "byte": ["YQ==", "YWI=", "YWJj", "++//"],
    "date": ["2024-01-02", "2024-02-29", "0000-02-29", "9999-12-31"],
    "date-time": ["2024-01-02T03:04:05Z", "2024-01-02t03:04:05z", "2024-01-02T03:04:05.123+01:00"],
    "datetime": ["2024-01-02T03:04:05Z"],
    "duration": ["1h", "1h30m", "1.5s", "-1s", "0", "1 d", "2 weeks", "3 days", "10 ns", "5 minutes", ".5h", "1.h",
                 "+3m"],
    "uri": ["http://a", "http://a:80/b", "/a/b", "mailto:x", "*", "http://[::1]:80/", "http://u:p@h/", "s3://b/k",
            "http://a/x y", "http://", "http:foo", "http://a/#f", "http://a?x=%zz"],
    "ipv4": ["1.2.3.4", "01.2.3.4", "::ffff:1.2.3.4"],
    "ipv6": ["::1", "::", "::ffff:1.2.3.4", "1:2:3:4:5:6:7:8"],
    "cidr": ["10.0.0.0/8", "::/0", "010.0.0.0/8"],
    "uuid": ["123e4567-e89b-12d3-a456-426614174000", "123E4567E89B12D3A456426614174000"],
    "uuid3": ["123e4567-e89b-32d3-a456-426614174000"],
    "uuid4": ["123e4567-e89b-42d3-a456-426614174000"],
    "uuid5": ["123e4567-e89b-52d3-a456-426614174000"],
    "k8s-short-name": ["a", "a-b", "a" * 63],
    "k8s-long-name": ["a.b", "a" * 253, "a-b.c-d"],
    "unheard-of": ["anything", ""],
}  # fmt: skip
BAD = {
    "byte": ["", "YWJjZA", "Y Q==", "YQ==\n", "a", "===="],
    "date": ["2023-02-29", "2024-13-01", "2024-1-2", "24-01-02", "2024-01-02T", ""],
    "date-time": ["2024-01-02T24:00:00Z", "2024-01-02T23:59:60Z", "2024-01-02 03:04:05Z", "2024-01-02T03:04:05", "x"],
    "duration": ["1", "h", "1x", "1month", ""],
    "uri": ["a/b", "", "http://a b", "http://a:b/", "http://a/%zz", ":a", "http://a\\b", "http://[::1", "http://a%20b/",
            "http://[:1]/", "1a:b", "a\x00b"],
    "ipv4": ["256.1.1.1", "1.2.3", "::1", "1.2.3.4.5", "a", "1.2.3.4 ", "\u0661.2.3.4"],
    "ipv6": ["1.2.3.4", "fe80::1%eth0", "1:2:3:4:5:6:7:8:9", "g::", "1::2::3", ""],
    "cidr": ["10.0.0.0/33", "10.0.0.0", "::/129", "10.0.0/8", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/\u0668"],
    "uuid": ["x", "123e4567-e89b-12d3-a456-42661417400", "123e4567-e89b-12d3-a456-426614174000\n"],
    "uuid4": ["123e4567-e89b-12d3-a456-426614174000", "123e4567-e89b-42d3-c456-426614174000"],
    "k8s-short-name": ["-a", "a-", "A", "a.b", "a" * 64, "a\n", "é"],
    "k8s-long-name": ["a..b", ".a", "a" * 254],
}  # fmt: skip


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in GOOD.items() for text in texts])
def test_good(name, text):
    assert is_formatted(text, name)


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in BAD.items() for text in texts])
def test_bad(name, text):
    assert not is_formatted(text, name)
