import json

from cutlayer.finding import Finding, Form, Status, Target


def test_facts_are_plain_data_without_extras():
    finding = Finding(
        attack="binary-search",
        attacker="bank",
        target=Target.FEATURES,
        victim="shop",
        metric="column accuracy",
        value=0.9,
        baseline=0.6,
        baseline_name="commoner value",
        low=0.8,
        high=1.0,
        rows=40,
        granted="nothing",
        figures={"exact": 3, "columns": 4},
        extras={"columns": {"places": [0]}},
    )
    facts = finding.facts()
    assert json.loads(json.dumps(facts)) == facts and "extras" not in facts
    assert type(facts["status"]) is str and facts["status"] == "done" and facts["target"] == "features"
    assert facts["figures"] == {"exact": 3, "columns": 4}


def test_members_are_written_as_in_files():
    assert [f"{status}" for status in Status] == ["done", "does not apply", "failed", "missing"]
    assert [str(form) for form in Form][:2] == ["classes", "scores"]
