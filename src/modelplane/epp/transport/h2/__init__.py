"""A gRPC server on asyncio, as small as one method allows: HTTP/2 by RFC 9113, read and written here.

huffman, hpack   header blocks
frames           constants of the RFC, encoding of frames
reader           the preface, and frames that come in pieces
request_head     decodes the headers of a request
limits           what is accepted of a peer
flood_guard      token buckets for resets and frames without effect
outbound         the output queue and the peer's windows
receive_window   the connection's flow-control window for received DATA
stream           one call: messages in frames, as windows allow
stream_table     the open streams, and closed_streams: those that are over
control          frames of the connection
fast_path        the usual calls, in one step
connection       the protocol, without IO: bytes in, calls of handlers, bytes out
server           the connection over sockets and TLS

Each part owns its state; parts import those above them in this list, and none imports the connection. Written header
blocks are constant, so there is no HPACK encoder.
"""
