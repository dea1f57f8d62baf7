"""Who may import whom, from the bottom up: a layer imports from itself and from those below it."""

LAYERS = {
    0: (
        *(
            "errors",
            "_validate",
            "version",
            "json_types",
            "words",
            "files",
            "progress",
            "exports",
            "draws",
            "rng",
            "spec",
            "privacy",
            "setup",
            "docstring",
            "wire",
            "message",
        ),
        *("blocks", "crypto"),
    ),
    1: ("transcript", "cut", "defence", "recipe", "view", "finding", "attack", "metrics"),
    2: ("party", "parties", "cuts", "defences", "attacks", "align"),
    3: ("session", "checkpoint", "data", "models", "plan", "settings", "judge"),
    4: ("run", "training", "auditing", "report", "experiment", "papers", "bench", "net", "horizontal"),
    5: ("cli", "__main__", "__init__"),
}
LAYER = {name: level for level, names in LAYERS.items() for name in names}
