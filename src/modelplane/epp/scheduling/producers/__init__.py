"""What the picker remembers from one request to the next, and the plugins that keep it.

Nothing here reads a clock: the time is the cycle's, or the end of a response. Everything is bounded, and forgets an
endpoint that left the pool.

    hashing            prompts as chains of block hashes
    prefix             where the beginning of a prompt is cached: the slots, and the index that fills them
    approximate        an index from what was sent
    approx_producer    the plugin around it
    kv_events          what engines tell of their caches, read from the wire
    precise            an index from that
    precise_producer   the plugin around it
    in_flight          requests and tokens that were sent and have not ended
    cold               turns for requests whose prompt nobody holds
    sessions           sessions and their endpoints
    regression         a line learned one sample at a time
    latency            predictions of an endpoint's times, learned as it serves
    types              the plugin types

Slots that others read:

    PREFIX, PREFIXES   a `PrefixMatch`; read with `prefix_of`
    TOKENS             the prompts in tokens of the server's own tokenizer
    LATENCY            a `Prediction` or None for each endpoint of the cycle
    SESSION            the request's session
"""
