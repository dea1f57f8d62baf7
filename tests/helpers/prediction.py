"""Joint prediction in one process, for tests: the label party asks, the others answer in threads."""

import threading
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import polars as pl
import torch

from cutlayer.errors import CutlayerError
from cutlayer.net.party.connection import Connection, Purpose
from cutlayer.net.party.finished_run import FinishedRun
from cutlayer.net.predict.feature_side import Responder
from cutlayer.net.predict.label_side import Answer, Predictor
from cutlayer.net.predict.saved_party import SavedParty
from tests.helpers.finished_run import finish, write_files, write_tables
from tests.helpers.waiting import free_port

THREE = ("bank", "shop", "tele")


def at_port(file, port):
    """A party's file with another port."""
    key = "listen" if file.is_label_party else "connect"
    return replace(file, party=replace(file.party, **{key: f"127.0.0.1:{port}"}))


@contextmanager
def predicting(files, *, insecure=True):
    """The label party's predictor; the others answer, and `results` holds what each returned or raised."""
    port, results = free_port(), {}
    with ExitStack() as connections:

        def connect(kind, file):
            connection = Connection(file, Purpose.PREDICT, insecure=insecure, log=lambda text: None)
            return kind(connections.enter_context(connection), SavedParty(FinishedRun.read(file)))

        def respond(name, responder):
            try:
                results[name] = responder.run()
            except CutlayerError as error:
                results[name] = error

        moved = [at_port(file, port) for file in files.values()]
        predictor = next(connect(Predictor, file) for file in moved if file.is_label_party)
        others = {file.party.name: connect(Responder, file) for file in moved if not file.is_label_party}
        threads = [threading.Thread(target=respond, args=item, daemon=True) for item in others.items()]
        predictor.connection.open()
        for thread in threads:
            thread.start()
        predictor.results = results
        yield predictor
        predictor.finish()
        for thread in threads:
            thread.join(20)


def trained_federation(folder, *, parties=("bank", "shop"), run="", regression=False):
    """Files of a finished federation, the session that trained it, and the ids of the common rows in order."""
    write_tables(folder, parties=parties, regression=regression)
    files = write_files(folder, parties=parties, run=run)
    session, rows = finish(files)
    table = pl.read_csv(folder / "bank.csv")["customer"].to_list()
    return files, session, [table[row] for row in rows["bank"].tolist()]


def outputs_of(answers):
    """The outputs of answers, as one tensor."""
    return torch.stack([answer.outputs for answer in answers])


class PretendedPredictor:
    """A label party that answers by itself, after the errors that it was given, in order."""

    def __init__(self, *errors):
        self.errors, self.meetings, self.sizes = list(errors), 0, []
        self.connection = self.inbox = self
        self.log = lambda text: None

    def meet(self):
        """Count a meeting."""
        self.meetings += 1

    def read_pending(self):
        """Nothing arrives."""

    def predict(self, ids):
        """Raise the next error, or answer each id with its own number."""
        self.sizes.append(len(ids))
        if self.errors:
            raise self.errors.pop(0)
        return [Answer(torch.tensor([float(id_), 0.0])) for id_ in ids]
