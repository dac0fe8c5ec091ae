"""Where the API is, and as whom."""

import pytest

from modelplane.kube import BadConfig, load_config

GOOD = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://example.org:6443"}}]
users: [{name: u, user: USER}]
contexts: [{name: one, context: {cluster: c, user: u, namespace: team}}, {name: two, context: {cluster: c}}]
current-context: one
"""


def test_a_kubeconfig_with_its_contexts(tmp_path):
    path = tmp_path / "config"
    path.write_text(GOOD.replace("USER", "{token: t}"))
    first, second = load_config(path), load_config(path, "two")
    assert (first.cluster.server, first.namespace, first.user.token) == ("https://example.org:6443", "team", "t")
    assert (second.namespace, second.user.token) == ("default", None)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (GOOD.replace("USER", "{exec: {apiVersion: x, command: rm}}"), "user of context 'one': exec and auth-provider"),
        (GOOD.replace("USER", "{auth-provider: {name: gcp}}"), "user of context 'one': exec and auth-provider"),
        (GOOD.replace("USER", "{}").replace("current-context: one", ""), "No current context"),
        (GOOD.replace("USER", "{}").replace("current-context: one", "current-context: x"), "Context 'x' not found"),
        ("contexts: []", "lacks 'clusters'"),
        ("[]", "config: "),
        ("", "config: "),
        ("{", "config: "),
    ],
)
def test_kubeconfigs_that_are_refused(tmp_path, text, problem):
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(BadConfig, match=problem):
        load_config(path)


def test_no_file(tmp_path):
    with pytest.raises(BadConfig, match="nothing"):
        load_config(tmp_path / "nothing")


def test_the_service_account_of_a_pod_comes_first(tmp_path, monkeypatch):
    for name, text in (("token", "secret"), ("namespace", "team"), ("ca.crt", "")):
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    found = load_config(service_account=tmp_path)
    assert (found.cluster.server, found.namespace) == ("https://[fd00::1]:443", "team")


def test_a_service_account_without_an_api(tmp_path, monkeypatch):
    for name, text in (("token", "secret"), ("namespace", "team")):
        (tmp_path / name).write_text(text)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(BadConfig, match="KUBERNETES_SERVICE_HOST"):
        load_config(service_account=tmp_path)


def test_without_a_pod_the_environment_names_the_kubeconfig(tmp_path, monkeypatch):
    path = tmp_path / "config"
    path.write_text(GOOD.replace("USER", "{}"))
    monkeypatch.setenv("KUBECONFIG", str(path))
    assert load_config(service_account=tmp_path / "none").context_name == "one"
