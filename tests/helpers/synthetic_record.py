"""A study that never ran: several defences with strengths, attacks of every kind, three seeds, and gaps."""

import base64
import hashlib
import io
import random

from PIL import Image

from cutlayer.report.record import Record
from cutlayer.report.row import COLUMNS

SEEDS = (0, 1, 2)
HIDES = {  # setup -> (how much of an attack's advantage is left, what accuracy remains)
    ("none", ""): (1.0, 0.95),
    ("gaussian-noise", "std=0.1"): (0.8, 0.94),
    ("gaussian-noise", "std=1"): (0.4, 0.88),
    ("gaussian-noise", "std=10"): (0.0, 0.60),
    ("hash", "bits=4"): (0.2, 0.85),
    ("hash", "bits=16"): (0.5, 0.93),
    ("hash+max-norm", "bits=16+"): (0.3, 0.92),
    ("secure-sum", ""): (0.6, 0.95),
}
ATTACKS = {  # attack -> (target, attacker, victim, metric, baseline, baseline's name, perfect enough, granted)
    "model-completion:labels=40": ("labels", "shop", "bank", "accuracy", 0.55, "majority class", 0.93, "40 labels"),
    "norm-score": ("labels", "shop", "bank", "auc", 0.5, "chance", 0.9, "nothing"),
    "model-inversion": (
        "features",
        "bank",
        "shop",
        "mse",
        0.08,
        "mean of the known rows",
        0.01,
        "the victim's bottom model",
    ),
    "binary-search": ("features", "bank", "shop", "column accuracy", 0.7, "commoner value", 1.0, "nothing"),
    "pgd": ("outcome", "shop", "bank", "success", 0.1, "honest submissions; 0 of 90 rows flagged", 0.9, "nothing"),
}


def picture(shade: int) -> str:
    out = io.BytesIO()
    Image.new("L", (8, 8), shade).save(out, "PNG")
    return base64.b64encode(out.getvalue()).decode()


def row(defence: str, strength: str, attack: str, seed: int, **changes: object) -> dict[str, object]:
    target, attacker, victim, metric, baseline, name, perfect, granted = ATTACKS[attack]
    left, accuracy = HIDES[defence, strength]
    rng = random.Random(f"{defence}{strength}{attack}{seed}")
    value = baseline + left * (perfect - baseline) + rng.uniform(-0.01, 0.01) * (0.1 if metric == "mse" else 1)
    value = min(1.0, max(0.0, value))
    spread = 0.001 if metric == "mse" else 0.02
    cell = hashlib.sha256(f"{defence}{strength}{attack}{seed}".encode()).hexdigest()[:10]
    values = {
        "defence": defence,
        "strength": strength,
        "attack": attack,
        "target": target,
        "attacker": attacker,
        "victim": victim,
        "seed": seed,
        "metric": metric,
        "value": value,
        "baseline": baseline,
        "baseline_name": name,
        "low": value - spread,
        "high": value + spread,
        "accuracy": accuracy + random.Random(f"{defence}{strength}{seed}").uniform(-0.005, 0.005),
        "utility_metric": "accuracy",
        "bytes": 400_000 if defence != "hash" else 50_000,
        "step_bytes": 4_000 if defence != "hash" else 500,
        "step_seconds": 0.002,
        "train_seconds": 0.2,
        "seconds": 0.05,
        "status": "done",
        "reason": "",
        "granted": granted,
        "detail": "3 of 4 two-valued columns exact" if metric == "column accuracy" else "",
        "paper": "Fu et al., USENIX Security 2022" if attack.startswith("model-c") else "",
        "cell": cell,
    }
    return {key: {**values, **changes}[key] for key in COLUMNS}


NOTHING = {"value": float("nan"), "baseline": float("nan"), "low": None, "high": None, "metric": "", "victim": ""}


def rows() -> list[dict[str, object]]:
    """Findings: one failed, one attack does not apply to hashing."""
    findings = []
    for setup in HIDES:
        for attack in ATTACKS:
            for seed in SEEDS:
                changes: dict[str, object] = {}
                if attack == "binary-search" and setup[0].startswith("hash"):
                    changes = NOTHING | {"status": "does not apply", "reason": "needs real-valued embeddings"}
                if (*setup, attack, seed) == ("gaussian-noise", "std=1", "pgd", 2):
                    changes = NOTHING | {"status": "failed", "reason": "the attack diverged", "victim": "bank"}
                if (*setup, attack, seed) != ("secure-sum", "", "model-inversion", 1):
                    findings.append(row(*setup, attack, seed, **changes))
    return findings


def extras(findings: list[dict[str, object]]) -> dict[str, dict[str, object]]:
    details: dict[str, dict[str, object]] = {}
    for finding in findings:
        if finding["status"] != "done":
            continue
        extra: dict[str, object] = {}
        left = HIDES[finding["defence"], finding["strength"]][0]
        if finding["metric"] == "column accuracy":
            values = {"contact": 1.0, "visits": 0.7, "basket": 0.7}
            extra["columns"] = [
                {"name": n, "value": 0.7 + left * (v - 0.7), "baseline": 0.7} for n, v in values.items()
            ]
            extra["correlations"] = {"truth": [[1.0, 0.5], [0.5, 1.0]], "guess": [[1.0, 0.5 * left], [0.5 * left, 1.0]]}
        if finding["metric"] == "auc":
            fpr = [0.0, 0.001, 0.01, 0.1, 0.5, 1.0]
            tpr = [0.0, *(rate + left * (1 - rate) * 0.5 for rate in fpr[1:-1]), 1.0]
            extra["roc"] = {"fpr": fpr, "tpr": tpr, "tpr_at_1": tpr[2], "tpr_at_01": tpr[1]}
        if finding["metric"] == "mse" and finding["seed"] == 0:
            shades = [20, 120, 220]
            extra["images"] = {
                "originals": [picture(s) for s in shades],
                "guesses": [picture(round(128 + left * (s - 128))) for s in shades],
            }
        if extra:
            details[str(finding["cell"])] = extra
    return details


def record(**changes: object) -> Record:
    findings = rows()
    option = {"accuracy": 0.85, "leakage": 0.2, "bytes": 50_000, "seconds": 0.2}
    whole = {
        "title": "Audit of customers.csv",
        "facts": {
            "data": "customers.csv",
            "sha256": "ab" * 32,
            "train_rows": 800,
            "test_rows": 200,
            "goal": "binary",
            "classes": ["no", "yes"],
            "parties": [
                {"name": "bank", "columns": 2, "names": ["age", "income"]},
                {"name": "shop", "columns": 3, "names": ["contact", "visits", "basket"]},
            ],
            "label_party": "bank",
            "epochs": 30,
            "seeds": list(SEEDS),
            "notes": ["3 rows with gaps were imputed"],
            "setup_notes": {"gaussian-noise:std=10": ["Training diverged.", "seed 2: epsilon 3"]},
        },
        "rows": findings,
        "extras": extras(findings),
        "missing": [
            {"defence": "secure-sum", "strength": "", "attack": "model-inversion", "target": "features", "seed": 1}
        ],
        "choice": {
            "choice": None,
            "runner_up": "hash:bits=4",
            "constraints": ["at most 2 points of accuracy lost", "threat: labels"],
            "why": "no setup within 2 points keeps every attack at its baseline.",
            "what_would_change": ["allowing 10 points admits hash:bits=4."],
            "pareto": [
                {"defence": "none", "strength": "", **option, "leakage": 1.0},
                {"defence": "hash", "strength": "bits=4", **option},
            ],
        },
        "command": "cutlayer audit --table customers.csv --label default",
        "versions": {"cutlayer": "0.1.0", "python": "3.11.7"},
    }
    return Record(**{**whole, **changes})
