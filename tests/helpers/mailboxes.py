"""Mailboxes and inboxes of parties without a network: frames are carried by hand."""

import torch

from cutlayer.message import Batch, Kind, Message, Phase
from cutlayer.net.peers.inbox import Inbox
from cutlayer.net.peers.mailbox import Mailbox
from cutlayer.net.peers.presence import Patience, Presence
from cutlayer.net.wire.packet import Packet, note

RUN = b"\x01" * 32
PARTIES = ("bank", "shop", "port")


def make_mailbox(name, parties=PARTIES):
    """A party's mailbox with a stream to each peer; `bank` is the label party."""
    peers = tuple(party for party in parties if party != "bank") if name == "bank" else ("bank",)
    mailbox = Mailbox(name, "bank", RUN, peers, parties, None)
    mailbox.streams = {peer: mailbox.links[peer].attach(0) for peer in peers}
    mailbox.allow(dict.fromkeys(parties, (4,)), rows=64)
    return mailbox


def make_inbox(name, parties=PARTIES, patience=60.0):
    """A party's inbox; `lines` holds what it logs."""
    mailbox, lines = make_mailbox(name, parties), []
    inbox = Inbox(mailbox, Presence(mailbox, Patience(patience, ": start again."), lines.append))
    inbox.lines = lines
    return inbox


def message(sender, receiver, kind=Kind.EMBEDDING, payload=None, step=3, phase=Phase.TRAIN):
    """A message of two rows."""
    payload = torch.ones(2, 4) if payload is None else payload
    return Message(Batch(step, phase, torch.arange(2)), sender, receiver, kind, payload)


def arrive(mailbox, peer, generation, packet):
    """A packet arrives from a peer, with the next number."""
    link = mailbox.links[peer]
    link.receive(mailbox.streams[peer], packet._replace(number=link.seen + 1, generation=generation))


def note_arrives(mailbox, peer, topic, text="{}", generation=None):
    """A note arrives from a peer."""
    arrive(mailbox, peer, mailbox.generation if generation is None else generation, note(topic, text))


def unconfirmed(mailbox, peer):
    """The frames that a mailbox keeps for a peer."""
    return [Packet.from_bytes(data).frame for _, data in mailbox.links[peer]._unconfirmed]


def queued_events(mailbox):
    """All events in the queue."""
    events = []
    while not mailbox.events.empty():
        events.append(mailbox.events.get())
    return events
