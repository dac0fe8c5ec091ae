"""The load of model servers, read off their metrics pages.

engines        what each kind of server calls its numbers
pages          a few numbers off a page, without parsing the rest
responses      HTTP/1.1 responses out of bytes
connections    one kept-open connection to one server
targets        where the pages of an endpoint are
pacing         how soon to look again
scraper        all of it, for the endpoints of a pool
models         which names servers answer to
"""

from modelplane.epp.datalayer.scrape.engines import BadEngine, EngineMetricNames, Engines, MetricFamily, engines_from
from modelplane.epp.datalayer.scrape.models import ModelsWatcher
from modelplane.epp.datalayer.scrape.pacing import MetricsInUse, Pace
from modelplane.epp.datalayer.scrape.scraper import Scraper, ScrapeSettings

__all__ = [
    "BadEngine",
    "EngineMetricNames",
    "Engines",
    "MetricFamily",
    "MetricsInUse",
    "ModelsWatcher",
    "Pace",
    "ScrapeSettings",
    "Scraper",
    "engines_from",
]
