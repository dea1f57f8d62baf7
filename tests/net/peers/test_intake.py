"""Packets are taken where gRPC has them first, and what goes wrong there comes out of the stream."""

import pytest

from cutlayer.errors import ProtocolError
from cutlayer.net.peers.intake import Intake
from cutlayer.net.wire.packet import Packet, note


def test_the_first_word_comes_out_as_it_is_and_all_others_go_to_the_taker():
    intake, taken = Intake(), []
    words = [note("state", str(number)).to_bytes() for number in range(4)]
    stream = map(intake, words)  # as gRPC does: a message is received when it is asked for
    assert next(stream) == words[0]
    intake.drain(stream, taken.append)
    assert taken == [Packet.from_bytes(word) for word in words[1:]]


def test_an_error_ends_the_stream_and_nothing_after_it_is_taken():
    intake, taken = Intake(), []
    words = [note("state", "").to_bytes(), b"short", note("state", "").to_bytes()]
    with pytest.raises(ProtocolError, match="Expected a packet of"):
        intake.drain(map(intake, words), taken.append)
    assert len(taken) == 1


def test_errors_of_any_kind_come_out():
    def taker(packet):
        raise KeyError("lost")

    intake = Intake()
    with pytest.raises(KeyError, match="lost"):
        intake.drain(map(intake, [note("state", "").to_bytes()]), taker)
