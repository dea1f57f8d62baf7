"""Random streams: one per party and purpose, all derived from the run's seed.

A party draws only from its own stream, so what one party draws never depends on how many
numbers another has drawn, nor on which machine the other runs. Layers such as dropout draw
from torch's global state; `Stream.scope` lends the stream to them and takes it back after.
This is the only module that touches global random state.

A run's seed is a small number that everybody knows. A seed from SECRET on is a party's secret: all of its bits count,
where torch's manual_seed would keep 32 of them, few enough to try them all.

Limit: on a CPU torch draws by Mersenne Twister, not by a cipher. Its state follows from enough of its numbers, and
a party that knows what a defence's noise was added to (a gradient that it can compute, an embedding of rows that it
knows) sees these numbers. So noise from a stream hides as noise does, not as a key does, even under a secret seed.
"""

import hashlib
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Generator, Tensor, nn

SECRET = 2**63  # seeds from here on are secrets, drawn by the operating system
WORDS, AT = 624, 24  # of the twister's state, and where they begin in torch's


def secret_seed() -> int:
    """Draw a seed that nobody can guess."""
    return SECRET + secrets.randbits(255)


def derive(seed: int, *names: str | int) -> int:
    """Return a seed that depends on another and on a path of names: of 63 bits, or a secret if that seed is secret."""
    text = "/".join(["cutlayer", str(seed), *map(str, names)])
    digest = hashlib.sha256(text.encode()).digest()
    if seed >= SECRET:
        return SECRET + int.from_bytes(digest, "little")
    return int.from_bytes(digest[:8], "little") >> 1


def _begin(generator: Generator, seed: int) -> None:
    """Put a generator at the start of a seed's stream."""
    generator.manual_seed(seed % SECRET)
    if seed >= SECRET and generator.device.type == "cpu":  # a GPU's generator takes 64 bits
        state = generator.get_state()
        words = state[AT : AT + 8 * WORDS].view(torch.int64)
        stretched = hashlib.shake_256(str(seed).encode()).digest(4 * WORDS)
        words.copy_(torch.from_numpy(np.frombuffer(stretched, dtype=np.uint32).astype(np.int64)))
        generator.set_state(state)


class Stream:
    """One random stream: a generator for draws of our own, lent to layers inside `scope`."""

    def __init__(self, seed: int, *names: str | int, device: str | torch.device = "cpu") -> None:
        self.device = torch.device(device)
        self.generator = Generator(self.device)
        _begin(self.generator, derive(seed, *names))

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Make this stream torch's global one inside the block, and put the old one back after."""
        shared = _global(self.device)
        before = shared.get_state()
        shared.set_state(self.generator.get_state())
        try:
            yield
        finally:
            self.generator.set_state(shared.get_state())
            shared.set_state(before)

    def __deepcopy__(self, memo: dict[int, object]) -> "Stream":
        """Another stream at the same position."""
        copy = Stream(0, device=self.device)
        copy.state = self.state
        return copy

    @property
    def state(self) -> Tensor:
        """The stream's position, for checkpoints."""
        return self.generator.get_state()

    @state.setter
    def state(self, value: Tensor) -> None:
        self.generator.set_state(value)


def _global(device: torch.device) -> Generator:
    if device.type == "cuda":
        torch.cuda.init()
        generator: Generator = torch.cuda.default_generators[device.index or 0]
        return generator
    return torch.default_generator


def generator(seed: int, *names: str | int) -> Generator:
    """Return a CPU generator derived from a seed and a path of names."""
    drawn = Generator()
    _begin(drawn, derive(seed, *names))
    return drawn


def numpy_generator(seed: int, *names: str | int) -> np.random.Generator:
    """Return a NumPy generator derived from a seed and a path of names."""
    return np.random.default_rng(derive(seed, *names))


def draw_anew(module: nn.Module, seed: int, *names: str | int) -> None:
    """Draw all weights of a model again: each layer in its own way, and uniformly what that leaves out."""
    with Stream(seed, *names).scope(), torch.no_grad():
        for layer in module.modules():
            own = list(layer.parameters(recurse=False))
            for parameter in own:
                parameter.fill_(torch.nan)
            if hasattr(layer, "reset_parameters"):
                layer.reset_parameters()  # type: ignore[operator]
            bound = max((1, *(size for parameter in own for size in parameter.shape))) ** -0.5
            for parameter in own:
                if parameter.isnan().any():
                    parameter.uniform_(-bound, bound)


def normal_like(like: Tensor, rng: Generator) -> Tensor:
    """Standard normal noise of the same shape, dtype and device, drawn from `rng`."""
    return torch.randn(like.shape, generator=rng, dtype=like.dtype, device=like.device)
