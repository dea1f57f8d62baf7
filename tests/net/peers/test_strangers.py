"""Strangers at a real port, while an honest party goes on."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cutlayer.net.peers import listener
from cutlayer.net.peers.channel_settings import STRANGER_LIMITS
from cutlayer.net.peers.handshake import Hello, opening_packet
from tests.helpers import strangers
from tests.helpers.stranger_scene import Scene, resident
from tests.helpers.waiting import wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory and failed handshakes are read from Linux")
ROOT = Path(__file__).parents[3]
MEBI = 1 << 20
TEXTS = {"nothing", "a TLS alert", "PERMISSION_DENIED: refused"}


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    with Scene(tmp_path_factory.mktemp("strangers")) as stage:
        assert stage.goes_on()
        yield stage
        assert stage.disturbed == []


@pytest.fixture
def lines(scene, monkeypatch):
    """What the bank logs from now on, as if nobody had come before."""
    monkeypatch.setattr(scene.listener.refusal_log, "_last", {})
    del scene.lines[:]
    return scene.lines


@pytest.mark.parametrize("stranger", strangers.STRANGERS)
def test_a_stranger_is_refused_with_a_constant_text_and_logged_once(scene, lines, stranger):
    got = {strangers.STRANGERS[stranger](scene) for _ in range(5)}
    assert got <= TEXTS and (len(got) == 1 or got <= {"nothing", "a TLS alert"})
    assert scene.goes_on() and scene.disturbed == []
    assert wait_for(lambda: len(lines) == 1), lines
    assert lines[0].startswith("Refused 127.0.0.1: ") and lines[0].count("\n") == 0


@pytest.mark.parametrize(
    ("stranger", "why"),
    [
        ("a revoked certificate", "it was revoked"),
        ("another party's name", "cafe calls itself 'shop'"),
        ("a name outside the run", "guest takes no part in this run"),
        ("another protocol version", "Expected a hello of protocol version 2: version 3, 'hello'"),
        ("no certificate", "it did not prove who it is"),
    ],
)
def test_our_own_log_says_why(scene, lines, stranger, why):
    strangers.STRANGERS[stranger](scene)
    assert wait_for(lambda: lines) and lines == [f"Refused 127.0.0.1: {why}."]


def test_a_party_that_was_let_in_once_is_refused_when_it_is_revoked(tmp_path):
    with Scene(tmp_path) as scene:
        assert strangers.join(scene, scene.keys["gone"], strangers.hello("gone")) == "welcome"
        assert strangers.join(scene, strangers.revoked(scene), strangers.hello("gone")) == "PERMISSION_DENIED: refused"
        assert scene.goes_on() and scene.disturbed == []


@pytest.mark.parametrize("seen", [5, 1 << 40])
def test_a_party_that_has_seen_what_was_never_sent(scene, lines, seen):
    keys, bank = scene.keys["cafe"], scene.bank.incarnation
    assert strangers.join(scene, keys, strangers.hello("cafe")) == "welcome"
    again = opening_packet(Hello("cafe", "0" * 32, bank, seen, '{"parties": ["bank", "shop", "cafe", "gone"]}'))
    assert strangers.join(scene, keys, again) == "PERMISSION_DENIED: refused"
    assert scene.goes_on()


def test_a_manifest_that_makes_trouble_is_told_in_short_printable_lines(scene, lines):
    manifest = '{"\\u001b[2J\\ud800": ' + "[" * 500 + "]" * 500 + ', "parties": "' + "x" * 40_000 + '"}'
    keys = scene.keys["cafe"]
    assert strangers.join(scene, keys, opening_packet(Hello("cafe", "0" * 32, "", 0, manifest))) == "refused"
    (line,) = [line for line in lines if line.startswith("cafe has another manifest: ")]
    assert line.isprintable() and len(line) < 3000


def test_a_refusal_is_never_too_long_to_be_sent(scene):
    manifest = json.dumps({f'"{number}' + '\\"' * 50: '"\\' * 40 for number in range(60)})
    keys = scene.keys["cafe"]
    assert strangers.join(scene, keys, opening_packet(Hello("cafe", "0" * 32, "", 0, manifest))) == "refused"


def test_a_silent_party_is_cut_off(scene, lines, monkeypatch):
    monkeypatch.setattr(listener, "HELLO_SECONDS", 1.0)
    began = time.monotonic()
    assert strangers.join(scene, scene.keys["cafe"]).startswith("CANCELLED")
    assert 0.9 < time.monotonic() - began < 30
    assert scene.goes_on() and wait_for(lambda: len(lines) == 1)


def test_a_party_past_tls_that_reads_nothing_is_cut_off(scene, lines):
    assert strangers.slow_reader(scene) == "cut off"
    assert scene.goes_on() and wait_for(lambda: len(lines) == 1)


def test_half_open_connections_are_cut_off_and_memory_stays(scene, lines):
    before = resident()
    assert strangers.half_open(scene, 2_000) == "cut off"
    first = resident()
    assert strangers.half_open(scene, 2_000) == "cut off"
    second = resident()
    assert first - before < 96 * MEBI and second - first < 24 * MEBI
    assert scene.goes_on() and scene.disturbed == []
    assert strangers.newcomer(scene).startswith("in after")
    assert len(lines) <= 2 and len(set(lines)) <= 1  # the flood may last for more than a minute


def test_so_many_connections_and_no_more(scene):
    limit = dict(STRANGER_LIMITS)["grpc.max_allowed_incoming_connections"]
    child = strangers.flood(scene, 2 * limit, 60)
    try:
        assert 10 < len(list(_accepted(scene.port))) <= limit + 10
        assert scene.goes_on()
    finally:
        child.communicate(timeout=180)


def _accepted(port):
    """Ends of connections to a port that are open, by the kernel's table."""
    for name in ("tcp", "tcp6"):
        with open(f"/proc/self/net/{name}") as table:  # noqa: PTH123
            for line in table.readlines()[1:]:
                words = line.split()
                if words[1].endswith(f":{port:04X}") and words[3] == "01" and words[9] != "0":
                    yield words[2]


def test_grpc_itself_prints_nothing(tmp_path):
    code = (
        "import sys; from pathlib import Path; from tests.helpers.strangers import STRANGERS, Scene\n"
        "with Scene(Path(sys.argv[1])) as scene:\n"
        "    for name in STRANGERS: STRANGERS[name](scene)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stdout == done.stderr == ""
