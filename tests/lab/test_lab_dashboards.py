"""What the step on the dashboard takes from the pages and the installation."""

from lab.e2e.dashboards import secret_command
from lab.e2e.run import known_steps
from modelplane.crossplane.dashboard_objects import TOKEN_KEY, TOKEN_SECRET
from modelplane.web.page_token import LEAST


def test_the_secret_is_made_as_the_page_says():
    words = secret_command().split()
    assert words[:3] == ["kubectl", "-n", "modelplane-system"]
    assert TOKEN_SECRET in words
    assert f'--from-literal={TOKEN_KEY}="$(openssl' in secret_command()
    assert 2 * int(words[-1].rstrip(')"')) >= LEAST


def test_the_steps_have_names():
    assert {"dashboard", "telemetry"} <= known_steps()
