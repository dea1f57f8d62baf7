"""cutlayer keys as people use it: the whole journey, and every mistake as one sentence and exit 2."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from cutlayer.cli import keys, main

ROOT = Path(__file__).parent.parent.parent
COMMANDS = ("init", "request", "sign", "renew", "install", "revoke", "show")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys, *arguments):
    code = main(["keys", *map(str, arguments), "--json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    return json.loads(out)


def say(capsys, *arguments):
    assert main(["keys", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def fail(capsys, *arguments):
    """The one sentence of a refusal."""
    assert main(["keys", *map(str, arguments)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith("cutlayer: ")
    return err


@pytest.fixture
def federation(here, capsys):
    """An authority and a bank with a certificate."""
    run(capsys, "init", "authority")
    run(capsys, "request", "bank", "--out", "bank")
    run(capsys, "sign", "authority", "bank/bank.csr")
    run(capsys, "install", "bank", "authority/bank.pem", "authority/ca.pem", "--crl", "authority/crl.pem")
    return here


def test_the_journey(here, capsys):
    authority = run(capsys, "init", "authority", "--name", "bank and shops", "--days", "1000")
    asked = run(capsys, "request", "bank", "--out", "deep/bank")
    waiting = run(capsys, "show", "deep/bank")
    assert waiting == {"name": "bank", "fingerprint": asked["fingerprint"], "state": "waiting"}
    signed = run(capsys, "sign", "authority", asked["request"], "--address", "10.0.0.1", "--address", "bank.example")
    assert signed["fingerprint"] == asked["fingerprint"] and signed["asked"] == signed["name"] == "bank"
    shown = run(capsys, "install", "deep/bank", signed["certificate"], "authority/ca.pem")
    assert shown["serial"] == signed["serial"] and shown["state"] == "valid" and shown["revoked"] is None
    assert shown["authority"] == "bank and shops" and shown["warnings"] == []
    assert sorted(p.name for p in (here / "deep/bank").iterdir()) == ["bank.csr", "ca.pem", "party.key", "party.pem"]
    renewed = run(capsys, "renew", "deep/bank")
    again = run(capsys, "sign", "authority", renewed["request"], "--renew", "--days", "20")
    install = ["install", "deep/bank", again["certificate"], "authority/ca.pem", "--crl", "authority/crl.pem"]
    shown = run(capsys, *install)
    assert shown["fingerprint"] == renewed["fingerprint"] != asked["fingerprint"] and shown["revoked"] is False
    assert shown["warnings"] == ["bank expires in 19 days: renew it."]
    gone = run(capsys, "revoke", "authority", signed["serial"])
    assert gone["revoked"] == [signed["serial"]] and gone["name"] == "bank"
    everybody = run(capsys, "show", "authority")
    assert [(p["name"], p["state"]) for p in everybody["parties"]] == [("bank", "revoked"), ("bank", "valid")]
    assert everybody["fingerprint"] == authority["fingerprint"]
    assert everybody["warnings"] == ["bank expires in 19 days: renew it."]
    run(capsys, "revoke", "authority", "bank")
    (here / "deep/bank/crl.pem").write_bytes((here / "authority/crl.pem").read_bytes())
    shown = run(capsys, "show", "deep/bank")
    assert shown["revoked"] is True and shown["state"] == "refused" and "it was revoked" in shown["warnings"][0]


def test_people_read_what_to_do_next(here, capsys):
    assert "Keep authority/ca.key secret" in say(capsys, "init", "authority")
    out = say(capsys, "request", "bank", "--out", "bank")
    assert "Send bank/bank.csr to the authority" in out and "fingerprint" in out
    assert "Send bank/bank.csr" in say(capsys, "show", "bank")
    assert "Compare the fingerprint" in say(capsys, "sign", "authority", "bank/bank.csr", "--days", "5")
    out = say(capsys, "install", "bank", "authority/bank.pem", "authority/ca.pem")
    assert "expires in 4 days" in out and "There is no revocation list" in out
    assert "bank expires in 4 days" in say(capsys, "show", "authority")
    assert "Send authority/crl.pem to every party" in say(capsys, "revoke", "authority", "bank")
    assert "revoked" in say(capsys, "show", "authority")


MISTAKES = {
    "existing authority": (["init", "authority"], "The folder authority exists already"),
    "no days": (["init", "new", "--days", "0"], "days=0"),
    "no federation": (["init", "new", "--name", ""], "federation's name"),
    "existing party": (["request", "bank", "--out", "bank"], "The folder bank exists already"),
    "bad name": (["request", "Bank", "--out", "new"], "lowercase letters"),
    "reserved name": (["request", "ca", "--out", "new"], "other than ca and crl"),
    "no out": (["request", "bank"], "--out"),
    "out is below a file": (["request", "shop", "--out", "bank/bank.csr/x"], "Could not read or write"),
    "no request": (["sign", "authority", "shop.csr"], "shop.csr"),
    "no authority": (["sign", "nowhere", "bank/bank.csr"], "nowhere/ca.pem"),
    "signed already": (["sign", "authority", "bank/bank.csr"], "add --renew"),
    "somebody else's key": (["sign", "authority", "bank/bank.csr", "--name", "shop"], "belongs to the party bank"),
    "bad address": (
        ["sign", "authority", "bank/bank.csr", "--renew", "--address", "x.cutlayer"],
        "not under .cutlayer",
    ),
    "too long": (["sign", "authority", "bank/bank.csr", "--renew", "--days", "99999"], "days=99999"),
    "not a certificate": (["install", "bank", "bank/bank.csr", "authority/ca.pem"], "Expected a certificate"),
    "wrong certificate": (["install", "bank", "authority/ca.pem", "authority/ca.pem"], "do not match"),
    "no party": (["renew", "nowhere"], "nowhere/party.pem"),
    "renew the authority": (["renew", "authority"], "authority/party.pem"),
    "unknown party": (["revoke", "authority", "shop"], "'shop'"),
    "no folder": (["show", "nowhere"], "Expected a folder nowhere"),
    "nothing in it": (["show", "."], "there are none"),
    "unknown option": (["show", "bank", "--loud"], "No such option"),
}


@pytest.mark.parametrize(("arguments", "words"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes(federation, capsys, arguments, words):
    before = {path: path.read_bytes() for path in federation.rglob("*") if path.is_file()}
    assert words in fail(capsys, *arguments)
    assert {path: path.read_bytes() for path in federation.rglob("*") if path.is_file()} == before


def test_an_open_key_is_shown_as_a_problem(federation, capsys):
    (federation / "bank/party.key").chmod(0o644)
    shown = run(capsys, "show", "bank")
    assert shown["state"] == "refused" and "chmod 600" in shown["warnings"][0]


def test_without_the_extra(here, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    assert 'pip install "cutlayer[net]"' in fail(capsys, "init", "authority")
    assert list(here.iterdir()) == []


def test_every_command_teaches(capsys):
    for command in COMMANDS:
        assert main(["keys", command, "--help"]) == 0
        text = capsys.readouterr().out
        assert "Usage" in text and "--json" in text and f"cutlayer keys {command}" in text


def test_keys_stand_under_deploy():
    done = subprocess.run([sys.executable, "-m", "cutlayer", "--help"], capture_output=True, text=True, check=True)
    assert "Deploy" in done.stdout and "keys" in done.stdout


def test_every_option_is_documented():
    page = (ROOT / "docs/ref-command-line.md").read_text()
    commands = typer.main.get_command(keys.app).commands
    assert set(commands) == set(COMMANDS)
    for name, command in commands.items():
        assert f"`keys {name}" in page, name
        for parameter in command.params:
            for option in parameter.opts:
                assert not option.startswith("--") or option == "--help" or option in page, f"{name} {option}"
