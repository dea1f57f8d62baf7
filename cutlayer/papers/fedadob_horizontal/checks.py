"""What FedAdOb's paper leaves out in horizontal learning: how the white box fares against every client."""

from cutlayer.auditing.attacking import attack_run
from cutlayer.horizontal.federated import Federated
from cutlayer.settings import read_attacks

COMMON = "images=50,steps=500,restarts=1"
WHITE = {
    "guessed": f"model-inversion:{COMMON},start=normal,bounded=false,lr=0.1,l2=0.0",
    "ignored": f"passport-inversion:{COMMON},assume=none",
    "fitted": f"passport-inversion:{COMMON}",
}


def every_client(run: Federated) -> dict[str, float]:
    """Mean, least and largest error of the white box over all clients, by what it does about passports.

    A guess is luck, so that one client says little.
    """
    attacks = read_attacks(list(WHITE.values()))
    seeds = range(run.federation.plan.seed, run.federation.plan.seed + len(run.clients))  # each a guess of its own
    each = [
        [finding.value for finding in attack_run(run, attacks, by=client, seed=seed)]
        for client, seed in zip(run.clients, seeds, strict=True)
    ]
    figures = {}
    for name, values in zip(WHITE, zip(*each, strict=True), strict=True):
        figures[name] = sum(values) / len(values)
        figures[f"{name}, least"], figures[f"{name}, largest"] = min(values), max(values)
    return figures
