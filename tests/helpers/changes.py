"""Packets with something changed, as a peer could send them."""


def change(packet, **changed):
    """The packet with other fields, in its head or in the header of its tensor."""
    frame = packet.frame
    for name in changed.keys() - set(packet._fields):
        if name == "shape":
            frame.tensor.shape[:] = changed[name]
        else:
            setattr(frame.tensor, name, changed[name])
    fields = {name: value for name, value in changed.items() if name in packet._fields}
    return packet._replace(**{"header": frame.SerializeToString(), **fields})
