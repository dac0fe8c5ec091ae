"""Between OpenAI's chat completions and Anthropic's messages: requests, responses and streams, both ways.

    requests    the body of a request
    responses   the body of a response and of an error
    streams     server-sent events, piece by piece
    events      splits a byte stream into events

What one API has and the other lacks is left out (`top_k`, `thinking`) or refused with a sentence where leaving it out
would change what the client gets back (`n` above 1).
"""
