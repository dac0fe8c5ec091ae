import pytest

from modelplane.k8s.cel.compiler import checked_tree
from modelplane.k8s.cel.device_view import DEFAULT_GATES, DeviceBounds, environment
from modelplane.k8s.cel.estimate import estimate
from modelplane.k8s.cel.sizes import MAX

_ENVIRONMENT = environment(DEFAULT_GATES, stored=False)
_ATTRIBUTE = 'device.attributes["d"].x'


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("true", 0),
        ("device.driver", 2),
        ("device.driver == 'x'", 3),
        (f"{_ATTRIBUTE} == 'x'", 5),
        (f"has({_ATTRIBUTE})", 3),
        ("'d' in device.attributes", 3),
        ("device.attributes.all(k, k == 'a')", 163),
        ("device.attributes.all(k, v, true)", 99),
        ("[1, 2, 3].all(x, x > 0)", 26),
        ("[1, 2].map(x, x)", 47),
        ("cel.bind(x, device.driver, x == x)", 21),
        (f"{_ATTRIBUTE}.matches('a+')", 11),
        ("true ? 'a' : 'bb'", 0),
        ("('a' + 'bb') == 'ccc'", 2),
        ("'abc'.replace('a', 'bbbb') == ''", 1),
        ("'abc'.split('') == []", 11),
        ("lists.range(100).size() > 0", 113),
        ("[3, 1].sort() == [1, 3]", 40),
        ("sets.contains([1, 2], [1])", 23),
        ("quantity('1') == quantity('2')", 3),
        ("semver('1.0.0').major() == 1", 3),
        ("cidr('10.0.0.0/8').containsIP('10.0.0.1')", 6),
        ("optional.of(1).orValue(2) == 1", 3),
        ("dyn(1) == dyn(2)", 3),
        ("{'a': 1}['a'] == 1", 32),
        ("type(1) == int", MAX),
        ("['a'].join() == ''", MAX),
        ("quantity('1') != quantity('2')", MAX),
        ("['a'].indexOf('a') == 0", MAX),
    ],
)
def test_worst_case(text, cost):
    node = checked_tree(text, _ENVIRONMENT).node
    found = estimate(node, DeviceBounds())
    assert found == cost or (cost == MAX and found > 10**18)


def test_keys_take_the_size_of_values_where_paths_share_memory():
    loop = checked_tree('device.attributes["d"].exists(k, v, k == "' + "x" * 64 + '")', _ENVIRONMENT).node
    plain = checked_tree('device.attributes["d"].exists(k, k == "' + "x" * 64 + '")', _ENVIRONMENT).node
    assert estimate(loop, DeviceBounds()) > estimate(plain, DeviceBounds())
