"""The members of a federation: clients and server, made from its settings, each alone."""

from dataclasses import replace
from math import prod

from torch import Tensor, nn

from cutlayer._validate import one_of
from cutlayer.blocks.passport import passport_layers
from cutlayer.blocks.weights import pack
from cutlayer.cut import Roster
from cutlayer.cuts.concat import Concat
from cutlayer.data.task import Task
from cutlayer.defence import Role, Setting, Subject
from cutlayer.draws import Draws
from cutlayer.errors import ConfigError
from cutlayer.horizontal.client import Client
from cutlayer.horizontal.federation import SERVER, Exchange, Federation, Method, rows_of, whole_rows
from cutlayer.horizontal.server import Server
from cutlayer.party import Equipment
from cutlayer.plan import Plan, make_top, shape_of
from cutlayer.rng import Stream, derive, first_weights


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
        split=federation.method is Method.SPLITFED,
    )


def server_of(task: Task, federation: Federation) -> Server:
    """Make the server, with the weights that all begin with."""
    bottom, top = _models(task, federation, SERVER)
    parts = {"bottom": bottom, "top": top}
    weights = pack(parts[part] for part in federation.shares).to(federation.plan.device)
    rate = federation.plan.recipe.rate if federation.exchange is Exchange.GRADIENTS else None
    return Server(weights, weighted=federation.weighted, rate=rate)


def _models(task: Task, federation: Federation, name: str) -> tuple[nn.Module, nn.Module]:
    plan, features = federation.plan, replace(next(iter(task.features.values())), values=whole_rows(task))
    if not callable(plan.bottoms) or isinstance(plan.bottoms, nn.Module):
        raise ConfigError("Expected a function or a name that makes a client's bottom, got modules by party.")
    with first_weights(Draws(plan.seed, name, "init", "bottom")):
        bottom = plan.bottoms(features, plan.width)
        for number, defence in enumerate(plan.defences):
            bottom = defence.model(bottom, _setting(task, plan, name, Subject.BOTTOM, number))
    with first_weights(Draws(plan.seed, name, "init", "top")):
        top = make_top(plan.top, prod(shape_of(bottom, features)), task.outputs)
    return bottom, top


def _setting(task: Task, plan: Plan, name: str, subject: Subject, number: int = 0) -> Setting:
    rng = Draws(plan.seed, name, "defence", subject.value, number)
    private = derive(plan.seed, name, "private")
    return Setting(name, Role.FEATURE_PARTY, subject, len(task.classes), rng, plan.seed, private, len(task.labels))
