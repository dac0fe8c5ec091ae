"""A gRPC server on asyncio, as small as one method allows: HTTP/2 by RFC 9113, read and written here.

huffman, hpack   header blocks
frames           numbers of the RFC, how frames are written
reader           the preface, and frames that come in pieces
opening          what a header block asks for
limits           what is accepted of a peer
flood_guard      token buckets for resets and frames without effect
outbound         the output queue and the peer's windows
receive_window   what the peer may still send on the connection
stream           one call: messages in frames, as windows allow
stream_table     the open streams, and closed_streams: those that are over
control          frames that carry no call
fast_path        calls as nearly all of them are, in one go
connection       the rules, without IO: bytes in, calls of handlers, bytes out
server           the same over sockets and TLS

Each part owns its state; parts know those above them in this list, and none knows the connection. Blocks that are
written are constant, so nothing here codes headers.
"""
