"""python3: records as dictionaries, JSON there and back, sorting, regular expressions, trees."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from xml.etree import ElementTree

RECORDS = 60_000


def make_records() -> list[dict[str, object]]:
    return [
        {
            "id": i,
            "name": f"name {i * 7919 % 1000003:x}",
            "town": f"town {i * 104729 % 997}",
            "tags": [f"tag{i * k % 53}" for k in range(1, 4)],
        }
        for i in range(RECORDS)
    ]


def group(records: list[dict[str, object]]) -> dict[str, list[int]]:
    towns: dict[str, list[int]] = {}
    for record in records:
        towns.setdefault(str(record["town"]), []).append(int(str(record["id"])))
    return towns


def tree(records: list[dict[str, object]]) -> str:
    root = ElementTree.Element("records")
    for record in records[:12_000]:
        element = ElementTree.SubElement(root, "record", id=str(record["id"]))
        element.text = str(record["name"])
    return ElementTree.tostring(root, encoding="unicode")


def main() -> None:
    records = make_records()
    text = json.dumps(records)
    back = json.loads(text)
    back.sort(key=lambda record: (record["name"], record["id"]), reverse=True)
    towns = group(back)
    words = re.findall(r"name ([0-9a-f]*7)\b", text)
    markup = tree(records)
    again = ElementTree.fromstring(markup)
    buffers = [bytearray((i * 7919) % 40_000) for i in range(2000)]
    print(len(text), len(words), len(towns), max(map(len, towns.values())), len(again))
    print(sha256(markup.encode()).hexdigest(), sum(map(len, buffers)))
    print([record["id"] for record in back[:10]])


main()
