"""The scheduler of the endpoint picker: which endpoint serves a request. No network, clock or randomness.

A scheduling cycle is the decision for one request. The profile handler picks profiles, each profile filters, scores and
ranks the endpoints with the framework's runner, the handler gets the results and picks more, until it picks none; then
it names the primary profile. The result is a `Decision`: ranked groups of endpoints, so the order of fallback is data,
and the headers to set and to remove.

The front door is `config.load(text, source, registry) -> Config` and `Scheduler(config.build())`.

    endpoints    an address that serves: its labels, its metrics and what is in flight
    metrics      one scrape of a server's metrics
    requests     one request, independent of its API
    context      the state of one cycle
    decisions    the outcomes of a request, and what the proxy gets
    plugins      the extension points beyond the framework's filter, scorer and picker
    scheduler    the rounds of a cycle
    results      from the results of profiles to a decision
    filters, scorers, pickers, handlers, admitters, pre_request
                 the plugins, one module each
    producers    plugins with state: prefix indexes, in-flight load, sessions, latency
"""
