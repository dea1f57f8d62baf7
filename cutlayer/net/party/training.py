"""Training: one party meets the others, trains with them, and comes back after every fault."""

import math
import time
from dataclasses import dataclass

import torch
from torch import Tensor

from cutlayer import checkpoint
from cutlayer.errors import ConfigError, Diverged, RunError
from cutlayer.json_types import Json
from cutlayer.net.party.alignment import AlreadyFinished
from cutlayer.net.party.connection import Connection
from cutlayer.net.party.finished_run import save_for_prediction
from cutlayer.net.party.ledger import only_aligned
from cutlayer.net.party.meeting import Meeting, StartingPoint
from cutlayer.net.party.own_data import AlignedData, DataSource, data_source
from cutlayer.net.party.results import model_digests, save_models, score
from cutlayer.net.party.run_folder import CheckpointFacts
from cutlayer.net.peers.differences import differences
from cutlayer.net.peers.ending import dismiss_all, say_goodbye
from cutlayer.net.peers.events import Regroup, Topic
from cutlayer.progress import Progress, silent
from cutlayer.session import Session, batches
from cutlayer.transcript import Transcript
from cutlayer.version import __version__


def refuse_other_run(connection: Connection) -> None:
    """Once work was done in it, a folder belongs to one run: checkpoints fit no other, and masks must not repeat."""
    folder, manifest = connection.folder, connection.folder.read_facts("manifest")
    lines = [] if manifest is None else differences(connection.run.to_json(), manifest, str(folder.path))
    if lines and not (folder.is_blank and only_aligned(folder.path / "ledger.jsonl")):
        raise ConfigError(
            f"The folder holds a run with another manifest: {'; '.join(lines)}. Go back to that one, or choose "
            "another folder."
        )


@dataclass(frozen=True)
class Position:
    """Where training stands: the epoch, and how many of its batches are done."""

    epoch: int = 0
    batches: int = 0


class Training:
    """One party's training, as `cutlayer party` runs it."""

    def __init__(
        self,
        connection: Connection,
        *,
        device: str = "cpu",
        source: DataSource | None = None,
        progress: Progress = silent,
    ) -> None:
        refuse_other_run(connection)
        self.connection, self.file, self.folder = connection, connection.file, connection.folder
        self.progress, self.log = progress, connection.log
        seed = self.folder.private_seed() if self.file.party.seed is None else self.file.party.seed
        self.plan = connection.run.plan(private_seed=seed, device=device)
        self.transcript = Transcript()
        self.meeting = Meeting(connection, source or data_source(self.file), self.plan, self.transcript.record)
        self.history: list[dict[str, float]] = []
        self._began = time.perf_counter()

    def run(self) -> dict[str, Json]:
        """Meet and train until everything is done; the record that is also written to run.json."""
        record = self.folder.read_facts("run")
        if record is not None and self.folder.read_json("farewell") is None:
            raise ConfigError(f"The run in {self.folder.path} is finished; choose another folder for a new one.")
        with self.connection.opened():
            return self._train_until_done() if record is None else self._part(record)

    def _train_until_done(self) -> dict[str, Json]:
        while True:
            try:
                return self._train_from(self.meeting.agree())
            except Regroup as regroup:
                self.log(f"{regroup.peer} calls all together: going back to the last checkpoint that all have.")
            except AlreadyFinished:
                return self._part(self.folder.read_facts("pending"))

    def _train_from(self, start: StartingPoint) -> dict[str, Json]:
        """Train from a checkpoint to the end, test, save."""
        self.folder.remove("pending")
        session = Session(
            {start.party.name: start.party},
            seed=self.plan.seed,
            record=self.transcript.record,
            device=self.plan.device,
            carry=self.connection.carrier,
            lookahead=0 if self.file.is_label_party else self.connection.run.lookahead,
            rest=self.connection.run.checkpoint,
        )
        position = self._restore(session, start)
        for epoch in range(position.epoch, self.plan.recipe.epochs):
            self._train_epoch(session, start.data.train, epoch, position.batches if epoch == position.epoch else 0)
        outputs = session.take_part(start.data.test)
        record = self._record(session, start.data, torch.cat(outputs).cpu() if outputs else None)
        save_models(self.folder, session.parties)
        save_for_prediction(self.folder, start)
        return self._finish(record)

    def _restore(self, session: Session, start: StartingPoint) -> Position:
        """Go back to the checkpoint that the meeting named."""
        self.folder.forget(after=start.step)
        self.history = []
        if not start.step:
            return Position()
        tensors, facts = self.folder.load(start.step)
        checkpoint.restore(start.party, {key: value for key, value in tensors.items() if key != "losses"})
        session.step, self.history = facts["step"], facts["history"]
        session.losses = list(tensors["losses"].unbind()) if "losses" in tensors else []
        self.log(f"Going on from step {start.step}.")
        return Position(facts["epoch"], facts["done"])

    def _train_epoch(self, session: Session, rows: Tensor, epoch: int, done: int) -> None:
        """The rest of an epoch, with a checkpoint every so many steps and at the end."""
        recipe, count = self.plan.recipe, done
        total = len(list(batches(rows, recipe.batch_size)))
        status = f"loss {self.history[-1]['loss']:.4f}" if self.history else ""

        def on_step() -> None:
            nonlocal count
            count += 1
            self.progress(epoch * total + count, recipe.epochs * total, status)
            if session.step % self.connection.run.checkpoint == 0 and count < total:
                self._save(session, Position(epoch, count))

        loss = session.train_epoch(epoch, rows, on_step, done=done)
        if self.file.is_label_party:
            if not math.isfinite(loss):
                raise Diverged(f"Training diverged in epoch {epoch}: use a smaller lr.")
            self.history.append({"epoch": epoch, "loss": loss})
        self._save(session, Position(epoch + 1))

    def _save(self, session: Session, position: Position) -> None:
        (party,) = session.parties.values()
        tensors = checkpoint.state_of(party)
        if session.losses and position.batches:
            tensors["losses"] = torch.stack(session.losses)
        facts = CheckpointFacts(epoch=position.epoch, done=position.batches, step=session.step, history=self.history)
        self.folder.save(session.step, tensors, facts)

    def _record(self, session: Session, data: AlignedData, outputs: Tensor | None) -> dict[str, Json]:
        return {
            "party": self.connection.name,
            "manifest": self.connection.run.to_json(),
            "run": self.connection.run.digest.hex(),
            **({} if outputs is None else score(data, outputs)),
            "rows": {"train": len(data.train), "test": len(data.test)},
            "classes": list(data.classes),
            "models": model_digests(session.parties),
            "history": self.history,
            "bytes": self.transcript.traffic(),
            "seconds": round(time.perf_counter() - self._began, 1),
            "cutlayer": __version__,
        }

    def _finish(self, record: dict[str, Json]) -> dict[str, Json]:
        """Nobody leaves before all have saved their models; from then on nobody goes back."""
        mailbox, inbox, label_party = self.connection.mailbox, self.connection.inbox, self.connection.label_party
        if mailbox.leads:
            inbox.wait_notes(Topic.SAVED, mailbox.peers)
            self.folder.write_json("farewell", list(mailbox.peers))
            self.folder.write_json("run", record)
        else:
            self.folder.write_json("pending", record)
            mailbox.send_note(label_party, Topic.SAVED)
            inbox.wait_note((Topic.DONE,), label_party)
        return self._part(record)

    def _part(self, record: dict[str, Json] | None) -> dict[str, Json]:
        """All have saved their models: the label party says so until each has heard it; the others say goodbye."""
        inbox, label_party = self.connection.inbox, self.connection.label_party
        if record is None:
            raise RunError(f"{label_party} has finished this run, but {self.folder.path} holds no part of it.")
        if self.connection.mailbox.leads:
            try:
                dismiss_all(inbox, self.connection.mailbox.peers)
            except RunError as error:
                self.log(f"The run is finished, though not all have heard so; start again to tell them ({error})")
            else:
                self.folder.remove("farewell")
        else:
            self.folder.write_json("run", record)
            self.folder.remove("pending")
            say_goodbye(inbox, label_party)
        return record
