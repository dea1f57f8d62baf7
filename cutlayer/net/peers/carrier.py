"""Carrier: carries a batch's messages between the one party that is here and those elsewhere.

It does for a network what `session.InProcess` does for a simulation. Everything that leaves is reported to `on_send`
first, so that it can be written into the ledger.
"""

from collections.abc import Callable

from torch import Tensor

from cutlayer.message import Batch, Message, Talk
from cutlayer.net.peers.inbox import Inbox
from cutlayer.net.peers.mailbox import Mailbox
from cutlayer.session import Opened, Record, Result, Talks


class Carrier:
    """Sends what the party here sends, and hands it what arrives."""

    def __init__(self, mailbox: Mailbox, inbox: Inbox, on_send: Callable[[Message], None]) -> None:
        self._mailbox, self._inbox, self._on_send = mailbox, inbox, on_send

    def start(self, batch: Batch | None, talks: Talks, record: Record) -> Opened:
        """Begin the talk of the party here, up to where it waits."""
        opened = Opened(batch, dict(talks))
        for name in talks:
            self._resume(opened, name, None, record)
        return opened

    def finish(self, opened: Opened, talks: Talks, record: Record) -> Result:
        """Hand the party here what arrives until it has finished the batch."""
        assert opened.batch is not None
        opened.talks |= talks
        for name in talks:
            self._resume(opened, name, None, record)
        (name,) = opened.talks
        while name not in opened.results:
            message = self._inbox.wait_message(opened.batch)
            record(message)
            self._resume(opened, name, message, record)
        return opened.results

    def run(self, batch: Batch, talk: Talk[Tensor], record: Record = lambda message: None) -> Tensor:
        """Run one talk of the party here from beginning to end; return its result."""
        name = self._mailbox.name
        result = self.finish(self.start(batch, {}, record), {name: talk}, record)[name]
        assert result is not None
        return result

    def _resume(self, opened: Opened, name: str, message: Message | None, record: Record) -> None:
        opened.resume(name, message, record)
        while opened.outgoing:
            sent = opened.outgoing.popleft()
            record(sent)
            self._on_send(sent)
            self._mailbox.send(sent)
