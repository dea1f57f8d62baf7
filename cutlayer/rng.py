"""Random streams: one per party and purpose, all derived from the run's seed.

A party draws only from its own stream, so what one party draws never depends on how many
numbers another has drawn, nor on which machine the other runs. A stream has two halves:

- `draws` (draws.py) for all that protects: noise, answers, passports, masks, secret codes. It is a cipher.
- `generator` for layers such as dropout, which draw from torch's global state; `Stream.scope` lends it to them and
  takes it back after. Nothing rests on nobody foreseeing it.

First weights are drawn from `draws` as well, by whatever way a model draws them (`first_weights`). This is the
only module that touches global random state.

A run's seed is a small number that everybody knows. A seed from SECRET on is a party's secret: all of its bits count,
where torch's manual_seed would keep 32 of them, few enough to try them all.
"""

import hashlib
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from cutlayer.draws import Draws

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
    """One party's random numbers: draws that protect, and a generator that is lent to layers inside `scope`."""

    def __init__(self, seed: int, *names: str | int, device: str | torch.device = "cpu") -> None:
        self.device = torch.device(device)
        self.draws = Draws(seed, *names)
        self.generator = Generator(self.device)
        _begin(self.generator, derive(seed, *names))

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Make this stream torch's global one inside the block, and put the old one back after."""
        shared = _global(self.device)
        before = shared.get_state()
        shared.set_state(self.generator.get_state())
        token = _lent.set(self.draws)
        try:
            yield
        finally:
            _lent.reset(token)
            self.generator.set_state(shared.get_state())
            shared.set_state(before)

    def __deepcopy__(self, memo: dict[int, object]) -> "Stream":
        """Another stream at the same position."""
        copy = Stream(0, device=self.device)
        copy.generator.set_state(self.generator.get_state())
        copy.draws = deepcopy(self.draws)
        return copy

    @property
    def state(self) -> Tensor:
        """The stream's position, for checkpoints."""
        return torch.cat([self.draws.state, self.generator.get_state()])

    @state.setter
    def state(self, value: Tensor) -> None:
        size = len(self.draws.state)
        self.draws.state = value[:size]
        self.generator.set_state(value[size:].clone())


_lent: ContextVar[Draws | None] = ContextVar("lent", default=None)  # the draws of the stream whose scope this is


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


class _FromDraws(TorchDispatchMode):
    """Fill tensors from draws wherever torch would from its global generator: on the CPU, then copied to their device.

    Only what initialisers use is replaced; all else takes torch's generator, as it is lent.
    """

    def __init__(self, draws: Draws) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.draws = draws

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation of torch's, or our own in the place of two of them."""
        kwargs = kwargs or {}
        if func in FILLS and kwargs.get("generator") is None:
            target: Tensor = args[0]
            given = (*args[1:], *(kwargs.get(name, usual) for name, usual in FILLS[func][len(args) - 1 :]))
            first, second = given
            if func is torch.ops.aten.uniform_.default:
                numbers = first + (second - first) * self.draws.uniform(target.shape)
            else:
                numbers = first + second * self.draws.normal(target.shape)
            return target.copy_(numbers.to(target.dtype))
        return func(*args, **kwargs)


FILLS: dict[Any, tuple[tuple[str, float], ...]] = {
    torch.ops.aten.uniform_.default: (("from", 0.0), ("to", 1.0)),
    torch.ops.aten.normal_.default: (("mean", 0.0), ("std", 1.0)),
}


@contextmanager
def first_weights(draws: Draws) -> Iterator[None]:
    """Inside the block, whatever a model draws its first weights with comes from `draws`."""
    stream = Stream(0)
    stream.draws = draws
    _begin(stream.generator, SECRET + int.from_bytes(draws.bytes(32), "little"))
    with stream.scope(), _FromDraws(draws):
        yield


def draw_anew(module: nn.Module, seed: int, *names: str | int) -> None:
    """Draw all weights of a model again: each layer in its own way, and uniformly what that leaves out."""
    with first_weights(Draws(seed, *names)), torch.no_grad():
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


def normal_like(like: Tensor, rng: Draws | None = None) -> Tensor:
    """Standard normal noise of the same shape, dtype and device, drawn from `rng`.

    Without one, from whose scope this is; outside any, from torch's generator, as an attacker's copy of a model does.
    """
    rng = _lent.get() if rng is None else rng
    return torch.randn_like(like) if rng is None else rng.normal(like.shape).to(like)


def uniform_like(like: Tensor, rng: Draws | None = None) -> Tensor:
    """Numbers from 0 to below 1 in the same way."""
    rng = _lent.get() if rng is None else rng
    if rng is None:
        return torch.rand_like(like)
    steps = 2 / torch.finfo(like.dtype).eps  # so that none is rounded up to 1
    return ((rng.uniform(like.shape) * steps).floor() / steps).to(like)
