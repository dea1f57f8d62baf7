"""Packets are handled where gRPC has them first, and what goes wrong there comes out of the stream."""

import pytest

from cutlayer.errors import ProtocolError
from cutlayer.net.peers.stream_reader import StreamReader
from cutlayer.net.wire.packet import Packet, note


def test_the_first_word_comes_out_as_it_is_and_all_others_go_to_the_handler():
    reader, handled = StreamReader(), []
    words = [note("state", str(number)).to_bytes() for number in range(4)]
    stream = map(reader, words)  # as gRPC does: a message is received when it is asked for
    assert next(stream) == words[0]
    reader.read_all(stream, handled.append)
    assert handled == [Packet.from_bytes(word) for word in words[1:]]


def test_an_error_ends_the_stream_and_nothing_after_it_is_handled():
    reader, handled = StreamReader(), []
    words = [note("state", "").to_bytes(), b"short", note("state", "").to_bytes()]
    with pytest.raises(ProtocolError, match="Expected a packet of"):
        reader.read_all(map(reader, words), handled.append)
    assert len(handled) == 1


def test_errors_of_any_kind_come_out():
    def handler(packet):
        raise KeyError("lost")

    reader = StreamReader()
    with pytest.raises(KeyError, match="lost"):
        reader.read_all(map(reader, [note("state", "").to_bytes()]), handler)
