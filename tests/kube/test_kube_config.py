"""Where the API is, and as whom."""

import pytest

from modelplane.kube import BadConfig, load_config
from modelplane.kube.config import config_of

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


SERVER = "https://example.org:6443"
SECRET = GOOD.replace("USER", "{token: t}")


def test_a_kubeconfig_from_a_secret():
    for server in (SERVER, "https://10.0.0.1:6443", "https://127.0.0.1:39443", "https://[fd00::1]", "https://kube.svc"):
        assert config_of(SECRET.replace(SERVER, server), "the Secret").cluster.server == server


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (SERVER, "http://example.org", r"clusters\[0\].cluster.server: 'http://example.org' is not an https URL"),
        (SERVER, "https://", "is not an https URL of a host"),
        (SERVER, "https://a:b@example.org", "is not an https URL of a host"),
        (SERVER, "https://[::1", "is not a URL"),
        (SERVER, "https://169.254.169.254", "169.254.169.254, a metadata service address"),
        (SERVER, "https://[::ffff:169.254.169.254]", "a metadata service address|reserved"),
        (SERVER, "https://2852039166", "169.254.169.254, a metadata service address"),
        (SERVER, "https://[fe80::1]", "a link-local address"),
        (f'"{SERVER}"', f'"{SERVER}", insecure-skip-tls-verify: true', "cluster.insecure-skip-tls-verify is refused"),
        (f'"{SERVER}"', f'"{SERVER}", proxy-url: "http://a"', "cluster.proxy-url is refused"),
        (f'"{SERVER}"', f'"{SERVER}", certificate-authority: /etc/passwd', "cluster.certificate-authority is refused"),
        ("{token: t}", "{client-key: /etc/key}", r"users\[0\].user.client-key is refused"),
        ("{token: t}", "{client-certificate: /etc/cert}", "user.client-certificate is refused"),
        ("{token: t}", "{tokenFile: /var/token}", "user.tokenFile is refused"),
        ("{token: t}", "{exec: {apiVersion: x, command: rm}}", "user.exec is refused"),
    ],
)
def test_kubeconfigs_from_secrets_that_are_refused(old, new, problem):
    text = SECRET.replace(old, new)
    assert text != SECRET
    with pytest.raises(BadConfig, match=problem):
        config_of(text, "the Secret")


def test_flags_that_are_off_are_as_if_they_were_not_there():
    text = SECRET.replace(f'"{SERVER}"', f'"{SERVER}", insecure-skip-tls-verify: false')
    assert config_of(text, "the Secret").cluster.server == SERVER


@pytest.mark.parametrize(
    ("new", "refused"),
    [
        ("http://10.0.0.1", ""),
        (f'{SERVER}", insecure-skip-tls-verify: true, x: "', ""),
        ("http://169.254.169.254", "metadata"),
        (f'{SERVER}", proxy-url: "http://a', "proxy-url"),
        (f'{SERVER}", certificate-authority: "/etc/passwd', "certificate-authority"),
    ],
)
def test_an_api_without_verified_tls_can_be_allowed_and_nothing_else(new, refused):
    text = SECRET.replace(SERVER, new)
    if not refused:
        assert config_of(text, "the Secret", insecure=True).cluster.server
        return
    with pytest.raises(BadConfig, match=refused):
        config_of(text, "the Secret", insecure=True)
