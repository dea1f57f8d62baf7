"""federate(): clients and a server in one process, round by round; and the run that comes of it."""

import time
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Literal

import torch
from torch import Tensor, nn

from cutlayer._validate import at_least, instance, listed, one_of, positive
from cutlayer.blocks.passport import passport_layers
from cutlayer.blocks.sparse import SparseRows
from cutlayer.blocks.weights import pack, unpack
from cutlayer.cut import Roster
from cutlayer.cuts.concat import Concat
from cutlayer.data.task import Goal, Task
from cutlayer.defence import Defence, Role, Setting, Subject
from cutlayer.errors import ConfigError, DataError, Diverged
from cutlayer.horizontal.client import Client
from cutlayer.horizontal.partition import dirichlet, evenly
from cutlayer.horizontal.server import Answer, Server
from cutlayer.message import Batch, Kind, Message, Phase
from cutlayer.metrics import utility
from cutlayer.models.defaults import default_bottom, default_top
from cutlayer.party import Equipment
from cutlayer.plan import Bottoms, Plan, Top, make_top, shape_of
from cutlayer.progress import Progress
from cutlayer.recipe import Optimiser, Recipe
from cutlayer.rng import Stream, derive, generator
from cutlayer.training import using_threads
from cutlayer.transcript import Keep, Transcript
from cutlayer.view import Manifest, Own, View, view_of

SERVER, AVERAGER = "server", "averager"
METHODS = {"fedavg": ("bottom", "top"), "private-bottom": ("top",), "splitfed": ("bottom", "top")}
Method = Literal["fedavg", "private-bottom", "splitfed"]
Exchange = Literal["weights", "gradients"]
DEFAULT = Recipe(epochs=10, batch_size=64, optimiser=Optimiser.SGD, lr=0.01, weight_decay=4e-5)


@dataclass(frozen=True, kw_only=True)
class Federation:
    """Everything but the data. An epoch of the plan's recipe is a round.

    fedavg: the whole model is shared and averaged (McMahan et al.). private-bottom: only tops are, every client
    keeps a bottom of its own, with passports if they are among the defences (FedAdOb's Algorithm 2). splitfed: the
    server holds the tops and sees embeddings, somebody else averages the bottoms (Thapa et al.).
    Clients send `weights` after so many `passes` over their rows, or the `gradients` of one batch.
    """

    plan: Plan
    clients: int = 10
    method: Method = "fedavg"
    exchange: Exchange = "weights"
    passes: int = 1
    weighted: bool = True  # clients count by their rows; else all alike
    alpha: float | None = None  # of a Dirichlet distribution of classes over clients; without it all are alike

    def __post_init__(self) -> None:
        at_least("clients", self.clients, 1)
        at_least("passes", self.passes, 1)
        one_of("method", self.method, METHODS)
        one_of("exchange", self.exchange, ("weights", "gradients"))
        if self.alpha is not None:
            positive("alpha", self.alpha)
        if self.exchange == "gradients" and self.method == "splitfed":
            raise ConfigError("Expected exchange=weights with splitfed, whose gradients cross in every step anyway.")
        for defence in self.plan.defences:
            if not defence.clients:
                raise ConfigError(
                    f"Expected a defence that protects a client of horizontal learning, got {defence.describe()}; use "
                    "gaussian-noise or sparsification with on=update, instahide, or passport with where=bottom."
                )

    @property
    def shares(self) -> tuple[str, ...]:
        """The parts of a client's model that are averaged."""
        return METHODS[self.method]

    @property
    def names(self) -> list[str]:
        """The clients."""
        return [f"client{number}" for number in range(self.clients)]


def whole_rows(task: Task) -> Tensor:
    """The columns of a task in which one party holds them all."""
    instance("task", task, Task, "cl.data.digits(parties=1, label_party='server')")
    if task.goal is Goal.REGRESSION or len(task.features) != 1:
        raise DataError(
            f"Expected classes and whole rows for horizontal learning, got {len(task.features)} parties with columns; "
            f"make the task with parties=1, label_party='server'."
        )
    (features,) = task.features.values()
    if isinstance(features.values, SparseRows):
        raise DataError("Expected dense columns for horizontal learning, got sparse ones.")
    return features.values


def rows_of(task: Task, federation: Federation) -> dict[str, Tensor]:
    """Which training rows each client holds."""
    rng = generator(federation.plan.seed, "clients")
    if federation.alpha is None:
        parts = evenly(task.train, federation.clients, rng)
    else:
        parts = dirichlet(task.train, task.labels[task.train], federation.clients, federation.alpha, rng)
    return dict(zip(federation.names, parts, strict=True))


def client_of(
    task: Task, federation: Federation, name: str, rows: Tensor | None = None, columns: Tensor | None = None
) -> Client:
    """Make one client, alone: it needs to know nothing of the others. Without `rows` it takes its share of them;
    `columns` are the task's where they are on the device already, so that clients in one process share them."""
    one_of("client", name, federation.names)
    plan = federation.plan
    equipment = Equipment(
        cut=Concat(),
        roster=Roster(SERVER, (name,)),
        recipe=plan.recipe,
        stream=Stream(plan.seed, name, device=plan.device),
        setting=_setting(task, plan, name, Subject.PARTY),
        defences=plan.defences,
    )
    bottom, top = _models(task, federation, name)
    if "bottom" in federation.shares and passport_layers(bottom):
        raise ConfigError("Expected method=private-bottom with passports: a shared bottom would give them away.")
    return Client(
        name,
        whole_rows(task).to(plan.device) if columns is None else columns,
        task.labels.to(plan.device),
        rows_of(task, federation)[name] if rows is None else rows,
        bottom.to(plan.device),
        top.to(plan.device),
        equipment,
        server=SERVER,
        shares=federation.shares,
        passes=federation.passes,
        split=federation.method == "splitfed",
    )


def server_of(task: Task, federation: Federation) -> Server:
    """Make the server, with the weights that all begin with."""
    bottom, top = _models(task, federation, SERVER)
    parts = {"bottom": bottom, "top": top}
    weights = pack(parts[part] for part in federation.shares).to(federation.plan.device)
    rate = federation.plan.recipe.rate if federation.exchange == "gradients" else None
    return Server(weights, weighted=federation.weighted, rate=rate)


def _models(task: Task, federation: Federation, name: str) -> tuple[nn.Module, nn.Module]:
    plan, features = federation.plan, replace(next(iter(task.features.values())), values=whole_rows(task))
    if not callable(plan.bottoms) or isinstance(plan.bottoms, nn.Module):
        raise ConfigError("Expected a function or a name that makes a client's bottom, got modules by party.")
    with Stream(plan.seed, name, "init", "bottom").scope():
        bottom = plan.bottoms(features, plan.width)
        for defence in plan.defences:
            bottom = defence.model(bottom, _setting(task, plan, name, Subject.BOTTOM))
    with Stream(plan.seed, name, "init", "top").scope():
        top = make_top(plan.top, prod(shape_of(bottom, features)), task.outputs)
    return bottom, top


def _setting(task: Task, plan: Plan, name: str, subject: Subject) -> Setting:
    rng = generator(plan.seed, name, "defence", subject.value)
    private = derive(plan.seed, name, "private")
    return Setting(name, Role.FEATURE_PARTY, subject, len(task.classes), rng, plan.seed, private, len(task.labels))


@dataclass
class Federated:
    """A federation of clients and its server, trained round by round; and what crossed between them."""

    task: Task
    federation: Federation
    clients: dict[str, Client]
    server: Server
    transcript: Transcript
    metrics: dict[str, float] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0

    def round(self, turn: int) -> None:
        """Send weights, collect answers, average. Who is absent or refused is named, and the rest go on."""
        answers, absent = {}, []
        for name, client in self.clients.items():
            try:
                answers[name] = self._asked(client, turn)
            except ConnectionError:
                absent.append(name)
        refused = self.server.merge(answers, turn)
        losses = [torch.stack(self.clients[name].losses).mean() for name in answers if self.clients[name].losses]
        loss = float(torch.stack(losses).mean()) if losses else float("nan")
        self.history.append({"round": turn, "loss": loss, "absent": absent, "refused": refused})

    def _asked(self, client: Client, turn: int) -> Answer:
        """One client's part of a round, with its messages."""
        weights, nobody = self.server.weights, torch.empty(0, dtype=torch.int64)
        record, split = self.transcript.record, self.federation.method == "splitfed"
        other = AVERAGER if split else SERVER
        sent = slice(0, len(pack([client.bottom]))) if split else slice(None)  # the server has the top itself
        record(Message(Batch(turn, Phase.TRAIN, nobody), other, client.name, Kind.WEIGHTS, weights[sent]))
        if self.federation.exchange == "gradients":
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
        if not all(bool(torch.isfinite(one).all()) for one in outputs):
            raise Diverged("Training diverged: outputs are not finite at its end; use a smaller rate or less noise.")
        each = [utility.classification(labels, one.numpy()) for one in outputs]
        self.metrics = {key: sum(one[key] for one in each) / len(each) for key in each[0]}
        self.metrics["worst_accuracy"] = min(one["accuracy"] for one in each)

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
        client.outputs(self.task.test if predict is None else predict, seen.write)
        mine = {SERVER, name}
        seen.channels |= {k: c for k, c in self.transcript.channels.items() if {c.sender, c.receiver} == mine}
        shared = deepcopy(client.bottom).eval() if self.federation.method == "fedavg" else None
        top = deepcopy(client.top).eval()  # with the server's numbers: a client's own statistics never crossed
        unpack(self.server.weights[-len(pack([top])) :], [top])
        own = Own(features=None, bottom=shared, top=top)
        return view_of(seen, frozenset([SERVER]), self.manifest(name), {SERVER: own})


def federate(
    task: Task,
    *,
    clients: int = 10,
    method: Method = "fedavg",
    exchange: Exchange = "weights",
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
    progress: Progress | None = None,
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
    progress: Progress | None = None,
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
            if progress:
                progress(turn + 1, rounds, f"loss {last['loss']:.4f}")
        run.seconds = time.perf_counter() - began
        run.end()
    return run
