"""Faults: parties that die, stall, come back as others, and cables that are cut. The result is always the same."""

import random
import signal
import time

import pytest

from tests.helpers.cable import Cable
from tests.helpers.federation import Federation
from tests.helpers.waiting import wait_for

LONG = {"epochs": 25, "checkpoint": 7}  # 300 steps, a second or less


@pytest.fixture(scope="module")
def expected(fork_server, tmp_path_factory):
    """The models of runs without faults, simulated once for every number of parties."""
    simulated = {}

    def models(parties):
        if parties not in simulated:
            folder = tmp_path_factory.mktemp("expected") / "simulated"
            simulated[parties] = Federation(folder, fork_server, parties=parties, **LONG).simulate()["models"]
        return simulated[parties]

    return models


@pytest.mark.parametrize("seed", range(3))
def test_each_role_is_killed_at_random_steps_and_the_models_are_the_same(federate, expected, seed):
    rng = random.Random(seed)
    federation = federate(parties=2, **LONG)
    federation.start()
    victims = [name for name in federation.names for _ in range(3)]
    rng.shuffle(victims)
    steps = sorted(rng.sample(range(5, 270), len(victims)))
    for victim, step in zip(victims, steps, strict=True):
        federation.wait_step(victim, step)
        federation.processes[victim].kill()
        other = next(process for name, process in federation.processes.items() if name != victim)
        assert other.wait_says(f"{victim} is gone", 15) < 15
        federation.start(victim)
    assert federation.finish() == expected(2)


def test_three_of_four_parties_are_killed_in_turn_then_all_at_once(federate, expected):
    rng = random.Random(7)
    federation = federate(parties=4, **LONG)
    federation.start()
    for victim, step in zip(("party3", "party1", "party4"), sorted(rng.sample(range(20, 180), 3)), strict=True):
        federation.wait_step(victim, step)
        federation.processes[victim].kill()
        for name, process in federation.processes.items():
            if name not in (victim, "party1") and victim != "party1":
                process.wait_says(f"party1 waits for {victim}", 15)  # feature parties hear of each other
        federation.start(victim)
    federation.wait_step("party2", 220)
    for process in federation.processes.values():
        process.kill()
    rest = list(federation.names)
    rng.shuffle(rest)
    federation.start(*rest)
    assert federation.finish() == expected(4)


def test_a_cut_cable_costs_no_step(federate, expected):
    federation = federate(parties=2, **LONG)
    cable = Cable(federation.port)
    federation.party["party2"]["connect"] = f"127.0.0.1:{cable.port}"
    federation.start()
    for step in (20, 60, 100, 101, 140, 180, 220, 260):
        federation.wait_step("party2", step)
        wait_for(cable.cut, what="a connection to cut")
    assert federation.finish() == expected(2)
    cable.close()
    for process in federation.processes.values():
        assert "is gone" in process.stderr
        assert "Going on from step" not in process.stderr, "a cut cable is no reason to go back"


def test_a_cable_that_stalls_is_noticed_and_costs_no_step(federate, expected):
    federation = federate(parties=2, **LONG)
    cable = Cable(federation.port)
    federation.party["party2"]["connect"] = f"127.0.0.1:{cable.port}"
    federation.start(quick=True)
    federation.wait_step("party2", 100)
    cable.hold()
    for name, peer in (("party1", "party2"), ("party2", "party1")):
        assert federation.processes[name].wait_says(f"{peer} is gone", 15) < 15
    cable.cut()
    cable.release()
    assert federation.finish() == expected(2)
    cable.close()
    assert all("Going on from step" not in process.stderr for process in federation.processes.values())


@pytest.mark.parametrize("victim", ["party1", "party2"])
def test_a_stopped_process_is_named_and_goes_on_when_it_wakes(federate, expected, victim):
    federation = federate(parties=2, **LONG)
    federation.start(quick=True)
    federation.wait_step(victim, 100)
    federation.processes[victim].send(signal.SIGSTOP)
    other = next(process for name, process in federation.processes.items() if name != victim)
    assert other.wait_says(f"{victim} is gone", 15) < 15
    federation.processes[victim].send(signal.SIGCONT)
    assert federation.finish() == expected(2)
    assert all("Going on from step" not in process.stderr for process in federation.processes.values())


def test_a_damaged_checkpoint_sends_all_to_the_one_before(federate, expected):
    federation = federate(parties=2, **LONG)
    federation.start()
    federation.wait_step("party2", 200)
    for process in federation.processes.values():
        process.kill()
    common = sorted(set(federation.steps_kept("party1")) & set(federation.steps_kept("party2")))
    newest = federation.kept("party2") / "checkpoints" / f"step-{common[-1]}.safetensors"
    data = bytearray(newest.read_bytes())
    data[len(data) // 2] ^= 1
    newest.write_bytes(data)
    federation.start()
    for process in federation.processes.values():
        process.wait_says(f"Going on from step {common[-2]}.")
    assert federation.finish() == expected(2)


@pytest.mark.parametrize("changed", ["party1", "party2"])
def test_a_party_with_another_manifest_is_told_what_differs_and_the_other_waits(federate, expected, changed):
    federation = federate(parties=2, **LONG)
    federation.start()
    other = next(name for name in federation.names if name != changed)
    federation.wait_step(changed, 60)
    federation.processes[changed].kill()
    wrong = federation.start(changed, run={"epochs": 26})
    assert wrong.end(20) == 2
    assert "epochs: here 26" in wrong.stderr and " 25" in wrong.stderr and wrong.stderr.count("\n") <= 3
    assert not federation.processes[other].ended
    federation.start(changed)
    assert federation.finish() == expected(2)


def test_manifests_that_never_agreed_are_compared_at_the_door(federate):
    federation = federate(parties=2, **LONG)
    bank = federation.start("party1")
    shop = federation.start("party2", run={"epochs": 5, "lr": 0.5})
    assert shop.end(20) == 2
    assert "epochs: here 5, at party1 25; lr: here 0.5, at party1 0.002" in shop.stderr
    bank.wait_says("party2 has another manifest")
    assert not bank.ended
    bank.send(signal.SIGINT)
    assert bank.end(10) == 130
    assert bank.stderr.splitlines()[-1] == "cutlayer: Interrupted."


def test_a_party_that_never_comes_is_named_and_waited_for_as_long_as_the_user_says(federate):
    federation = federate(parties=3, **LONG)
    for name in federation.names:
        federation.party[name]["wait"] = 2.5
    began = time.monotonic()
    bank, shop = federation.start("party1", "party2")
    assert bank.wait_says("Waiting for", 5) < 5 and shop.wait_says("party1 waits for party3", 5) < 5
    assert bank.end(20) == 2 and time.monotonic() - began >= 2.5
    assert "party3 has been missing for" in bank.stderr.splitlines()[-1]
    assert shop.end(20) == 2
    assert "party1 has been missing for" in shop.stderr.splitlines()[-1]


def test_a_second_process_on_the_same_folder_is_refused(federate):
    federation = federate(parties=2, **LONG)
    bank = federation.start("party1")
    bank.wait_says("listens")
    second = federation.start("party1")
    assert second.end(10) == 2 and "Another process is using" in second.stderr
    bank.kill()


def test_the_label_party_dies_while_others_wait_for_it_to_begin(federate, expected):
    federation = federate(parties=3, **LONG)
    federation.start("party1", "party2")
    federation.processes["party2"].wait_says("party1 waits for party3")
    federation.processes["party1"].kill()
    federation.processes["party2"].wait_says("party1 is gone", 15)
    federation.start("party3")
    federation.start("party1")
    assert federation.finish() == expected(3)


@pytest.mark.parametrize("victim", ["party1", "party2", "party3"])
def test_a_party_that_dies_at_the_very_end_finishes_when_it_is_started_again(federate, expected, victim):
    federation = federate(parties=3, **LONG)
    hold = {"hold": ("pending" if victim != "party1" else "run")}
    for name in federation.names:
        federation.start(name, **(hold if name == victim else {}))
    wait_for(lambda: (federation.kept(victim) / f"{hold['hold']}.json").exists(), what="the end")
    federation.processes[victim].kill()
    federation.start(victim)
    assert federation.finish() == expected(3)
    for name in federation.names:
        assert not {"pending.json", "farewell.json"} & {path.name for path in federation.kept(name).iterdir()}


def test_a_full_disk_is_one_sentence_and_the_run_goes_on_later(federate, expected):
    federation = federate(parties=2, **LONG)
    federation.start("party1")
    federation.start("party2", full_after=30)
    shop = federation.processes["party2"]
    assert shop.end() == 2
    assert "The disk is full" in shop.stderr.splitlines()[-1]
    assert not list(federation.kept("party2").rglob("*.tmp"))
    federation.start("party2")
    assert federation.finish() == expected(2)
