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

from modelplane.epp.datalayer.scrape.engines import BadEngine, Engine, Engines, Metric, engines_from
from modelplane.epp.datalayer.scrape.models import ModelsWatcher
from modelplane.epp.datalayer.scrape.pacing import Pace, Uses
from modelplane.epp.datalayer.scrape.scraper import Scraper, ScrapeSettings

__all__ = [
    "BadEngine",
    "Engine",
    "Engines",
    "Metric",
    "ModelsWatcher",
    "Pace",
    "ScrapeSettings",
    "Scraper",
    "Uses",
    "engines_from",
]
