"""attack_run(): attacks on a finished run, each by a party that fits it, scored by the judge."""

from collections.abc import Callable, Iterable

import torch

from cutlayer._validate import one_of
from cutlayer.attack import Attack, Guess
from cutlayer.auditing.secret import secret_of, secret_of_client
from cutlayer.data.task import Task
from cutlayer.defence import Role
from cutlayer.errors import ConfigError
from cutlayer.finding import Finding
from cutlayer.horizontal.federated import Federated
from cutlayer.judge import judge
from cutlayer.run import Run
from cutlayer.training import using_threads
from cutlayer.view import View

OnGuess = Callable[[Attack, Guess, Finding], None]


def attack_run(
    run: Run | Federated,
    attacks: Iterable[Attack],
    *,
    by: str | None = None,
    seed: int = 0,
    threads: int = 1,
    shadow: Task | None = None,
    on_guess: OnGuess = lambda attack, guess, finding: None,
) -> list[Finding]:
    """Attack a finished run. `by` names the attacking party, else the first that fits each attack.

    Attacks that practise do so on a `shadow` task of the same kind, else on test rows. In horizontal learning the
    server attacks, and `by` names the client that it is after, else the first.
    """
    if isinstance(run, Federated):
        client = by or next(iter(run.clients))
        one_of("client", client, run.clients)
        trained, secret = run.clients[client].rows, secret_of_client(run, client)
    else:
        attacks = list(attacks)
        if by:
            for attack in attacks:
                refuse_role(run.task, attack, by)
        client, trained, secret = None, run.task.train, secret_of(run, shadow)
    views: dict[tuple[str, bool], View] = {}

    def view_for(attack: Attack) -> View:
        name = client or by or attacker_of(run.task, attack)
        key = (name, attack.asks.frozen_train)
        if key not in views:
            rows = torch.cat([trained, run.task.test]) if attack.asks.frozen_train else run.task.test
            views[key] = run.view(name, predict=rows)
        return views[key]

    with using_threads(threads):
        return judge(attacks, view_for, secret, seed=seed, on_guess=on_guess)


def role_of(task: Task, party: str) -> Role:
    """The role of a party in a task."""
    one_of("party", party, sorted({*task.features, task.label_party}))
    return Role.LABEL_PARTY if party == task.label_party else Role.FEATURE_PARTY


def refuse_role(task: Task, attack: Attack, by: str) -> None:
    """Refuse a party of the other role: it would attack what is its own, or what it never sees."""
    if attack.by is not role_of(task, by):
        who, held = ("a", "the") if by == task.label_party else ("the", "no")
        instead = attacker_of(task, attack)
        raise ConfigError(
            f"{attack.name} is by {who} {attack.by.value}, and {by} holds {held} labels: use --by {instead}."
        )


def attacker_of(task: Task, attack: Attack) -> str:
    """The party that runs an attack when nobody is named: the label party, or the first feature party."""
    return task.label_party if attack.by is Role.LABEL_PARTY else task.feature_parties[0]
