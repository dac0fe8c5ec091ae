from modelplane.k8s.cel.node_paths import NO_PATH, root_path


def test_a_path_grows_without_touching_its_start():
    device = root_path("device")
    assert device.extended("driver").names() == ("device", "driver")
    assert device.extended("attributes").extended("@values").names() == ("device", "attributes", "@values")
    assert device.names() == ("device",)


def test_two_extensions_share_memory_where_upstream_has_room():
    inner = root_path("device").extended("attributes").extended("@values")
    keys = inner.extended("@keys")
    values = inner.extended("@values")
    assert keys.names() == values.names() == ("device", "attributes", "@values", "@values")


def test_nothing_comes_from_nowhere():
    assert NO_PATH.extended("x").names() == ("x",)
    assert NO_PATH.names() == ()
