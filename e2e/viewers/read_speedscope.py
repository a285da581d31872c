"""Holds a file of speedscope against the schema that it is published with, and adds it up."""
import json
import sys

import jsonschema

FIGURES = {
    "live (bytes)": "LiveBytes",
    "live (blocks)": "LiveBlocks",
    "allocated (bytes)": "AllocatedBytes",
    "allocated (blocks)": "AllocatedBlocks",
    "live at the peak (bytes)": "PeakBytes",
    "live at the peak (blocks)": "PeakBlocks",
    "freed at once (bytes)": "TemporaryBytes",
    "freed at once (blocks)": "TemporaryBlocks",
}

profile = json.load(open(sys.argv[1], encoding="utf-8"))
jsonschema.validate(profile, json.load(open(sys.argv[2], encoding="utf-8")))
frames = profile["shared"]["frames"]
sums = {}
for one in profile["profiles"]:
    assert len(one["samples"]) == len(one["weights"])
    assert sum(one["weights"]) == one["endValue"] and all(weight > 0 for weight in one["weights"])
    assert all(0 <= frame < len(frames) for sample in one["samples"] for frame in sample)
    name, _, word = one["name"].partition(", ")
    sums[name] = sums.get(name, 0) + (-one["endValue"] if word == "shrunk" else one["endValue"])
for name, value in sums.items():
    print("figure", FIGURES[name], value)
for name in sorted({frame["name"] for frame in frames}):
    print("name", name.replace("\n", "\\n"))
