"""One training step of a blind layer: forward and backward, of both parties, from bytes to bytes."""

import time

import numpy as np

from cutlayer.bench.parts.timing import Figures
from cutlayer.crypto import Scheme
from cutlayer.cuts.parts.blind_ends import ColumnsEnd, GradientEnd
from cutlayer.cuts.parts.halves import COLUMN, RING, STEP, WEIGHT
from cutlayer.cuts.parts.masking import scheme_named
from cutlayer.cuts.parts.memory import Memory
from cutlayer.errors import ConfigError
from cutlayer.rng import numpy_generator

ROWS, COLUMNS, WIDTH = 256, 32, 64


class BlindStep:
    """Both ends of the layer between one feature party and the label party, checked against the plain step."""

    def __init__(self, scheme: Scheme, rows: int = ROWS, columns: int = COLUMNS, width: int = WIDTH) -> None:
        rng = numpy_generator(0, "bench blind step")
        self.columns = RING.encode(rng.standard_normal((rows, columns)), COLUMN)
        self.delta = RING.encode(rng.standard_normal((rows, width)) / (10 * rows), STEP)
        self.weights = RING.encode(rng.uniform(-1, 1, (columns, width)) / np.sqrt(columns), WEIGHT)
        self.memories = Memory(), Memory()
        half = RING.uniform((columns, width))
        self.memories[0].put("p", half)
        self.memories[1].put("p", RING.subtract(self.weights, half))
        secret = scheme.generate()
        self.feature = ColumnsEnd(scheme.read_key(secret.public.to_bytes()), self.memories[0], "p", 0.0)
        self.label = GradientEnd(secret, self.memories[1], "p", 0.0)
        self.bytes = 0

    def seconds(self) -> float:
        """Time of one step, in core-seconds."""
        rows, width = self.delta.shape
        inputs = len(self.weights)
        start = time.process_time()
        operand = self.label.operand(rows)
        product = self.feature.forward(operand, self.columns, [])
        opened = self.label.open(product, rows)
        step = self.label.secret.encrypt(self.delta, for_rows=inputs).to_bytes()
        back = self.feature.backward(step, self.columns, width)
        self.label.step(back, rows)
        end = time.process_time()
        turned = np.ascontiguousarray(RING.centred(self.columns).T)
        if not np.array_equal(opened, RING.matmul(RING.centred(self.columns), self.weights)):
            raise ConfigError("The blind product differs from the plain one: do not trust this machine.")
        self.weights = RING.subtract(self.weights, RING.matmul(turned, self.delta))
        if not np.array_equal(RING.sum(memory.find("p") for memory in self.memories), self.weights):  # type: ignore[misc]
            raise ConfigError("The blind step differs from the plain one: do not trust this machine.")
        self.bytes = len(operand) + len(product) + len(step) + len(back)
        return end - start


def blind_step(repeats: int) -> Figures:
    """A step of 256 rows, 32 columns and width 64: the fastest of some under BFV, one under Paillier, both whole."""
    ours, theirs = BlindStep(scheme_named("bfv", RING)), BlindStep(scheme_named("paillier", RING))
    ours.seconds()  # warms up
    best = min(ours.seconds() for _ in range(max(repeats, 1)))
    paillier = theirs.seconds()
    return {
        "blind_step_ratio": paillier / best,
        "seconds_blind_step": best,
        "seconds_blind_step_paillier": paillier,
        "bytes_blind_step": ours.bytes,
    }
