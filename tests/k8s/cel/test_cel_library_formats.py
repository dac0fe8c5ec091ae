import pytest

from modelplane.k8s.cel.library.formats import FORMATS, is_base64, is_date, is_datetime, is_uuid


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("dns1123Label", "a-1", "A"),
        ("dns1123Label", "a" * 63, "a" * 64),
        ("dns1123Subdomain", "a.b", "a..b"),
        ("dns1035Label", "a1", "1a"),
        ("qualifiedName", "example.com/Name_1", "/name"),
        ("dns1123LabelPrefix", "a-", "-a"),
        ("labelValue", "", "a/b"),
        ("uri", "http://a/", "a"),
        ("uuid", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6ba7b810"),
        ("byte", "YQ==", "YQ"),
        ("date", "2024-02-29", "2023-02-29"),
        ("datetime", "2024-02-29T23:59:59.5Z", "2024-02-29T24:00:00Z"),
    ],
)
def test_named_formats(name, good, bad):
    assert FORMATS[name].problems(good) == []
    assert FORMATS[name].problems(bad) != []


@pytest.mark.parametrize(
    ("check", "text", "expected"),
    [
        (is_date, "0000-02-29", True),
        (is_date, "2024-2-29", False),
        (is_datetime, "2024-01-01t00:00:00z", True),
        (is_datetime, "2024-01-01 00:00:00Z", False),
        (is_uuid, "6BA7B8109DAD11D180B400C04FD430C8", True),
        (is_base64, "", False),
        (is_base64, "YWJj", True),
    ],
)
def test_checks(check, text, expected):
    assert check(text) is expected
