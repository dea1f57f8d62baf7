"""The classes that schema.py makes are those of frame.proto."""

import subprocess
import sys
from importlib.resources import files
from pathlib import Path

from google.protobuf import descriptor_pb2

from cutlayer.message import Kind, Phase
from cutlayer.net.wire import frame, schema

PROTO = Path(str(files("cutlayer.net.wire") / "frame.proto"))


def test_protoc_finds_the_same(tmp_path):
    out = tmp_path / "frame.bin"
    command = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        f"-I{PROTO.parent}",
        f"--descriptor_set_out={out}",
        PROTO.name,
    ]
    subprocess.run(command, check=True, timeout=120)
    (compiled,) = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file
    for message in compiled.message_type:
        for field in message.field:
            field.ClearField("json_name")
    assert compiled == schema.file_descriptor()


def test_every_kind_and_phase_that_crosses_has_a_number():
    assert set(frame.KINDS.values()) == set(Kind) - {Kind.SUM, Kind.WEIGHTS, Kind.UPDATE} == set(frame.CAPS)
    assert set(frame.PHASES.values()) == set(Phase)
    assert sorted(frame.TYPE_OF) == [1, 2, 3, 4] and sorted(frame.ENCODINGS) == [0, 1, 2]
