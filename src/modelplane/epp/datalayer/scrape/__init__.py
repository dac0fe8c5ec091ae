"""The load of model servers, read off their metrics pages.

engines        what each kind of server calls its numbers
extractor      a few numbers off a page, without parsing the rest
responses      HTTP/1.1 responses out of bytes
connections    one kept-open connection to one server
targets        where the pages of an endpoint are
intervals      how soon to scrape again
scraper        all of it, for the endpoints of a pool
models_poller  the model names of servers
"""

from modelplane.epp.datalayer.scrape.engines import BadEngine, EngineMetricNames, Engines, MetricFamily, engines_from
from modelplane.epp.datalayer.scrape.intervals import MetricsInUse, ScrapeIntervals
from modelplane.epp.datalayer.scrape.models_poller import ModelsPoller
from modelplane.epp.datalayer.scrape.scraper import Scraper
from modelplane.epp.datalayer.scrape.settings import ScrapeSettings

__all__ = [
    "BadEngine",
    "EngineMetricNames",
    "Engines",
    "MetricFamily",
    "MetricsInUse",
    "ModelsPoller",
    "ScrapeIntervals",
    "ScrapeSettings",
    "Scraper",
    "engines_from",
]
