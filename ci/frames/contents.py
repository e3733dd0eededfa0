"""Invents the content of the golden frames: for every message and version one with every field set
("full") and one with every null and every empty array ("sparse"). Deterministic: no seed, values
follow from the names of the fields. Prints one line per frame, tab-separated: message, API key or
-1, "request", "response" or "blob", version, variant, content in the JSON of Kafka's converters.
"""

import base64
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "schema"))
from generate import EMBEDDED, definitions  # noqa: E402


def within(version, text):
    """Whether Kafka's version text ('3+', '0-12', '5', 'none') holds the version."""
    if text == "none":
        return False
    low, _, high = text.rstrip("+").partition("-")
    top = 1 << 15 if text.endswith("+") else int(high or low)
    return int(low) <= version <= top


class Content:
    """One message of one version."""

    def __init__(self, message, version, full):
        self.version, self.full, self.count = version, full, 0
        self.common = {s["name"]: s for s in message.get("commonStructs", [])}

    def fields(self, fields, depth):
        out = {}
        for field in fields:
            tagged = "tag" in field and within(self.version, field["taggedVersions"])
            if within(self.version, field["versions"]) and (self.full or not tagged):
                # Kafka's converters write the first letter small.
                name = field["name"][0].lower() + field["name"][1:]
                out[name] = self.field(field, depth)
                # Kafka leaves a tagged field away that holds its default.
                if tagged and out[name] is False:
                    out[name] = True
        return out

    def field(self, field, depth):
        if not self.full and within(self.version, field.get("nullableVersions", "none")):
            return None
        base = field["type"].removeprefix("[]")
        if field["type"].startswith("[]"):
            # Two where it shows that elements are told apart, one below, so that files stay small.
            length = (2 if depth == 0 else 1) if self.full else 0
            return [self.value(field, base, depth + 1) for _ in range(length)]
        return self.value(field, base, depth)

    def value(self, field, base, depth):
        self.count += 1
        n = self.count
        if base == "string":
            # Every third holds a character of two bytes, so that lengths count bytes.
            return f"{field['name'][:12]}-{'é' if n % 3 == 0 else ''}{n}"
        if base == "bool":
            return n % 2 == 1
        if base == "float64":
            return n + 0.5
        if base == "uuid":
            # Kafka writes uuids as url-safe base64 without padding.
            return base64.urlsafe_b64encode(bytes([0x40, n % 256] * 8)).decode().rstrip("=")
        if base in ("bytes", "records"):
            return base64.b64encode(bytes(range(n % 7))).decode()
        if base in ("int8", "int16", "uint16", "int32", "uint32", "int64"):
            return n % 100
        nested = field.get("fields") or self.common[base]["fields"]
        return self.fields(nested, depth)


def main():
    found = definitions(sys.argv[1])
    for name, message in sorted(found.items()):
        if message["validVersions"] == "none":
            continue
        if name in EMBEDDED:
            key, side = -1, "blob"
        elif message["type"] in ("request", "response"):
            key, side = message["apiKey"], message["type"]
        else:
            continue
        low, _, high = message["validVersions"].partition("-")
        for version in range(int(low), int(high or low) + 1):
            for variant in ("full", "sparse"):
                content = Content(message, version, variant == "full")
                text = json.dumps(content.fields(message["fields"], 0), ensure_ascii=False)
                print(name, key, side, version, variant, text, sep="\t")


main()
