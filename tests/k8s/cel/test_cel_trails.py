from modelplane.k8s.cel.trails import NOWHERE, start


def test_a_path_grows_without_touching_its_start():
    device = start("device")
    assert device.extended("driver").names() == ("device", "driver")
    assert device.extended("attributes").extended("@values").names() == ("device", "attributes", "@values")
    assert device.names() == ("device",)


def test_two_extensions_share_memory_where_upstream_has_room():
    inner = start("device").extended("attributes").extended("@values")
    keys = inner.extended("@keys")
    values = inner.extended("@values")
    assert keys.names() == values.names() == ("device", "attributes", "@values", "@values")


def test_nothing_comes_from_nowhere():
    assert NOWHERE.extended("x").names() == ("x",)
    assert NOWHERE.names() == ()
