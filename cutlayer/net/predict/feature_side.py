"""Feature side: a feature party's part in joint prediction. It answers for as long as it is asked."""

from collections import Counter

from cutlayer.net.party.connection import Connection
from cutlayer.net.peers.events import Regroup, Stopped, Topic
from cutlayer.net.predict.row_request import ID_LIMIT, answer, request_batch
from cutlayer.net.predict.saved_party import PredictionSession, SavedParty


class Responder:
    """Answers the label party's requests."""

    def __init__(self, connection: Connection, saved: SavedParty) -> None:
        self.connection, self.saved = connection, saved
        self.counts = Counter(asked=0, known=0, batches=0)

    def run(self, *, forever: bool = False) -> dict[str, int]:
        """Answer until the label party is done, or for ever, waiting for the next one; what was answered."""
        with self.connection.opened():
            while True:
                try:
                    self._respond(self._meet(), forever)
                    return dict(self.counts)
                except Regroup:
                    self.connection.log("A party started again: beginning anew.")
                except Stopped as error:
                    if not forever:
                        raise
                    self.connection.log(str(error))

    def _meet(self) -> PredictionSession:
        mailbox, inbox, leader = self.connection.mailbox, self.connection.inbox, self.connection.label_party
        inbox.presence.idle = True
        inbox.wait_connected([leader])
        call = inbox.wait_note((Topic.REGROUP,), leader, generation=mailbox.generation + 1)
        inbox.begin_meeting(call.generation)
        shape = self.saved.run.shapes[self.connection.name]
        mailbox.allow({leader: shape}, ID_LIMIT)
        trained, meetings = self.saved.run.training, self.saved.meetings
        mailbox.send_note(leader, Topic.STATE, trained=trained, shape=list(shape), count=meetings)
        count = inbox.wait_note((Topic.BEGIN,), leader).facts.get("count")
        return self.saved.begin(count if type(count) is int else 0, self.connection.carrier)

    def _respond(self, prediction: PredictionSession, forever: bool) -> None:
        inbox, leader, name = self.connection.inbox, self.connection.label_party, self.connection.name
        session, numbers, index = prediction.session, prediction.numbers, self.saved.index
        assert index is not None
        while True:
            inbox.presence.idle = True
            note = inbox.wait_note((Topic.ASK, Topic.END), leader)
            if note.topic == Topic.END:
                if forever:
                    continue
                inbox.presence.excuse(leader)
                return
            inbox.presence.idle = False
            batch = request_batch(session.step)
            talk = answer(name, leader, batch, bool(note.facts.get("new")), index, numbers)
            rows = self.connection.carrier.run(batch, talk)
            session.step += 1
            self.counts["batches"] += 1
            self.counts["asked"] = numbers.count
            self.counts["known"] += len(rows)
            if len(rows):
                session.take_part(rows)
