"""A page taken apart: elements with their attributes, text and place in the tree."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = ("meta", "br", "img", "input", "link", "hr")


@dataclass
class Element:
    tag: str
    attrs: dict
    children: list = field(default_factory=list)

    def text(self):
        return "".join(child if isinstance(child, str) else child.text() for child in self.children)

    def all(self, *tags):
        for child in self.children:
            if isinstance(child, Element):
                if not tags or child.tag in tags:
                    yield child
                yield from child.all(*tags)


class Page(HTMLParser):
    """Refuses tags that are not closed in order."""

    def __init__(self, html):
        super().__init__()
        self.root = Element("document", {})
        self.open = [self.root]
        self.feed(html)
        self.close()
        assert self.open == [self.root], [element.tag for element in self.open]

    def handle_starttag(self, tag, attrs):
        element = Element(tag, dict(attrs))
        assert len(element.attrs) == len(attrs), (tag, attrs)
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag):
        assert self.open.pop().tag == tag

    def handle_data(self, data):
        self.open[-1].children.append(data)

    def all(self, *tags):
        return list(self.root.all(*tags))

    def words(self):
        shown = next(iter(self.all("body")))
        return " ".join(shown.text().split())
