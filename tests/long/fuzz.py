"""Malformed frames by the million: `python tests/long/fuzz.py [--frames 1000000]`; writes results/fuzz.json.

Valid frames of every kind are mutated, by atheris where it is installed (`pip install atheris`; guided by the code that
they reach) and by a mutator that knows the schema; what comes of it goes through all that looks at a peer's bytes
before the party itself does. Only ProtocolError may come out. Parts are made 64 bytes long,
not 1 MiB, so that small inputs reach the code that puts parts together.
tests/net/wire/test_fuzz.py feeds the same target.
"""

import argparse
import json
import os
import random
import re
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import torch

from cutlayer.errors import ProtocolError
from cutlayer.message import Batch, Kind, Message, Phase
from cutlayer.net.peers.handshake import Hello, Welcome, answer, differences, heard, proven, say, word
from cutlayer.net.peers.mailbox import Came, Post
from cutlayer.net.trust import identity
from cutlayer.net.trust.authority import Authority
from cutlayer.net.trust.identity import Identity
from cutlayer.net.wire import frame
from cutlayer.net.wire.packet import Packet, note
from cutlayer.version import __version__
from cutlayer.wire import Encoding

RESULTS = Path(__file__).parents[2] / "results" / "fuzz.json"
PARTIES = ("bank", "shop", "cafe")
RUN = bytes(range(32))
PART = 64  # bytes, for this purpose
ROWS = 8
SHAPES = {"bank": (4,), "shop": (4,)}
MANIFEST = {"parties": list(PARTIES), "cut": "concat", "bottoms": {"shop": "mlp"}}
SLOW = 5  # seconds for one input, after which it counts as a hang
SIZE = struct.Struct("<I")
SPARE = 1 << 20  # bytes that an input may cost beside a multiple of its length
NUMBERS = (0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 63, 64, 65, 127, 255, 1 << 16, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 1)
LARGE = (*NUMBERS, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
TEXTS = (
    "",
    "bank",
    "shop",
    "cafe",
    "guest",
    "\x00",
    "é" * 50,
    "a" * 300,
    "null",
    "[" * 3000,
    "{" * 3000,
    '{"a":',
    "1e999",
)


def join(frames: Sequence[bytes]) -> bytes:
    """Frames as one input."""
    return b"".join(SIZE.pack(len(one)) + one for one in frames)


def split(data: bytes) -> list[bytes]:
    """An input's frames; any bytes are an input."""
    frames: list[bytes] = []
    while len(data) >= SIZE.size and len(frames) < 64:
        size = SIZE.unpack_from(data)[0] % (1 << 16)
        frames.append(data[SIZE.size : SIZE.size + size])
        data = data[SIZE.size + size :]
    return frames or [data]


def make_keys(folder: Path) -> dict[str, Identity]:
    """An identity for every party."""
    authority = Authority.create(folder / "authority", "fuzz")
    for name in PARTIES:
        request, _ = identity.request(folder / name, name)
        authority.sign(request)
        identity.install(folder / name, authority.folder / f"{name}.pem", authority.folder / "ca.pem")
    return {name: Identity.load(folder / name) for name in PARTIES}


def _sent(message: Message, keys: Identity | None = None) -> bytes:
    frames = []
    for number, packet in enumerate(frame.packets(message, RUN), start=1):
        made = packet.frame
        if keys is not None:
            made.tensor.certificate = keys.shown
            made.tensor.signature = keys.sign(frame.statement(packet))
        packet = packet._replace(header=made.SerializeToString(), number=number, generation=1)
        frames.append(packet.to_bytes())
    return join(frames)


@contextmanager
def small_parts() -> Iterator[None]:
    """Messages are parted every 64 bytes."""
    before, frame.PART = frame.PART, PART
    try:
        yield
    finally:
        frame.PART = before


@small_parts()
def corpus(keys: dict[str, Identity]) -> list[bytes]:
    """Valid inputs: first words, notes on every topic, and messages of every kind, type, spelling and phase."""
    hello = Hello("shop", "0" * 32, "1" * 32, 3, json.dumps(MANIFEST), "2" * 32)
    welcome = Welcome("1" * 32, True, 3)
    signature = keys["bank"].sign(answer(hello, welcome, "bank")).hex()
    words: list[Hello | Welcome] = [
        hello,
        Hello("shop", "0" * 32, "", 0, '{"parties": ["bank"], "lr": 0.1}', "2" * 32),
        welcome,
        Welcome("1" * 32, False, 0, keys["bank"].shown.decode(), signature),
    ]
    found = [join([say(one).to_bytes()]) for one in words]
    found.append(join([word("refused", {"differences": ["lr: here 1, at bank 2"]}).to_bytes()]))
    notes = {
        "regroup": {},
        "state": {"steps": [200, 400], "aligned": None},
        "align": {"id": None},
        "aligned": {"id": "00ff"},
        "facts": {"classes": 10},
        "shape": {"shape": [4]},
        "begin": {"step": 200},
        "saved": {},
        "done": {},
        "bye": {},
        "stopped": {"why": "RunError"},
    }
    for number, (topic, facts) in enumerate(notes.items(), start=1):
        said = note(topic, json.dumps(facts))._replace(number=number, generation=1)
        found.append(join([said.to_bytes()]))
    whole, real = torch.arange(32, dtype=torch.int64).view(8, 4), torch.linspace(-1, 1, 32).view(8, 4)
    octets = torch.arange(96, dtype=torch.uint8)
    plain = [
        (Kind.EMBEDDING, real, Encoding.PLAIN),
        (Kind.EMBEDDING, real, Encoding.HALF),
        (Kind.EMBEDDING, real.sign(), Encoding.BITS),
        (Kind.EMBEDDING, real[:1], Encoding.PLAIN),
        (Kind.GRADIENT, real, Encoding.PLAIN),
        (Kind.GRADIENT, real.double(), Encoding.PLAIN),
        (Kind.SHARE, whole, Encoding.PLAIN),
        (Kind.SHARE, real.double(), Encoding.PLAIN),
        (Kind.SETUP, octets[:32], Encoding.PLAIN),
        (Kind.SETUP, whole, Encoding.PLAIN),
        (Kind.CIPHER, octets.view(3, 32), Encoding.PLAIN),
        (Kind.POINTS, octets.view(3, 32), Encoding.PLAIN),
        (Kind.POINTS, octets[:0].view(0, 32), Encoding.PLAIN),
    ]
    for sender, receiver in (("shop", "bank"), ("bank", "cafe")):
        for phase in Phase:
            for kind, payload, encoding in plain:
                found.append(_sent(Message(Batch(7, phase, octets[:0]), sender, receiver, kind, payload, encoding)))
    relayed = Message(Batch(0, Phase.ALIGN, octets[:0]), "shop", "cafe", Kind.SETUP, octets[:32], Encoding.PLAIN)
    return [*found, _sent(relayed), _sent(relayed, keys["shop"])]


@dataclass
class Tally:
    """What came of the inputs so far."""

    inputs: int = 0
    frames: int = 0
    malformed: int = 0
    accepted: int = 0
    refusals: dict[str, int] = field(default_factory=dict)
    slowest_ms: float = 0.0
    largest_payload: int = 0  # bytes of a decoded message
    largest_ratio: float = 0.0  # of a decoded message's bytes to those that were sent
    largest_traced: int = 0  # bytes that Python allocated at once, of the inputs that were traced
    traced: int = 0
    broken: list[str] = field(default_factory=list)


class Target:
    """Takes an input as the label party, as a feature party, and as a first word."""

    def __init__(self, keys: dict[str, Identity]) -> None:
        self.keys, self.tally = keys, Tally()
        self.posts = [
            (Post("bank", "bank", RUN, ("shop", "cafe"), PARTIES, keys["bank"]), "shop"),
            (Post("cafe", "bank", RUN, ("bank",), PARTIES, keys["cafe"]), "bank"),
        ]
        for (post, _), shapes in zip(self.posts, (SHAPES, {}), strict=True):  # after the meeting, and before it
            post.generation = 1
            post.allow(shapes, ROWS)

    def feed(self, data: bytes) -> None:
        """One input; raises only if something is wrong with the decoder."""
        with small_parts():
            self._feed(data)

    def _feed(self, data: bytes) -> None:
        tally, frames = self.tally, split(data)
        tally.inputs += 1
        tally.frames += len(frames)
        parsed = []
        for one in frames:
            try:
                parsed.append(Packet.from_bytes(one))
            except ProtocolError as error:
                self._refused(str(error))
        taken = [0] * len(parsed)  # by how many of those who looked at it
        for post, peer in self.posts:
            for number in self._deliver(post, peer, parsed):
                taken[number] += 1
        for number, packet in enumerate(parsed):
            taken[number] += self._first_word(packet)
        accepted = sum(map(bool, taken))
        tally.accepted += accepted
        tally.malformed += len(frames) - accepted
        self._weigh(len(data))

    def _deliver(self, post: Post, peer: str, parsed: Sequence[Packet]) -> list[int]:
        """Let a link take frames; after one that it refuses, and at first, it starts afresh with whatever is next."""
        link, stream, taken, fresh = post.links[peer], 0, [], True
        for number, one in enumerate(parsed):
            if fresh:
                post.renew(peer)
                link.greet()
                stream, fresh = link.attach(0), False
                link._seen = max(0, one.number - 1)
            try:
                link.receive(stream, one)
            except ProtocolError as error:
                self._refused(str(error))
                fresh = True
            else:
                taken.append(number)
        return taken

    def _first_word(self, one: Packet) -> bool:
        try:
            hello = heard(one, Hello)
            said = json.loads(hello.manifest) if len(hello.manifest) < 10_000 else {}
            for line in differences(MANIFEST, said if isinstance(said, dict) else {}, hello.name):
                assert line.isprintable()
            answer(hello, Welcome("1" * 32, False, 0), "bank")
            return True
        except (ProtocolError, ValueError, RecursionError) as error:  # the last two: what the hub does with manifests
            if not isinstance(error, ProtocolError) and "hello" not in locals():
                raise
            self._refused(str(error) if isinstance(error, ProtocolError) else "no manifest")
        try:
            welcome = heard(one, Welcome)
            proven(self.keys["cafe"], Hello("shop", "0" * 32, "1" * 32, 3, "{}", "2" * 32), welcome, "bank")
            return True
        except ProtocolError as error:
            self._refused(str(error))
        return False

    def _refused(self, why: str) -> None:
        words = re.sub(r"\d+", "N", " ".join(why.split()[:5])).rstrip(".,:")
        words = words if words in self.tally.refusals or len(self.tally.refusals) < 100 else "other"
        self.tally.refusals[words] = self.tally.refusals.get(words, 0) + 1

    def _weigh(self, sent: int) -> None:
        """Look at what was decoded, then forget it."""
        for post, _ in self.posts:
            while not post.events.empty():
                event = post.events.get()
                if isinstance(event, Came):
                    size = event.message.payload.nbytes
                    self.tally.largest_payload = max(self.tally.largest_payload, size)
                    self.tally.largest_ratio = max(self.tally.largest_ratio, size / max(1, sent))
                    assert size <= 32 * sent, f"{size} bytes decoded from {sent}"
        for link in self.posts[0][0].links.values():  # what was handed on
            link._kept.clear()
            link._number = link._said = 0
            while not link._line.empty():
                link._line.get()

    def watch(self, data: bytes, trace: bool = False) -> None:
        """Feed an input, and note whatever goes wrong with it."""
        tally, began = self.tally, time.perf_counter()
        signal.setitimer(signal.ITIMER_REAL, SLOW)
        if trace:
            tracemalloc.start()
        try:
            self.feed(data)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            tally.broken.append(f"{type(error).__name__}: {error} from {data[:2000].hex()}")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            if trace:
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
                tally.traced += 1
                tally.largest_traced = max(tally.largest_traced, peak)
                if peak > 64 * len(data) + SPARE:
                    tally.broken.append(f"{peak} bytes allocated for {data[:2000].hex()}")
        tally.slowest_ms = max(tally.slowest_ms, 1000 * (time.perf_counter() - began))


def mutate(data: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
    """Change an input: a field of a frame, the order of frames, or bytes."""
    frames = split(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        number = rng.randrange(len(frames))
        chance = rng.random()
        if chance < 0.65:
            frames[number] = _mutate_field(frames[number], rng)
        elif chance < 0.85:
            frames[number] = _mutate_bytes(frames[number], rng)
        elif chance < 0.9:
            frames.insert(rng.randrange(len(frames) + 1), frames[number])
        elif chance < 0.95:
            frames += split(rng.choice(others))[: rng.choice((1, 2))]
        else:
            rng.shuffle(frames)
    return join(frames[:16])


def _mutate_field(data: bytes, rng: random.Random) -> bytes:
    try:
        packet = Packet.from_bytes(data)
        made, payload = packet.frame, packet.payload
    except ProtocolError:
        return _mutate_bytes(data, rng)
    body = made.WhichOneof("body")
    if not body or rng.random() < 0.2:
        name = rng.choice(("step", "part", "generation", "number", "seen", "version"))
        changed: dict[str, Any] = {name: rng.choice(NUMBERS if name in ("part", "version") else LARGE)}
        return packet._replace(**changed).to_bytes()
    message = getattr(made, body)
    chosen = rng.choice(message.DESCRIPTOR.fields)
    if payload and rng.random() < 0.1:
        payload = _mutate_bytes(bytes(payload), rng)
    elif rng.random() < 0.1:
        message.ClearField(chosen.name)
    elif chosen.name == "shape":
        shape = [*message.shape, rng.choice(NUMBERS)] if rng.random() < 0.3 else list(message.shape)
        shape = [rng.choice(NUMBERS) if rng.random() < 0.4 else one for one in shape][: rng.choice((1, 2, 3, 8))]
        shape = rng.choices((0, 1, 4, 8, *NUMBERS[-3:]), k=rng.randint(0, 7)) if rng.random() < 0.5 else shape
        message.ClearField("shape")
        message.shape.extend(shape)
    elif chosen.type == chosen.TYPE_BYTES:
        setattr(message, chosen.name, _mutate_bytes(bytes(getattr(message, chosen.name)), rng))
    elif chosen.type == chosen.TYPE_STRING:
        old = getattr(message, chosen.name)
        text = _mutate_bytes(old.encode(), rng).decode(errors="replace")
        setattr(message, chosen.name, rng.choice(TEXTS) if rng.random() < 0.3 else _mutate_json(old, rng) or text)
    elif chosen.type in (chosen.TYPE_UINT32, chosen.TYPE_UINT64, chosen.TYPE_ENUM):
        narrow = chosen.type != chosen.TYPE_UINT64
        value = rng.choice(NUMBERS if narrow else LARGE)
        setattr(message, chosen.name, min(value, (1 << 31) - 1) if chosen.type == chosen.TYPE_ENUM else value)
    part = packet.part
    if body == "tensor" and rng.random() < 0.4:
        part, payload = _fit(made.tensor, part, payload, rng)
    return packet._replace(header=made.SerializeToString(), payload=payload, part=part).to_bytes()


def _fit(tensor: Any, part: int, payload: bytes | memoryview, rng: random.Random) -> tuple[int, bytes | memoryview]:
    """A payload as long as the rest of the message says, if that is one short part: else few get beyond its length."""
    size = {1: 4, 2: 8, 3: 8, 4: 1}.get(tensor.type, 1) * prod(tensor.shape)
    size = size // 2 if tensor.spelling == 1 else -(-size // 32) if tensor.spelling == 2 else size
    if size <= PART:
        part, tensor.parts, payload = 0, 1, rng.randbytes(size)
    return part, payload


def _mutate_json(text: str, rng: random.Random) -> str:
    """Another value for one of the facts, if these are facts."""
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(facts, dict) or not facts or rng.random() < 0.3:
        return ""
    values: tuple[Any, ...] = (
        None,
        True,
        -1,
        0,
        1 << 70,
        1.5,
        float("nan"),
        "",
        "\ud800",
        "x" * 500,
        [],
        [[]] * 9,
        {},
        {"a": {}},
        "0" * 32,
    )
    facts[rng.choice([*facts, "more"])] = rng.choice(values)
    return json.dumps(facts)


def _mutate_bytes(data: bytes, rng: random.Random) -> bytes:
    made = bytearray(data)
    at = rng.randrange(len(made) + 1)
    match rng.randrange(6):
        case 0 if made:
            made[at % len(made)] ^= 1 << rng.randrange(8)
        case 1 if made:
            made[at % len(made)] = rng.choice((0, 1, 127, 128, 255))
        case 2:
            del made[at : at + rng.choice((1, 2, 8, 64))]
        case 3:
            made[at:at] = rng.randbytes(rng.choice((1, 2, 8, 64)))
        case 4:
            made[at : at + 8] = rng.choice((b"\xff" * 8, b"\x00\x00\xc0\x7f" * 2, b"\x00\x00\x80\xff" * 2, bytes(8)))
        case _:
            del made[at:]
    return bytes(made)


def _hang(number: int, at: Any) -> None:
    raise TimeoutError(f"more than {SLOW} seconds")


def run(target: Target, frames: int, seed: int) -> None:
    """Own mutations of the corpus, until so many frames were malformed; every tenth input is traced."""
    rng, start = random.Random(seed), corpus(target.keys)
    while target.tally.malformed < frames and len(target.tally.broken) < 100:
        target.watch(mutate(rng.choice(start), rng, start), trace=target.tally.inputs % 10 == 0)


def guided(target: Target, frames: int, seed: int, out: Path, folder: Path) -> None:
    """Mutations by atheris, guided by the code that they reach; ends the process."""
    import atheris  # type: ignore[import-not-found, import-untyped, unused-ignore]

    start, rng = corpus(target.keys), random.Random(seed)
    (folder / "corpus").mkdir()
    for number, one in enumerate(start):
        (folder / "corpus" / str(number)).write_bytes(one)

    def one_input(data: bytes) -> None:
        target.watch(data, trace=target.tally.inputs % 10 == 0)
        if target.tally.malformed >= frames or len(target.tally.broken) >= 100:
            out.write_text(json.dumps(asdict(target.tally)))
            os._exit(0)

    def mutator(data: bytes, most: int, seed: int) -> bytes:
        if rng.random() < 0.5:
            return mutate(data, rng, start)[:most]
        return bytes(atheris.Mutate(data, most))

    options = [sys.argv[0], str(folder / "corpus"), f"-seed={seed + 1}", "-max_len=8192", "-verbosity=0", "-timeout=60"]
    atheris.Setup(options, one_input, custom_mutator=mutator)
    atheris.Fuzz()


def main() -> None:
    """Half of the frames by atheris, if it is there, and the rest by our own mutator; each in its own process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=1_000_000, help="malformed frames")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", choices=("own", "atheris"), help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    told = parser.parse_args()
    if told.child is None:
        lead(told.frames, told.seed, told.out)
        return
    signal.signal(signal.SIGALRM, _hang)
    with tempfile.TemporaryDirectory() as made:
        target = Target(make_keys(Path(made)))
        if told.child == "atheris":
            guided(target, told.frames, told.seed, told.out, Path(made))
        run(target, told.frames, told.seed)
        told.out.write_text(json.dumps(asdict(target.tally)))


def lead(frames: int, seed: int, out: Path) -> None:
    """Start both, add up, print and write."""
    code = "import atheris, runpy, sys\nwith atheris.instrument_imports(include=['cutlayer.net', 'cutlayer.wire']):\n"
    code += "    import tests.long.fuzz as fuzz\nfuzz.main()"
    has_atheris = subprocess.run([sys.executable, "-c", "import atheris"], capture_output=True).returncode == 0
    record: dict[str, Any] = {"cutlayer": __version__, "seed": seed}
    with tempfile.TemporaryDirectory() as folder:
        for way in ("atheris", "own") if has_atheris else ("own",):
            began, file = time.perf_counter(), Path(folder) / way
            start = [sys.executable, "-c", code] if way == "atheris" else [sys.executable, __file__]
            share = frames // 2 if has_atheris else frames
            options = ["--child", way, "--frames", str(share), "--seed", str(seed), "--out", str(file)]
            environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
            done = subprocess.run([*start, *options], env=environment, capture_output=True, text=True)
            if not file.exists():
                raise SystemExit(f"{way} crashed with {done.returncode}:\n{done.stderr[-3000:]}")
            record[way] = json.loads(file.read_text())
            record[way]["seconds"] = round(time.perf_counter() - began)
            record[way]["most_resident_mib"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    ways = [record[way] for way in ("atheris", "own") if way in record]
    record["corpus"] = "first words, 11 topics, 6 kinds in 3 phases, relayed keys"
    record["malformed"] = sum(way["malformed"] for way in ways)
    record["broken"] = sum(len(way["broken"]) for way in ways)
    out.write_text(json.dumps(record, indent=2) + "\n")
    for way in ways:
        print({key: value for key, value in way.items() if key not in ("refusals", "broken")})
    print(f"{record['malformed']} malformed frames, {record['broken']} crashes, hangs or allocations over the cap")


if __name__ == "__main__":
    main()
