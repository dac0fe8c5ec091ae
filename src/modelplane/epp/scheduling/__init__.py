"""Which endpoint serves a request: the scheduler of the endpoint picker, with no network, clock or randomness in it.

A *cycle* is the decision for one request. Its profile handler names profiles, each profile filters, scores and ranks
the endpoints with the framework's runner, the handler sees the results and names more, until it names none; then it
says which profile is the primary one. The answer is a `Decision`: ranked groups of endpoints, so the order of fallback
is data, and the headers to set and to remove.

The front door is `config.load(text, source, registry) -> Config` and `scheduler.Scheduler(config)`.

    endpoints    an address that serves, what is known of it for good, and its load as last seen
    requests     one request in the terms of the picker, whichever API it came by
    cycle        the state of one decision
    decisions    how a request can end, and what the proxy is told
    plugins      what a plugin can be beyond the framework's filter, scorer and picker
    scheduler    the rounds of a cycle
    config       the ecosystem's configuration, from text to plugins that can be made
    explain      a decision again, with everything that was said on the way; `snapshot` is the state it is of
    filters, scorers, pickers, handlers, admitters, pre_request
                 the plugins, one module each
    memory       what plugins remember from one request to the next
    flow         requests that wait
"""
