import yaml

from modelplane.k8s.yaml import to_yaml


def test_a_part_that_occurs_twice_is_written_twice():
    probe = {"httpGet": {"path": "/health"}}
    item = {"startup": probe, "readiness": probe, "ports": [[1], [1]]}
    text = to_yaml(item)
    assert (yaml.safe_load(text), text.count("path: /health")) == (item, 2)
    assert "&" not in text
