import logging

from modelplane.epp.config.config import load
from modelplane.epp.datalayer.endpoints import StaticEndpoints
from modelplane.epp.server.compiled import describe_build
from modelplane.epp.server.runner import PickerRunner, RunnerOptions
from modelplane.epp.server.server import PickerSettings


def test_the_log_names_the_build(run, caplog):
    settings = PickerSettings(host="127.0.0.1", port=0, health_port=-1, drain_s=1.0)

    async def scenario():
        program = PickerRunner(StaticEndpoints(), load(""), settings, RunnerOptions(metrics_port=-1, scrapes=False))
        await program.start()
        await program.stop()

    with caplog.at_level(logging.INFO):
        run(scenario())
    assert f"the request path is {describe_build()}" in caplog.messages
