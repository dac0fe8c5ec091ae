from modelplane.plane.apply import admitted


def test_text_of_a_secret_is_stored_as_data_as_by_the_api():
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"HF_TOKEN": "x"}}
    stored = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "type": "Opaque"}
    assert admitted(secret) == {**stored, "data": {"HF_TOKEN": "eA=="}}
    assert admitted({**stored, "data": {"a": "eA=="}}) == {**stored, "data": {"a": "eA=="}}


def test_other_kinds_are_stored_as_they_are():
    item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}
    assert admitted(item) == item
