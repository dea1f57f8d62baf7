"""Certificates are checked again while a stream is open."""

import time

import pytest

from cutlayer.net.peers.events import PeerFailed, PeerJoined, PeerLost
from cutlayer.net.trust import recheck
from tests.helpers.stranger_scene import Scene
from tests.helpers.waiting import wait_for


@pytest.mark.parametrize("revoked", ["gone", "bank"])
def test_a_revocation_ends_streams_that_are_open(tmp_path, monkeypatch, revoked):
    """At whichever end the list arrives: the bank hangs up on a party, or a party on the bank."""
    monkeypatch.setattr(recheck, "INTERVAL", 0.1)
    with Scene(tmp_path) as scene:
        mailbox, dialer = scene.dial("gone")
        try:
            assert isinstance(mailbox.events.get(timeout=60), PeerJoined)
            assert wait_for(lambda: scene.bank.links["gone"].is_open)
            owner = "bank" if revoked == "gone" else "gone"
            scene.authority.revoke(revoked)
            (scene.keys[owner] / "crl.pem").write_bytes((scene.authority.folder / "crl.pem").read_bytes())
            assert isinstance(mailbox.events.get(timeout=60), PeerLost)
            broke = mailbox.events.get(timeout=60)  # it dials once more, and that is refused for good
            assert isinstance(broke, PeerFailed) and "refused" in str(broke.error)
            assert wait_for(lambda: any("no longer good: it was revoked" in line for line in scene.lines)), scene.lines
            assert wait_for(lambda: not scene.bank.links["gone"].is_open) and scene.goes_on() and scene.disturbed == []
        finally:
            dialer.close()


def test_a_list_that_is_being_copied_ends_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(recheck, "INTERVAL", 1.0)
    with Scene(tmp_path) as scene:
        scene.authority.revoke("gone")
        whole = (scene.authority.folder / "crl.pem").read_bytes()
        path = scene.keys["bank"] / "crl.pem"
        path.write_bytes(whole[:100])
        time.sleep(1.1)  # one look finds half a list
        path.write_bytes(whole)
        time.sleep(2.2)
        assert scene.goes_on() and scene.disturbed == []
