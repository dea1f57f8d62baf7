"""Saved party: one party with the weights that it trained, ready to predict with the others.

Parties meet with the same certificates and manifest as for training, and check that they trained together. Then,
request by request: the label party sends tags of ids that it asks about for the first time, learns which of them each
party has, names the rows that all have, and everyone does its part of a prediction, defences active. When a process at
either end is new, everything begins again.
"""

from dataclasses import dataclass

from cutlayer.errors import ProtocolError, RunError
from cutlayer.net.party.finished_run import FinishedRun
from cutlayer.net.predict.row_index import RowNumbers, row_index_of
from cutlayer.session import Carry, Session

COUNT_FILE = "serving-count"  # how often this party has met to predict


@dataclass(frozen=True)
class PredictionSession:
    """What one meeting began: a session, and the numbers of this party's rows."""

    session: Session
    numbers: RowNumbers


class SavedParty:
    """A finished run and the rows that can be asked about."""

    def __init__(self, run: FinishedRun) -> None:
        self.run = run
        self.index = row_index_of(run)
        self._count_path = run.folder.path / COUNT_FILE

    def begin(self, count: int, carrier: Carry) -> PredictionSession:
        """Make the party again, with a session whose steps no session had before: some masks are drawn by step."""
        if not self.meetings < count < 1 << 30:
            leader = self.run.file.run.label_party
            raise ProtocolError(f"Expected {leader} to begin beyond meeting {self.meetings}, got {count}.")
        self.run.folder.write(self._count_path, str(count).encode())
        plan = self.run.plan
        party = self.run.party(None if self.index is None else self.index.features)
        numbers = RowNumbers(plan.device)
        party.find_rows = numbers.rows
        session = Session(
            {party.name: party},
            seed=plan.seed,
            record=lambda message: None,
            device=plan.device,
            carry=carrier,
        )
        session.step = count << 32
        return PredictionSession(session, numbers)

    @property
    def meetings(self) -> int:
        """How often this party has met to predict."""
        text = self._count_path.read_text() if self._count_path.exists() else "0"
        if not text.isdecimal():
            raise RunError(
                f"Expected a number in {self._count_path}, got something else: restore it, masks must not repeat."
            )
        return int(text)
