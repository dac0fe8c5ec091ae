"""Messages of external processing as the protobuf library understands them, from the numbers of their fields.

A second implementation to compare with. The package has a name of its own, so that it meets no other definition.
"""

from google.protobuf import (  # type: ignore[import-untyped]  # protobuf ships no types
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    struct_pb2,
)

_PACKAGE = "modelplane.oracle"
_STRUCT = "google.protobuf.Struct"

# Message: field number → (name, type); a type in capitals is another message, `*` means repeated.
_MESSAGES = {
    "HeaderValue": {1: "key string", 2: "value string", 3: "raw_value bytes"},
    "HeaderMap": {1: "headers *HeaderValue"},
    "HeaderValueOption": {1: "header HeaderValue", 3: "append_action int32"},
    "HttpHeaders": {1: "headers HeaderMap", 3: "end_of_stream bool"},
    "HttpBody": {1: "body bytes", 2: "end_of_stream bool", 3: "end_of_stream_without_message bool"},
    "HttpTrailers": {1: "trailers HeaderMap"},
    "FilterMetadata": {1: "key string", 2: f"value {_STRUCT}"},
    "Metadata": {1: "filter_metadata *FilterMetadata"},
    "ProtocolConfiguration": {1: "request_body_mode int32", 2: "response_body_mode int32"},
    "ProcessingRequest": {
        2: "request_headers HttpHeaders",
        3: "response_headers HttpHeaders",
        4: "request_body HttpBody",
        5: "response_body HttpBody",
        6: "request_trailers HttpTrailers",
        7: "response_trailers HttpTrailers",
        8: "metadata_context Metadata",
        9: "attributes *FilterMetadata",
        10: "observability_mode bool",
        11: "protocol_config ProtocolConfiguration",
        99: "unknown string",
    },
    "HeaderMutation": {1: "set_headers *HeaderValueOption", 2: "remove_headers *string"},
    "StreamedBodyResponse": {1: "body bytes", 2: "end_of_stream bool"},
    "BodyMutation": {1: "body bytes", 2: "clear_body bool", 3: "streamed_response StreamedBodyResponse"},
    "CommonResponse": {
        1: "status int32",
        2: "header_mutation HeaderMutation",
        3: "body_mutation BodyMutation",
        5: "clear_route_cache bool",
    },
    "HeadersResponse": {1: "response CommonResponse"},
    "BodyResponse": {1: "response CommonResponse"},
    "TrailersResponse": {1: "header_mutation HeaderMutation"},
    "HttpStatus": {1: "code int32"},
    "ImmediateResponse": {1: "status HttpStatus", 2: "headers HeaderMutation", 3: "body bytes", 5: "details string"},
    "ProcessingResponse": {
        1: "request_headers HeadersResponse",
        2: "response_headers HeadersResponse",
        3: "request_body BodyResponse",
        4: "response_body BodyResponse",
        5: "request_trailers TrailersResponse",
        6: "response_trailers TrailersResponse",
        7: "immediate_response ImmediateResponse",
        8: f"dynamic_metadata {_STRUCT}",
    },
}


def _file() -> descriptor_pb2.FileDescriptorProto:
    types = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="oracle.proto", package=_PACKAGE, syntax="proto3")
    file.dependency.append("google/protobuf/struct.proto")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, words in fields.items():
            field_name, kind = words.split()
            repeated = kind.startswith("*")
            kind = kind.removeprefix("*")
            field = message.field.add(
                name=field_name, number=number, label=types.LABEL_REPEATED if repeated else types.LABEL_OPTIONAL
            )
            if kind in _MESSAGES or kind == _STRUCT:
                field.type = types.TYPE_MESSAGE
                field.type_name = f".{kind}" if kind == _STRUCT else f".{_PACKAGE}.{kind}"
            else:
                field.type = getattr(types, f"TYPE_{kind.upper()}")
    return file


def load() -> dict[str, type]:
    """Message classes by name."""
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(struct_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(_file())
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _MESSAGES
    }
