"""Flower: the clients and the server of a federation as a ClientApp and a ServerApp, to be deployed with `flwr run`.

What crosses is a vector of shared weights, the round's number, and in an answer the number of rows and of the client.
Flower starts a process for every message, so a client lives in its node's `context.state`, as safetensors: models,
passports, random stream, and the seed that they came of. Flower keeps that in the SuperNode's memory, for one run; it
is never sent. Needs the extra: pip install 'cutlayer[flower]'.
"""

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor

from cutlayer._validate import positive
from cutlayer.checkpoint import restore, state_of
from cutlayer.data.task import Task
from cutlayer.errors import ConfigError, Diverged, ProtocolError, RunError
from cutlayer.horizontal.client import Client
from cutlayer.horizontal.federation import Exchange, Federation, Method, rows_of
from cutlayer.horizontal.members import client_of, server_of
from cutlayer.horizontal.server import ClientAnswer
from cutlayer.rng import secret_seed
from cutlayer.training import using_threads

try:
    from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MessageType, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
except ImportError as error:
    raise ConfigError('Flower is needed, which is not installed: pip install "cutlayer[flower]".') from error

Make = Callable[[], Task]  # called in the process that needs the data, and nowhere else
SHARED, FACTS = "weights", "facts"  # records of a message
TIMEOUT, FINAL = 600.0, "final.safetensors"  # of the run's configuration
SEED_BYTES = 33  # a secret is too large for a whole number of torch's
POLL = 0.5  # seconds between looks at who is there
LOG = logging.getLogger("flwr")  # what `flwr log` shows


def client_app(task: Make, federation: Federation, *, own_rows: bool = False, threads: int = 1) -> ClientApp:
    """Make the app of all clients; which of them a node is, its configuration says (`partition-id`).

    task: makes the data. With `own_rows` they are this client's alone, and it trains on all of its training rows;
        else they are everybody's, and it takes its share.
    A node's configuration may hold `seed`, which its models and passports are drawn from. It must be a secret, so
    without one it is drawn at random; the plan's own seed makes the run equal to `federate`. And it may hold `keep`,
    a file that the client writes its model to at the end: nobody else has a private bottom.
    """
    _check(federation)
    app = ClientApp()

    def train(message: Message, context: Context) -> Message:
        weights, facts = _read(message.content)
        client, done = _wake(task, federation, context, own_rows)
        if (turn := facts["round"]) <= done:
            raise ProtocolError(f"Expected a round after {done}, got {turn}.")
        answer = (
            client.gradient(weights, turn)[0]
            if federation.exchange is Exchange.GRADIENTS
            else client.fit(weights, turn)
        )
        _sleep(client, context, turn)
        facts = {"round": turn, "rows": answer.rows, "client": federation.names.index(client.name)}
        return Message(_written(answer.payload, facts), reply_to=message)

    def end(message: Message, context: Context) -> Message:
        client, done = _wake(task, federation, context, own_rows)
        if done < 0:
            raise ProtocolError("Expected a client that has been trained; this node was started anew.")
        client.end(_read(message.content)[0])
        _sleep(client, context, done)
        if "keep" in context.node_config:
            _write(Path(str(context.node_config["keep"])), _models(client), {})
        return Message(RecordDict(), reply_to=message)

    app.train()(_discreet(train, threads))
    app.query()(_discreet(end, threads))
    return app


def server_app(task: Make, federation: Federation) -> ServerApp:
    """Make the server's app. Of its task only the columns and classes matter: two made-up rows will do.

    It waits for as many nodes as there are clients, and then asks in every round all that are connected. The run's
    configuration may hold `timeout` (seconds that a round may take) and `final` (the file for the last weights, whose
    metadata is the history: who was absent or refused, and when).
    """
    _check(federation)
    app = ServerApp()

    def main(grid: Grid, context: Context) -> None:
        timeout = float(context.run_config.get("timeout", TIMEOUT))
        positive("timeout", timeout)
        server, history, heard = server_of(task(), federation), [], False
        for turn in range(federation.plan.recipe.epochs):
            nodes = _nodes(grid, 1 if turn else federation.clients, timeout)
            replies = _asked(grid, nodes, _written(server.weights, {"round": turn}), MessageType.TRAIN, timeout)
            answers, refused = sorted_out(replies, federation.names, turn, len(server.weights))
            refused |= server.merge(answers, turn)
            absent = [name for name in federation.names if name not in answers and name not in refused]
            history.append({"round": turn, "absent": absent, "refused": refused})
            LOG.info("Round %d: absent %s, refused %s", turn, absent, refused)
            heard |= bool(set(answers) - set(refused))
            if set(federation.names) <= set(refused):
                raise Diverged(f"Training diverged in round {turn}: no client sent finite weights; use a smaller rate.")
        if not heard:
            raise RunError("Expected answers, got none that could be used in any round; see the logs of the nodes.")
        path = Path(str(context.run_config.get("final", FINAL)))
        _write(path, {SHARED: server.weights.cpu()}, {"history": json.dumps(history)})
        LOG.info("Wrote %s", path.resolve())
        last = _written(server.weights, {"round": len(history)})
        _asked(grid, list(grid.get_node_ids()), last, MessageType.QUERY, timeout)

    app.main()(main)
    return app


def sorted_out(
    replies: Iterable[Message], names: list[str], turn: int, size: int
) -> tuple[dict[str, ClientAnswer], dict[str, str]]:
    """Answers by client, in the order of `names`, so that sums have the simulation's bits; and why others are none.

    Replies come from outside: nothing about them is taken for granted. A node that says that it failed is absent.
    """
    answers: dict[str, ClientAnswer] = {}
    refused: dict[str, str] = {}
    for reply in replies:
        if reply.has_error():
            LOG.info("Node %s failed: %s", reply.metadata.src_node_id, reply.error.reason)
            continue
        name = f"node {reply.metadata.src_node_id}"
        try:
            payload, facts = _read(reply.content, size)
            answer, number = ClientAnswer(payload, facts["rows"]), facts["client"]
            if not 0 <= number < len(names):
                raise ProtocolError(f"expected a client from 0 to {len(names) - 1}, got {number}")
            name = names[number]
            if facts["round"] != turn:
                raise ProtocolError(f"expected an answer for round {turn}, got {facts['round']}")
            if answers.setdefault(name, answer) is not answer:  # nobody can tell who is the impostor
                raise ProtocolError("expected one node, got several that say they are this client")
        except (ProtocolError, KeyError) as error:
            refused[name] = str(error) if isinstance(error, ProtocolError) else f"expected {error} in its answer"
    return {name: answers[name] for name in names if name in answers and name not in refused}, refused


def _check(federation: Federation) -> None:
    if federation.method is Method.SPLITFED:
        raise ConfigError("Expected method=fedavg or private-bottom with Flower; splitfed talks in every step.")


def _discreet(handle: Callable[[Message, Context], Message], threads: int) -> Callable[[Message, Context], Message]:
    """Flower sends the text of an error to the server, and it may hold data: only its name leaves, the log has all."""

    def handled(message: Message, context: Context) -> Message:
        try:
            with using_threads(threads):
                return handle(message, context)
        except Exception as error:
            raise RuntimeError(f"{type(error).__name__}, see the log of the node") from error

    return handled


def _wake(make: Make, federation: Federation, context: Context, own_rows: bool) -> tuple[Client, int]:
    """The node's client as it was after its last round, and that round's number; -1 before the first."""
    number = context.node_config.get("partition-id")
    if not isinstance(number, int) or not 0 <= number < federation.clients:
        raise ConfigError(f"Expected partition-id from 0 to {federation.clients - 1} in --node-config, got {number}.")
    task, name = make(), federation.names[number]
    kept: Any = context.state.get(_place(context))
    state = load(kept["state"]) if kept else {}
    seed = int(context.node_config.get("seed", secret_seed()))
    if state:
        seed = int.from_bytes(bytes(state["seed"].tolist()), "little", signed=True)
    rows = task.train if own_rows else rows_of(task, federation)[name]
    client = client_of(task, replace(federation, plan=replace(federation.plan, seed=seed)), name, rows)
    if not state:
        return client, -1
    restore(client, state)
    client.steps = int(state["steps"])
    return client, int(state["round"])


def _sleep(client: Client, context: Context, turn: int) -> None:
    """Put the client into the node's state."""
    seed = client.setting.shared_seed.to_bytes(SEED_BYTES, "little", signed=True)
    facts = {"seed": list(seed), "steps": client.steps, "round": turn}
    state = state_of(client) | {name: torch.tensor(value) for name, value in facts.items()}
    context.state[_place(context)] = ConfigRecord({"state": save(state)})


def _place(context: Context) -> str:
    return f"cutlayer-{context.run_id}"  # Flower hands the state on to later runs of a series


def _models(client: Client) -> dict[str, Tensor]:
    return {name: value for name, value in state_of(client).items() if name.startswith("model/")}


def _nodes(grid: Grid, least: int, timeout: float) -> list[int]:
    """All nodes that are connected, as soon as there are enough."""
    end = time.monotonic() + timeout
    while len(nodes := list(grid.get_node_ids())) < least:
        if time.monotonic() > end:
            raise RunError(f"Expected {least} nodes within {timeout:g} seconds, found {len(nodes)}; start the others.")
        time.sleep(POLL)
    return nodes


def _asked(grid: Grid, nodes: list[int], content: RecordDict, kind: str, timeout: float) -> list[Message]:
    """What nodes reply in time. A late message is dead: a node that comes back does not train on old weights."""
    messages = [Message(content, node, kind, ttl=timeout) for node in nodes]
    return list(grid.send_and_receive(messages, timeout=timeout))


def _written(weights: Tensor, facts: Mapping[str, int]) -> RecordDict:
    vector = ArrayRecord({SHARED: Array(weights.detach().cpu().to(torch.float32).numpy())})
    return RecordDict({SHARED: vector, FACTS: ConfigRecord(dict(facts))})


def _read(content: RecordDict, size: int | None = None) -> tuple[Tensor, dict[str, int]]:
    """The vector and the numbers of a message, or a ProtocolError."""
    record, config = content.get(SHARED), content.get(FACTS)
    if not (isinstance(record, ArrayRecord) and set(record) == {SHARED} and isinstance(config, ConfigRecord)):
        raise ProtocolError(f"expected {SHARED} and {FACTS}, got {', '.join(content) or 'nothing'}")
    array, facts = record[SHARED], {name: value for name, value in config.items() if type(value) is int}
    if len(facts) < len(config) or len(content) > 2:
        raise ProtocolError("expected whole numbers and nothing else, got others")
    if size is not None and tuple(array.shape) != (size,):
        raise ProtocolError(f"expected {size} numbers, got a shape of {tuple(array.shape)}")
    try:
        vector: Any = array.numpy()  # Flower's, without pickle
    except Exception as error:  # whatever NumPy makes of a stranger's bytes
        raise ProtocolError("expected an array, got bytes that are none") from error
    if not isinstance(vector, np.ndarray) or vector.dtype != np.float32 or vector.shape != tuple(array.shape):
        raise ProtocolError("expected an array of float32 as announced, got another")
    return torch.from_numpy(vector.copy()), facts


def _write(path: Path, tensors: Mapping[str, Tensor], facts: dict[str, str]) -> None:
    """Under another name first, so that a reader finds a whole file or none."""
    part = path.with_name(path.name + ".part")
    part.touch(mode=0o600)  # a private bottom is nobody else's
    part.write_bytes(save(dict(tensors), facts))
    part.replace(path)
