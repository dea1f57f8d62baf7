"""Lines of a record say who attacks whom, also where nobody did."""

import cutlayer as cl
from cutlayer.attacks import Decoder, FeatureReconstruction, ModelCompletion
from cutlayer.experiment.lines import roles


def test_nobody_attacks_itself():
    for task in (cl.data.wine(), cl.data.wine(parties=3), cl.data.wine(label_party="bank", parties=2)):
        for attack in (Decoder(), FeatureReconstruction(), ModelCompletion()):
            pair = roles(task, attack)
            assert pair["attacker"] != pair["victim"], (task, attack.name)
    assert roles(cl.data.wine(), FeatureReconstruction()) == {"attacker": "party2", "victim": "party1"}
    assert roles(cl.data.wine(), Decoder()) == {"attacker": "party1", "victim": "party2"}
