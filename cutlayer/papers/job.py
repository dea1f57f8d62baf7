"""Job: one training behind a paper's tables, with the attacks and checks on it, in words. Tables share jobs."""

from dataclasses import asdict, dataclass, fields

from cutlayer.experiment.unit import Part, Unit
from cutlayer.settings import Settings


@dataclass(frozen=True)
class Job:
    """One training, and what is measured on it. All words are the command line's."""

    data: str
    bottom: str = "default"
    top: str = "default"
    width: int = 16
    cut: str = "concat"
    defence: str = "none"
    epochs: int = 30
    batch_size: int = 256
    lr: float = 1e-3
    weight_decay: float = 5e-4
    drop_every: int = 10  # epochs between divisions of the learning rate by ten
    share: float = 0.5  # of the columns, held by the first of two parties
    optimiser: str = "adam"
    milestones: tuple[int, ...] = ()  # epochs at which the learning rate is divided by ten, instead
    seed: int = 0
    attacks: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()  # paper:function of its checks.py, given the run, returning numbers by name
    clip: float = 0.0  # largest norm of a party's own gradient; 0: any
    horizontal: str = ""  # clients, method and exchange of horizontal learning: clients=10,method=fedavg
    rows: int = 0  # to train on, drawn by the seed, with up to as many others to test on; 0: as the dataset has it

    @property
    def key(self) -> str:
        """What names the job among outcomes: all words that are not at their defaults, so that later words fit in."""
        words = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        return " ".join(f"{name}={_spell(value)}" for name, value in words.items())

    def unit(self, device: str = "cpu") -> Unit:
        """The unit of work that gives its outcome."""
        schedule = f"steps:every={self.drop_every},factor=0.1"
        if self.milestones:
            schedule = f"milestones:at={'-'.join(map(str, self.milestones))},factor=0.1"
        training = Settings(
            bottom=self.bottom,
            top=self.top,
            width=self.width,
            cut=self.cut,
            defences=(self.defence,),
            epochs=self.epochs,
            batch_size=self.batch_size,
            optimiser=self.optimiser,
            lr=self.lr,
            weight_decay=self.weight_decay,
            schedule=schedule,
            clip=self.clip or None,
            seed=self.seed,
        )
        checks = tuple(check_name(check) for check in self.checks)
        return Unit(
            data=self.data,
            share=self.share,
            rows=self.rows,
            training=training,
            horizontal=self.horizontal,
            device=device,
            parts=(Part(key=self.key, attacks=self.attacks, checks=checks, words={"job": asdict(self)}),),
        )


def check_name(check: str) -> str:
    """The dotted name of a check: hashvfl:alarms is cutlayer.papers.hashvfl.checks.alarms."""
    paper, _, function = check.partition(":")
    return f"cutlayer.papers.{paper}.checks.{function}"


def _spell(value: object) -> str:
    return ";".join(map(str, value)) if isinstance(value, tuple) else str(value)
