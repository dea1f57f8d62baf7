"""cutlayer: train one model across organisations that each hold some columns about the same people,
and know, in numbers, what each of them can learn about the others."""

from cutlayer.exports import lazy

__getattr__, __dir__ = lazy(
    __name__,
    {
        "": "attacks, cuts, data, defences, horizontal, metrics, models",
        "attack": "Asks, Attack, Form, Guess, Target",
        "cut": "Cut",
        "cuts.concat": "Concat",
        "cuts.sum": "Sum",
        "defence": "Defence, Local, Place, Role, Setting",
        "draws": "Draws",
        "errors": "ConfigError, CutlayerError, DataError, ProtocolError, RunError",
        "experiment.audit": "audit",
        "experiment.report": "Report",
        "finding": "Finding",
        "judge": "Secret",
        "message": "Kind, Message, Phase",
        "plan": "Plan",
        "recipe": "Constant, Cosine, Milestones, Optimiser, Recipe, Steps",
        "run": "Run",
        "settings": "Settings",
        "training": "train",
        "transcript": "Channel, Keep, Transcript",
        "version": "__version__",
        "view": "Hints, Known, Manifest, Own, View",
    },
)
