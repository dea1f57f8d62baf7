"""federate(): clients and a server in one process, round by round; and the run that comes of it."""

import time
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import TypedDict

import torch
from torch import Tensor

from cutlayer._validate import listed, one_of
from cutlayer.blocks.weights import pack, unpack
from cutlayer.cut import Roster
from cutlayer.cuts.concat import Concat
from cutlayer.data.task import Task
from cutlayer.defence import Defence
from cutlayer.errors import Diverged
from cutlayer.horizontal.client import Client
from cutlayer.horizontal.federation import AVERAGER, DEFAULT, SERVER, Exchange, Federation, Method, whole_rows
from cutlayer.horizontal.members import client_of, server_of
from cutlayer.horizontal.server import ClientAnswer, Server
from cutlayer.message import Batch, Kind, Message, Phase
from cutlayer.metrics import utility
from cutlayer.models.defaults import default_bottom, default_top
from cutlayer.plan import Bottoms, Plan, Top
from cutlayer.progress import Progress, silent
from cutlayer.recipe import Recipe
from cutlayer.training import using_threads
from cutlayer.transcript import Keep, Transcript
from cutlayer.view import Manifest, Own, View, view_of


class RoundRecord(TypedDict):
    """What came of a round: the clients' mean loss, who was absent, and whose answer was refused."""

    round: int
    loss: float
    absent: list[str]
    refused: dict[str, str]  # by client: why


@dataclass
class Federated:
    """A federation of clients and its server, trained round by round; and what crossed between them."""

    task: Task
    federation: Federation
    clients: dict[str, Client]
    server: Server
    transcript: Transcript
    metrics: dict[str, float] = field(default_factory=dict)
    history: list[RoundRecord] = field(default_factory=list)
    seconds: float = 0.0

    def round(self, turn: int) -> None:
        """Send weights, collect answers, average. Who is absent or refused is named, and the rest go on."""
        answers, absent = {}, []
        for name, client in self.clients.items():
            try:
                answers[name] = self._ask(client, turn)
            except ConnectionError:
                absent.append(name)
        refused = self.server.merge(answers, turn)
        losses = [torch.stack(self.clients[name].losses).mean() for name in answers if self.clients[name].losses]
        loss = float(torch.stack(losses).mean()) if losses else float("nan")
        self.history.append({"round": turn, "loss": loss, "absent": absent, "refused": refused})

    def _ask(self, client: Client, turn: int) -> ClientAnswer:
        """One client's part of a round, with its messages."""
        weights, no_rows = self.server.weights, torch.empty(0, dtype=torch.int64)
        record, split = self.transcript.record, self.federation.method is Method.SPLITFED
        other = AVERAGER if split else SERVER
        sent = slice(0, len(pack([client.bottom]))) if split else slice(None)  # the server has the top itself
        record(Message(Batch(turn, Phase.TRAIN, no_rows), other, client.name, Kind.WEIGHTS, weights[sent]))
        if self.federation.exchange is Exchange.GRADIENTS:
            (answer, rows), kind = client.gradient(weights, turn), Kind.UPDATE
        else:
            answer, rows, kind = client.fit(weights, turn, record), client.rows, Kind.WEIGHTS
        record(Message(Batch(turn, Phase.TRAIN, rows), client.name, other, kind, answer.payload[sent]))
        return answer

    def end(self) -> None:
        """Give everyone the last weights, and evaluate each client's model on the test rows; means over clients."""
        for client in self.clients.values():
            client.end(self.server.weights)
        alike = "bottom" in self.federation.shares and not self.federation.plan.defences
        scored = list(self.clients.values())[: 1 if alike else None]
        labels = self.task.labels[self.task.test].numpy()
        outputs = [client.outputs(self.task.test) for client in scored]
        if not all(bool(torch.isfinite(output).all()) for output in outputs):
            raise Diverged("Training diverged: outputs are not finite at its end; use a smaller rate or less noise.")
        scores = [utility.classification(labels, output.numpy()) for output in outputs]
        self.metrics = {key: sum(score[key] for score in scores) / len(scores) for key in scores[0]}
        self.metrics["worst_accuracy"] = min(score["accuracy"] for score in scores)

    def manifest(self, name: str) -> Manifest:
        """What the server and a client know."""
        plan = self.federation.plan
        return Manifest(
            task=self.task.name,
            roster=Roster(SERVER, (name,)),
            classes=len(self.task.classes),
            train=self.clients[name].rows,
            test=self.task.test,
            recipe=plan.recipe,
            cut=Concat(),
            seed=plan.seed,
            defences=deepcopy(plan.defences),
            shares=self.federation.shares,
        )

    def view(self, name: str | None = None, *, predict: Tensor | None = None) -> View:
        """What the server saw of a client (the first): messages, its own copy of what is shared, and the outputs of
        the client's bottom for `predict` (the test rows), which FedAdOb's threat model grants it."""
        name = name or next(iter(self.clients))
        one_of("client", name, self.clients)
        client, seen = self.clients[name], Transcript()
        client.replica().outputs(self.task.test if predict is None else predict, seen.write)
        mine = {SERVER, name}
        seen.channels |= {k: c for k, c in self.transcript.channels.items() if {c.sender, c.receiver} == mine}
        shared = deepcopy(client.bottom).eval() if self.federation.method is Method.FEDAVG else None
        top = deepcopy(client.top).eval()  # with the server's numbers: a client's own statistics never crossed
        unpack(self.server.weights[-len(pack([top])) :], [top])
        own = Own(features=None, bottom=shared, top=top)
        return view_of(seen, frozenset([SERVER]), self.manifest(name), {SERVER: own})


def federate(
    task: Task,
    *,
    clients: int = 10,
    method: Method = Method.FEDAVG,
    exchange: Exchange = Exchange.WEIGHTS,
    passes: int = 1,
    weighted: bool = True,
    alpha: float | None = None,
    bottoms: Bottoms = default_bottom,
    top: Top = default_top,
    width: int = 16,
    defences: Sequence[Defence] = (),
    recipe: Recipe = DEFAULT,
    rounds: int | None = None,
    seed: int = 0,
    device: str = "cpu",
    threads: int = 1,
    keep: Keep | str = "ends",
    progress: Progress = silent,
) -> Federated:
    """Train one model over clients with rows of their own (see Federation) and return the run.

    The same arguments give bit-identical weights. `rounds` overrides the recipe's epochs.
    """
    plan = Plan(
        bottoms=bottoms,
        top=top,
        width=width,
        defences=listed("defences", defences, Defence, "cl.defences.Instahide()"),
        recipe=recipe if rounds is None else replace(recipe, epochs=rounds),
        seed=seed,
        device=device,
    )
    federation = Federation(
        plan=plan, clients=clients, method=method, exchange=exchange, passes=passes, weighted=weighted, alpha=alpha
    )
    return run_federation(task, federation, threads=threads, keep=keep, progress=progress)


def run_federation(
    task: Task,
    federation: Federation,
    *,
    threads: int = 1,
    keep: Keep | str = "ends",
    progress: Progress = silent,
) -> Federated:
    """Train what a federation says, in this process (see `federate`)."""
    keep = Keep.parse(keep) if isinstance(keep, str) else keep
    columns = whole_rows(task).to(federation.plan.device)
    everyone = {name: client_of(task, federation, name, columns=columns) for name in federation.names}
    run = Federated(task, federation, everyone, server_of(task, federation), Transcript(keep))
    began, rounds = time.perf_counter(), federation.plan.recipe.epochs
    with using_threads(threads):
        for turn in range(rounds):
            run.transcript.begin_epoch(turn, is_last=turn == rounds - 1)
            run.round(turn)
            last = run.history[-1]
            if len(last["refused"]) == len(run.clients):
                raise Diverged(f"Training diverged in round {turn}: no client sent finite weights; use a smaller rate.")
            progress(turn + 1, rounds, f"loss {last['loss']:.4f}")
        run.seconds = time.perf_counter() - began
        run.end()
    return run
