"""Ending: how a process leaves the others, when everything is done or after an error."""

import time
from collections.abc import Sequence
from contextlib import suppress

from cutlayer.errors import CutlayerError
from cutlayer.net.peers.events import NoteReceived, Regroup, Stopped, Topic
from cutlayer.net.peers.inbox import Inbox


def dismiss_all(inbox: Inbox, peers: Sequence[str]) -> None:
    """Label party: tell every peer that all is done, each new process again, until all have said goodbye."""
    mailbox, presence = inbox.mailbox, inbox.presence
    waiting, told = set(peers), set[str]()
    presence.restart_patience(waiting)
    while waiting:
        for peer in waiting & presence.connected - told:
            mailbox.send_note(peer, Topic.DONE)
            told.add(peer)
        try:
            event = inbox.next_event(f"for {', '.join(sorted(waiting))}")
        except Regroup as regroup:
            told.discard(regroup.peer)
            continue
        if isinstance(event, NoteReceived) and event.topic == Topic.BYE and event.peer in waiting:
            waiting.remove(event.peer)
            presence.excuse(event.peer)
            mailbox.send_note(event.peer, Topic.BYE)  # confirms that its goodbye was heard


def say_goodbye(inbox: Inbox, label_party: str) -> None:
    """Feature party: all is done, so say goodbye."""
    inbox.presence.excuse(label_party)
    inbox.mailbox.send_note(label_party, Topic.BYE)
    inbox.mailbox.wait_confirmed([label_party], 5.0)


def report_stop(inbox: Inbox, error: CutlayerError) -> None:
    """Tell every peer that this process ends, and whose error caused it.

    What exactly went wrong is said here only, since it may name columns or ids.
    """
    mailbox = inbox.mailbox
    party, kind = mailbox.name, f" ({type(error).__name__})"
    if isinstance(error, Stopped):  # another party's own words are not passed on
        party, kind = error.party, ""
    for peer in mailbox.peers:
        inbox.presence.excuse(peer)
        if peer != party:
            reason = f"an error of its own{kind}: ask {party} what it said."
            mailbox.send_note(peer, Topic.STOPPED, who=party, why=reason)
    mailbox.wait_confirmed(mailbox.peers, 2.0)


def wait_until_stopped(inbox: Inbox, timeout: float) -> None:
    """Wait for the label party, which ends for the same reason, to hang up first."""
    end = time.monotonic() + timeout
    with suppress(CutlayerError, Regroup):
        while time.monotonic() < end:
            inbox.next_event("for the end")
