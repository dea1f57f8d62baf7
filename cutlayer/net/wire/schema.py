"""The protobuf classes of frame.proto, made here by protobuf's own factory.

Code that protoc generates works with protobuf releases of its own age only, and a bank has one release for
everything; this works with all of them. tests/net/test_schema.py compiles frame.proto and finds the same.
"""

from typing import Any

from cutlayer.errors import ConfigError

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
except ImportError as error:
    raise ConfigError('The network needs protobuf, which is not installed: pip install "cutlayer[net]".') from error

PACKAGE = "cutlayer.net"
ENUMS = {
    "Phase": ("PHASE_UNKNOWN", "ALIGN", "TRAIN", "PREDICT"),
    "Kind": ("KIND_UNKNOWN", "EMBEDDING", "GRADIENT", "SETUP", "CIPHER", "SHARE", "POINTS"),
    "Type": ("TYPE_UNKNOWN", "FLOAT32", "FLOAT64", "INT64", "UINT8"),
    "Spelling": ("PLAIN", "HALF", "BITS"),
}
MESSAGES = {
    "Frame": "note:Note tensor:Tensor",
    "Note": "topic:string text:string",
    "Tensor": (
        "run:bytes sender:string receiver:string phase:Phase kind:Kind type:Type spelling:Spelling shape:uint32* "
        "parts:uint32 certificate:bytes signature:bytes"
    ),
}
SCALARS = {
    name: getattr(descriptor_pb2.FieldDescriptorProto, f"TYPE_{name.upper()}")
    for name in ("uint32", "uint64", "string", "bytes")
}


def file_descriptor() -> Any:
    """What protoc makes of frame.proto."""
    file = descriptor_pb2.FileDescriptorProto(name="frame.proto", package=PACKAGE, syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, declared in enumerate(fields.split(), start=1):
            field, _, kind = declared.partition(":")
            made = message.field.add(name=field, number=number, label=3 if kind.endswith("*") else 1)
            kind = kind.removesuffix("*")
            made.type = SCALARS.get(kind) or (14 if kind in ENUMS else 11)  # an enum or a message
            if kind not in SCALARS:
                made.type_name = f".{PACKAGE}.{kind}"
            if name == "Frame" and kind in MESSAGES:
                made.oneof_index = 0
        if name == "Frame":
            message.oneof_decl.add(name="body")
    for name, words in ENUMS.items():
        enum = file.enum_type.add(name=name)
        for number, word in enumerate(words):
            enum.value.add(name=word, number=number)
    join = file.service.add(name="Federation").method.add(name="Join", client_streaming=True, server_streaming=True)
    join.input_type = join.output_type = f".{PACKAGE}.Frame"
    return file


_pool = descriptor_pool.DescriptorPool()
_pool.Add(file_descriptor())
Frame, Note, Tensor = (
    message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in MESSAGES
)
JOIN = f"/{PACKAGE}.Federation/Join"
