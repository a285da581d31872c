"""Builds rows, writes them as JSON and reads them again, so many times."""

import json
import sys

def item(i):
    return {"id": i, "name": "item %d" % i, "tags": ["a", "b", str(i)], "price": i * 1.5}

def build(count):
    return [item(i) for i in range(count)]

def main():
    for _ in range(int(sys.argv[1])):
        text = json.dumps(build(20_000))
        rows = json.loads(text)
    print(len(rows))

main()
