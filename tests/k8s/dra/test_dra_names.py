import pytest

from modelplane.k8s.dra import names


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (names.is_dns_label, ["a", "a-b", "0", "a" * 63], ["", "A", "-a", "a-", "a.b", "a" * 64, "é", "a\n"]),
        (names.is_dns_subdomain, ["a", "a.b", "a-b.c", "x" * 253], ["", "a..b", ".a", "A", "a_b", "x" * 254, "a."]),
        (names.is_driver_name, ["a", "GPU.Example.com", "x" * 63], ["", "a_b", "x" * 64, "É", "\u0130"]),
        (names.is_pool_name, ["a", "a/b", "node-1/x.y", "x" * 253], ["", "a//b", "/a", "a/", "A", "x" * 254]),
        (names.is_label_key, ["a", "a.b/C_d.e", "A" * 63], ["", "/a", "a/", "a/b/c", "-a", "A" * 64, "A.b/c"]),
        (names.is_label_value, ["", "a", "A_b.c-d", "v" * 63], ["-a", "a-", "a b", "v" * 64, "é"]),
        (names.is_qualified_name,
         ["a", "_a9", "a.b/c", "a/b/c/d", "x" * 32], ["", "9a", "a-b", "/c", "a.b/", "a_b/c", "x" * 33]),
        (names.is_fully_qualified_name, ["a.b/c", "a/b/c"], ["c", "", "/c", "a.b/9"]),
        (names.is_extended_resource_name, ["a.com/x"], ["x", "kubernetes.io/x", "a.kubernetes.io/x", "requests.a/x"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)  # fmt: skip
def test_formats(check, good, bad):
    assert [name for name in good if not check(name)] == []
    assert [name for name in bad if check(name)] == []
