"""Member: one party's process. It meets the others, trains with them, and comes back after every fault."""

import errno
import fcntl
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save as save_tensors
from torch import Tensor

from cutlayer import checkpoint
from cutlayer.errors import ConfigError, CutlayerError, Diverged, RunError
from cutlayer.metrics import utility
from cutlayer.net.party.ledger import Ledger, only_aligned
from cutlayer.net.party.own_data import Holding, Source, TooFew, source_of
from cutlayer.net.party.party_file import PartyFile
from cutlayer.net.party.store import Store
from cutlayer.net.peers.carrier import Carrier, Regroup, Stopped
from cutlayer.net.peers.dial import Dial
from cutlayer.net.peers.handshake import differences
from cutlayer.net.peers.hub import Hub
from cutlayer.net.peers.mailbox import Post
from cutlayer.net.peers.meeting import Finished, Meeting, Place
from cutlayer.net.predict.trained import keep_for_serving
from cutlayer.net.trust.identity import Identity
from cutlayer.party import LabelParty
from cutlayer.plan import target_scale
from cutlayer.progress import Progress, silent
from cutlayer.session import Session, batches
from cutlayer.training import using_threads
from cutlayer.transcript import Keep, Transcript
from cutlayer.version import __version__


class Member:
    """What `cutlayer party` runs."""

    purpose = ""  # of a process that does not train, so that one that does is refused, and told why

    def __init__(
        self,
        file: PartyFile,
        *,
        insecure: bool = False,
        device: str = "cpu",
        source: Source | None = None,
        log: Callable[[str], None] = print,
        progress: Progress = silent,
    ) -> None:
        self.file, self.run_, self.log, self.progress = file, file.run, log, progress
        self.store = Store(file.folder)
        self._lock = locked(file.folder)
        self._refuse_other()
        identity = None if insecure else identity_of(file)
        self.source = source or source_of(file)
        seed = self.store.private_seed() if file.party.seed is None else file.party.seed
        self.plan = self.run_.plan(private_seed=seed, device=device)
        label, name = self.run_.label_party, file.party.name
        peers = tuple(p for p in self.run_.parties if p != label) if file.is_label_party else (label,)
        self.transcript = Transcript(Keep("none"))
        self.post = Post(name, label, self.run_.digest, peers, self.run_.parties, identity)
        facts = self.run_.to_json()
        self.ledger = Ledger(self.store.folder / "ledger.jsonl", run=self.run_.digest.hex(), defences=facts["defences"])
        self.carrier = Carrier(self.post, patience=file.party.wait, log=log, ledger=self.ledger)
        self.meeting = Meeting(file, self.source, self.plan, self.carrier, self.store, log, self.transcript.record)
        self.history: list[dict[str, float]] = []
        self._began = time.perf_counter()

    def run(self) -> dict[str, Any]:
        """Meet and train until it is done; the record that is also written to run.json."""
        done = self.store.json("run")
        if done is not None and self.store.json("farewell") is None:
            raise ConfigError(f"The run in {self.store.folder} is finished; choose another folder for a new one.")
        end = self._connect()
        try:
            with using_threads(1):
                return self._until_done() if done is None else self._part(done)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise RunError(
                    f"The disk is full while writing {self.store.folder}; what was complete is kept: free some space "
                    "and start again."
                ) from error
            raise
        except CutlayerError as error:
            self._say_why(error)
            raise
        finally:
            end.close()
            self.ledger.close()
            os.close(self._lock)

    def _until_done(self) -> dict[str, Any]:
        while True:
            try:
                return self._once(self.meeting.hold())
            except Regroup as anew:
                self.log(f"{anew.peer} calls all together: going back to the last checkpoint that all have.")
            except Finished:
                return self._part(self.store.json("pending"))

    def _refuse_other(self) -> None:
        """Once something was done, a folder belongs to one run: checkpoints fit no other, and masks must not repeat."""
        found, book = self.store.json("manifest"), self.store.folder / "ledger.jsonl"
        lines = [] if found is None else differences(self.run_.to_json(), found, str(self.store.folder))
        if lines and not (self.store.is_blank and only_aligned(book)):
            raise ConfigError(
                f"The folder holds a run with another manifest: {'; '.join(lines)}. Go back to that one, or choose "
                "another folder."
            )

    def _connect(self) -> Hub | Dial:
        party, facts = self.file.party, self.run_.to_json()
        facts |= {"purpose": self.purpose} if self.purpose else {}
        if self.file.is_label_party:
            hub = Hub(self.post, party.listen, facts, self.log)
            self.log(f"{party.name} listens at {party.listen.rpartition(':')[0]}:{hub.port}.")
            return hub
        self.log(f"{party.name} dials {party.connect}.")
        return Dial(self.post, party.connect, facts, self.log)

    def _once(self, place: Place) -> dict[str, Any]:
        """Train from a checkpoint to the end, test, save."""
        self.store.remove("pending")
        party, holding = place.party, place.holding
        session = Session(
            {party.name: party},
            seed=self.plan.seed,
            record=self.transcript.record,
            device=self.plan.device,
            carry=self.carrier,
            lookahead=0 if self.file.is_label_party else self.run_.lookahead,
            rest=self.run_.checkpoint,
        )
        self._train(session, holding, *self._restore(session, place))
        outputs = session.take_part(holding.test)
        record = self._record(session, holding, torch.cat(outputs).cpu() if outputs else None)
        self._save_models(session)
        keep_for_serving(self.store, place)
        return self._finish(record)

    def _restore(self, session: Session, place: Place) -> tuple[int, int]:
        """Go back to a step's checkpoint; the epoch to go on with, and how many of its batches are done."""
        self.store.forget(after=place.step)
        self.history = []
        if not place.step:
            return 0, 0
        tensors, facts = self.store.load(place.step)
        checkpoint.restore(place.party, {k: v for k, v in tensors.items() if k != "losses"})
        session.step, self.history = facts["step"], facts["history"]
        session.losses = list(tensors["losses"].unbind()) if "losses" in tensors else []
        self.log(f"Going on from step {place.step}.")
        return facts["epoch"], facts["done"]

    def _train(self, session: Session, holding: Holding, first: int, done: int) -> None:
        """All epochs that are left, with checkpoints every so many steps and after every epoch."""
        recipe = self.plan.recipe
        each = len(list(batches(holding.train, recipe.batch_size)))
        every, party = self.run_.checkpoint, next(iter(session.parties.values()))

        def save(epoch: int, done: int) -> None:
            tensors = checkpoint.state_of(party)
            if session.losses and done:
                tensors["losses"] = torch.stack(session.losses)
            facts = {"epoch": epoch, "done": done, "step": session.step, "history": self.history}
            self.store.save(session.step, tensors, facts)

        for epoch in range(first, recipe.epochs):
            count = done if epoch == first else 0

            def on_step(epoch: int = epoch) -> None:
                nonlocal count
                count += 1
                self.progress(epoch * each + count, recipe.epochs * each, _status(self.history))
                if session.step % every == 0 and count < each:
                    save(epoch, count)

            loss = session.train_epoch(epoch, holding.train, on_step, done=count)
            if isinstance(party, LabelParty):
                if loss != loss or loss in (float("inf"), float("-inf")):
                    raise Diverged(f"Training diverged in epoch {epoch}: use a smaller lr.")
                self.history.append({"epoch": epoch, "loss": loss})
            save(epoch + 1, 0)

    def _record(self, session: Session, holding: Holding, outputs: Any) -> dict[str, Any]:
        metrics = {} if outputs is None else score(holding, outputs)
        models = {
            f"{n}.{part}": checkpoint.digest(m) for n, p in session.parties.items() for part, m in p.modules.items()
        }
        return {
            "party": self.file.party.name,
            "manifest": self.run_.to_json(),
            "run": self.run_.digest.hex(),
            **metrics,
            "rows": {"train": len(holding.train), "test": len(holding.test)},
            "classes": list(holding.classes),
            "models": models,
            "history": self.history,
            "bytes": self.transcript.traffic(),
            "seconds": round(time.perf_counter() - self._began, 1),
            "cutlayer": __version__,
        }

    def _save_models(self, session: Session) -> None:
        folder = self.store.folder / "models"
        folder.mkdir(exist_ok=True)
        for name, party in session.parties.items():
            for part, module in party.modules.items():
                state = {key: value.contiguous().cpu() for key, value in module.state_dict().items()}
                self.store.write(folder / f"{name}.{part}.safetensors", save_tensors(state))

    def _finish(self, record: dict[str, Any]) -> dict[str, Any]:
        """Nobody leaves before all have saved their models; from then on nobody goes back."""
        if self.file.is_label_party:
            self.carrier.note("saved", self.post.peers)
            self.store.keep_json("farewell", list(self.post.peers))
            self.store.keep_json("run", record)
        else:
            self.store.keep_json("pending", record)
            self.post.tell(self.run_.label_party, "saved")
            self.carrier.note("done", [self.run_.label_party])
        return self._part(record)

    def _part(self, record: dict[str, Any] | None) -> dict[str, Any]:
        """All have saved their models. The label party says so until each has heard it; the others say goodbye."""
        label = self.run_.label_party
        if record is None:
            raise RunError(f"{label} has finished this run, but {self.store.folder} holds no part of it.")
        if self.file.is_label_party:
            try:
                self.carrier.part(self.post.peers)
            except RunError as error:
                self.log(f"The run is finished, though not all have heard so; start again to tell them ({error})")
            else:
                self.store.remove("farewell")
        else:
            self.store.keep_json("run", record)
            self.store.remove("pending")
            self._leave()
        return record

    def _leave(self) -> None:
        """A feature party says goodbye."""
        label = self.run_.label_party
        self.carrier.leave(label)
        self.post.tell(label, "bye")
        self.post.drain([label], 5.0)

    def _say_why(self, error: CutlayerError) -> None:
        """Tell the others that this ends the run for all, unless one is missing or knows already."""
        leads = self.file.is_label_party
        missing = isinstance(error, RunError) and not isinstance(error, Diverged)
        if isinstance(error, TooFew) and not leads:
            self.carrier.wait_stopped(5.0)  # every party sees it for itself
        elif not missing and (leads or not isinstance(error, Stopped)):
            self.carrier.stop(error)


def score(holding: Holding, outputs: Tensor) -> dict[str, float]:
    """How well the label party's outputs fit its test rows."""
    assert holding.labels is not None and holding.goal is not None
    labels = holding.labels[holding.test].numpy()
    if holding.classes:
        return utility.classification(labels, outputs.numpy())
    mean, spread = target_scale(holding.labels, holding.goal, holding.train)
    return utility.regression(labels, (outputs * spread + mean).numpy()[:, 0])


def identity_of(file: PartyFile) -> Identity:
    """The party's keys and certificate, which must be its own."""
    if not file.party.keys:
        raise ConfigError(f"Expected `keys` in [party] of {file.path}: make some with `cutlayer keys request`.")
    identity = Identity.load(file.at(file.party.keys))
    if identity.name != file.party.name:
        raise ConfigError(f"Expected keys of {file.party.name!r} in {file.party.keys}, got those of {identity.name!r}.")
    return identity


def locked(folder: Path) -> int:
    """Keep other processes out of a party's folder."""
    file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        with suppress(OSError):
            os.close(file)
        raise ConfigError(f"Another process is using {folder}; stop it, or choose another folder.") from error
    return file


def _status(history: list[dict[str, float]]) -> str:
    return f"loss {history[-1]['loss']:.4f}" if history else ""
