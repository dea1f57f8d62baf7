"""Real processes on loopback give, bit for bit, the models of a simulation."""

import csv
import random

import pytest

from cutlayer.net.party import ledger

SALT = "a salt that only the parties know"


def check(federation):
    """Run the federation both ways and compare; the records."""
    federation.start()
    expected = federation.simulate()
    models = federation.finish()
    assert models == expected["models"]
    records = {name: federation.record(name) for name in federation.names}
    label = records[federation.names[0]]
    assert [entry["loss"] for entry in label["history"]] == [entry["loss"] for entry in expected["history"]]
    for name in federation.names:
        lines = list(ledger.read(federation.kept(name) / "ledger.jsonl"))
        assert sum(line.get("bytes", 0) for line in lines if line.get("to")) > 0
        assert records[name]["rows"] == expected["rows"]
    return records


def test_two_processes_equal_a_simulation(federate):
    records = check(federate())
    assert records["party1"]["accuracy"] > 0.5 and "accuracy" not in records["party2"]


def test_four_processes_with_dropout_and_noise_over_mutual_tls(federate):
    check(
        federate(
            parties=4,
            insecure=False,
            bottom="mlp:hidden=16,dropout=0.2",
            defences=("gaussian-noise:std=0.1", "max-norm"),
            schedule="cosine",
        )
    )


def test_four_processes_with_hash_codes(federate):
    check(federate(parties=4, defences=("hash:bits=8",)))


def test_secure_sum_of_two_parties(federate):
    check(federate(parties=2, epochs=2, cut="secure-sum:scheme=bfv", bottom="linear", test=0.5))


def test_secure_sum_of_four_parties_whose_keys_are_signed(federate):
    check(federate(parties=4, insecure=False, epochs=2, cut="secure-sum:scheme=bfv", bottom="linear"))


def test_secure_sum_goes_on_after_a_party_dies(federate):
    federation = federate(parties=3, epochs=8, cut="secure-sum:scheme=bfv", bottom="linear", checkpoint=7)
    expected = federation.simulate()["models"]
    federation.start()
    for victim, step in (("party2", 20), ("party1", 40), ("party3", 60)):
        federation.wait_step(victim, step)
        federation.processes[victim].kill()
        federation.start(victim)
    assert federation.finish() == expected


@pytest.mark.parametrize(("parties", "regression"), [(2, True), (4, False)])
def test_tables_meet_by_their_ids(federate, parties, regression):
    federation = federate(parties=parties, dataset=None, salt=SALT, epochs=4, insecure=parties == 2)
    common = write_tables(federation, regression)
    records = check(federation)
    rows = records["party1"]["rows"]
    assert rows["train"] + rows["test"] == len(common)
    assert ("r2" in records["party1"]) == regression


def test_aligning_alone_is_kept_for_training(federate):
    federation = federate(parties=3, dataset=None, salt=SALT, epochs=2)
    common = write_tables(federation, regression=False)
    for process in federation.start(verb="align"):
        assert process.end() == 0, process.stderr
        assert f"rows common to all parties: {len(common)}" in process.stderr
        assert "ids here: 330 usable, 0 rows without one, 0 repeated" in process.stderr
        assert not (federation.kept(process.name) / "run.json").exists()
    for process in federation.start(verb="align"):  # once more: nothing to do
        assert process.end() == 0 and "Aligning" not in process.stderr
        assert f"rows common to all parties: {len(common)}" in process.stderr
    check(federation)
    assert all("Aligning" not in process.stderr for process in federation.processes.values())
    late = federation.start("party1", verb="align")
    assert late.end() == 2 and "is finished" in late.stderr


def test_who_trains_and_who_only_aligns_are_told_so(federate):
    federation = federate(dataset=None, salt=SALT)
    write_tables(federation, regression=False)
    bank, shop = federation.start("party1"), federation.start("party2", verb="align")
    assert shop.end() == 2 and 'purpose: here "align", at party1 "(nothing)"' in shop.stderr
    bank.wait_says("party2 has another manifest")
    assert federation.start("party2").end() == 0 and bank.end() == 0


def test_the_rows_of_a_dataset_need_no_alignment(federate):
    alone = federate().start("party1", verb="align")
    assert alone.end() == 2 and "in order already" in alone.stderr


def write_tables(federation, regression):
    """A table for each party, with ids in many spellings; the people that all of them have."""
    rng = random.Random(len(federation.names))
    people = [f"Person-{number}" for number in range(400)]
    common = set(people)
    for place, name in enumerate(federation.names):
        held = rng.sample(people, 330)
        common &= set(held)
        with (federation.folder / f"{name}.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["who", "town", "size", *(["y"] if not place else [])])
            for entry in held:
                written = f"  {entry.upper()} " if rng.random() < 0.3 else entry
                town = rng.choice(["Ulm", "Bonn", "Kiel", ""])
                size = "" if rng.random() < 0.1 else f"{rng.gauss(int(entry[7:]) % 7, 1):.3f}"
                goal = (
                    f"{int(entry[7:]) % 7 + rng.random():.2f}" if regression else ("no", "yes")[int(entry[7:]) % 7 > 3]
                )
                table.writerow([written, town, size, *([goal] if not place else [])])
        federation.data[name] = {"table": f"{name}.csv", "id": "who", **({} if place else {"label": "y"})}
    return common
