"""A greedy party against an honest one on digits: what model-completion and direct-label read off each.

    python -m benchmarks.greedy

Behind a trainable top, embeddings one number per class, 30 epochs, three seeds; with Adam, the default, and with SGD,
as published. `ratio` is the greedy party's mean over the honest one's. Writes results/greedy.csv.
"""

from benchmarks.results import write_table
from cutlayer import data
from cutlayer.attacks import DirectLabel, ModelCompletion
from cutlayer.auditing.attacking import attack_run
from cutlayer.parties.greedy import GreedyParty
from cutlayer.plan import Plan
from cutlayer.recipe import Optimiser, Recipe
from cutlayer.training import train_plan

SEEDS = range(3)
RECIPES = {"adam, 0.002": Recipe(), "sgd, 0.1": Recipe(optimiser=Optimiser.SGD, lr=0.1)}
ATTACKS = (ModelCompletion(), DirectLabel())


def main() -> None:
    """Measure and print."""
    task = data.digits(parties=2)
    (attacker,) = task.feature_parties
    lines: list[dict[str, str | float]] = []
    for name, recipe in RECIPES.items():
        accuracies: dict[str, dict[str, list[float]]] = {}
        for greedy in ("", attacker):
            for seed in SEEDS:
                run = train_plan(
                    task, Plan(width=10, recipe=recipe, seed=seed, parties={greedy: GreedyParty} if greedy else {})
                )
                figures = {"the model itself": run.metrics["accuracy"]}
                for finding in attack_run(run, ATTACKS, seed=seed):
                    figures[finding.attack] = finding.value
                    accuracies.setdefault(finding.attack, {}).setdefault("baseline", []).append(finding.baseline)
                for attack, value in figures.items():
                    accuracies.setdefault(attack, {}).setdefault("greedy" if greedy else "honest", []).append(value)
        for attack, values in accuracies.items():
            mean = {key: sum(figures) / len(figures) for key, figures in values.items()}
            line: dict[str, str | float] = {"optimiser": name, "accuracy of": attack}
            line |= {key: round(mean[key], 3) if key in mean else "" for key in ("honest", "greedy", "baseline")}
            seeds = {key: " ".join(f"{v:.3f}" for v in values[key]) for key in ("honest", "greedy")}
            line |= {"ratio": round(mean["greedy"] / mean["honest"], 3)}
            lines.append(line | {f"{key}, by seed": text for key, text in seeds.items()})
            print(lines[-1], flush=True)
    write_table("greedy.csv", "greedy", lines)


if __name__ == "__main__":
    main()
