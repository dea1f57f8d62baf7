"""More cores change nothing but the time: the same numbers, no secret on a pipe, a sentence when a process dies."""

import os
import subprocess
import sys

import numpy as np
import pytest

from cutlayer.blocks import cores
from cutlayer.crypto import PlainRows, bfv, layout, powers
from cutlayer.crypto.context import N
from cutlayer.errors import DataError, RunError


@pytest.fixture
def spread(monkeypatch):
    """Low thresholds and two cores; what each process was sent and answered."""
    piped = []
    real = cores.spread

    def watched(module, setup, jobs, job, then, **options):
        def sent(number):
            piped.append(job(number))
            return piped[-1]

        def answered(number, data):
            piped.append(data)
            return then(number, data)

        piped.append(setup)
        return real(module, setup, jobs, sent, answered, **options)

    monkeypatch.setattr(cores, "spread", watched)
    monkeypatch.setattr(cores, "count", lambda: 2)
    monkeypatch.setattr(bfv, "OPERANDS_ALONE", 2)
    return piped


def no_children():
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@pytest.mark.parametrize("name", ["bfv", "bfv_wide"])
@pytest.mark.parametrize(("shape", "for_rows"), [((5, 3), 0), ((7, 64), 200), ((2, 9000), 0)])
def test_all_cores_encrypt_what_one_does(name, shape, for_rows, spread, request):
    secret = request.getfixturevalue(name)
    ring = secret.public.ring
    matrix = ring.uniform(shape)
    operand = secret.encrypt(matrix, for_rows)
    assert len(spread) == 1 + 2 * len(operand.parts) or len(operand.parts) == 1
    assert np.array_equal(secret.decrypt(operand), matrix)
    again = secret.public.read_operand(operand.to_bytes(), shape, for_rows)
    assert np.array_equal(secret.decrypt(again), matrix)
    rows, mask = np.ones((2, shape[0]), np.int64), ring.uniform((2, shape[1]))
    product = secret.decrypt(secret.public.masked_product(rows, operand, mask))
    assert np.array_equal(product, ring.add(ring.matmul(rows, matrix), mask))
    no_children()


def test_every_encryption_is_fresh(bfv, spread):
    bfv.encrypt(np.zeros((6, 64), np.int64))
    noise = {bytes(answer) for answer in spread[1:] if len(answer) == 24 * N}
    assert len(noise) == 6


def test_no_secret_key_crosses_a_pipe(bfv, spread):
    bfv.encrypt(bfv.public.ring.uniform((6, 64)))
    secret = bfv._factor.to_bytes()[layout.PLAIN_BYTES :]
    assert len(secret) == 24 * N and len(spread) == 1 + 2 * 6
    pieces = [secret[start : start + 64] for start in range(0, len(secret), 8 * N)]
    assert not any(piece in data for data in spread for piece in pieces)


def test_small_work_stays_here(bfv, monkeypatch):
    monkeypatch.setattr(cores, "spread", None)
    ring = bfv.public.ring
    operand, mask = bfv.encrypt(ring.uniform((32, 64))), ring.uniform((256, 64))
    bfv.public.masked_product(np.ones((256, 32), np.int64), operand, mask)
    monkeypatch.setattr("cutlayer.crypto.bfv.OPERANDS_ALONE", 1)
    with cores.at_most(1):
        assert len(bfv.encrypt(ring.uniform((2, 64))).parts) == 2


def dying(tmp_path, monkeypatch, body):
    """A program in place of cores.py."""
    program = tmp_path / "dies.py"
    program.write_text(body)
    monkeypatch.setattr(cores, "__file__", str(program))


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("raise SystemExit(7)", 7),
        ("import os\nos.kill(os.getpid(), 9)", -9),
        ("import sys\nsys.stdout.buffer.write(b'd' + bytes(17))", 0),
        ("import sys\nsys.stdin.buffer.read(9000)\nsys.exit(1)", 1),
    ],
)
def test_a_process_that_dies_gives_one_sentence(body, code, bfv, spread, tmp_path, monkeypatch):
    dying(tmp_path, monkeypatch, body)
    with pytest.raises(RunError, match=rf"^A process that encrypts ended with code {code}; .*\.$"):
        bfv.encrypt(bfv.public.ring.uniform((40, 64)))
    no_children()


def test_one_that_cannot_start_gives_one_sentence(bfv, spread, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(RunError, match=r"^A process that encrypts did not start \(No such file or directory\); .*\.$"):
        bfv.encrypt(bfv.public.ring.uniform((40, 64)))


def test_one_that_hangs_ends_when_another_dies(bfv, spread, tmp_path, monkeypatch):
    flag = tmp_path / "first"
    dying(
        tmp_path,
        monkeypatch,
        f"import os, time\ntry: os.mkdir({str(flag)!r})\nexcept OSError: raise SystemExit(5)\ntime.sleep(600)",
    )
    with pytest.raises(RunError, match="code 5"):
        bfv.encrypt(bfv.public.ring.uniform((40, 64)))
    no_children()


def test_an_error_here_ends_every_process(spread, monkeypatch):
    def job(number):
        raise DataError("no such job")

    with pytest.raises(DataError, match="no such job"):
        cores.spread("cutlayer.crypto.noisy", b"\x28", 4, job, max, processes=2, doing="x", instead="y")
    no_children()


def test_a_process_loads_no_torch():
    code = (
        "import runpy, sys; from importlib import import_module\n"
        f"serve = runpy.run_path({cores.__file__!r})['_serve']; sys.stdin.close(); sys.stdin = open('/dev/null')\n"
        "try: serve(sys.argv[1])\nexcept (StopIteration, RuntimeError): pass\n"
        "assert 'torch' not in sys.modules"
    )
    for module in ("cutlayer.crypto.noisy", "cutlayer.align.kernel"):
        subprocess.run([sys.executable, "-P", "-c", code, module], check=True)


@pytest.mark.parametrize("count", [1, 3])
def test_threads_give_paillier_the_same(paillier, monkeypatch, count):
    monkeypatch.setattr(powers, "BITS_ALONE", 1)
    monkeypatch.setattr(cores, "count", lambda: count)
    ring = paillier.public.ring
    matrix, mask = ring.uniform((3, 7)), ring.uniform((4, 7))
    rows = np.random.default_rng(0).integers(-900, 900, (4, 3))
    result = paillier.public.masked_product(PlainRows.dense(rows), paillier.encrypt(matrix), mask)
    assert np.array_equal(paillier.decrypt(result), ring.add(ring.matmul(rows, matrix), mask))


def test_cores_can_be_limited_for_a_while():
    before = cores.count()
    with cores.at_most(1):
        assert cores.count() == 1
    assert cores.count() == before >= 1
