"""Looks at a profile of the Firefox Profiler as the types of its processed format say (`src/types/profile.ts`): all columns of a table
are as long as the table says, and all that is referred to is there."""
import json
import sys

FIGURES = {
    "live (bytes)": "LiveBytes",
    "allocated (bytes)": "AllocatedBytes",
    "live at the peak (bytes)": "PeakBytes",
    "freed at once (bytes)": "TemporaryBytes",
}

profile = json.load(open(sys.argv[1], encoding="utf-8"))
meta = profile["meta"]
for key in ("interval", "startTime", "processType", "product", "stackwalk", "categories", "preprocessedProfileVersion",
            "version", "markerSchema", "extensions", "symbolicated"):
    assert key in meta, key
assert any(category["color"] == "grey" for category in meta["categories"])


def table(table, columns):
    for column in columns:
        assert len(table[column]) == table["length"], column
    return table["length"]


def refers(column, rows, none=(None, -1)):
    assert all(value in none or 0 <= value < rows for value in column)


for thread in profile["threads"]:
    texts = thread["stringArray"]
    assert all(isinstance(text, str) for text in texts) and isinstance(thread["pid"], str)
    frames = table(thread["frameTable"], ("address", "inlineDepth", "category", "subcategory", "func", "nativeSymbol",
                                          "innerWindowID", "line", "column"))
    functions = table(thread["funcTable"], ("name", "isJS", "relevantForJS", "resource", "fileName", "lineNumber",
                                            "columnNumber"))
    stacks = table(thread["stackTable"], ("prefix", "frame"))
    resources = table(thread["resourceTable"], ("lib", "name", "host", "type"))
    table(thread["nativeSymbols"], ("libIndex", "address", "name", "functionSize"))
    table(thread["markers"], ("data", "name", "startTime", "endTime", "phase", "category"))
    table(thread["samples"], ("stack", "time"))
    allocations = thread["nativeAllocations"]
    table(allocations, ("time", "weight", "stack"))
    assert allocations["weightType"] == "bytes"
    refers(thread["frameTable"]["func"], functions, ())
    refers(thread["funcTable"]["name"], len(texts), ())
    refers(thread["funcTable"]["fileName"], len(texts))
    refers(thread["funcTable"]["resource"], resources)
    refers(thread["resourceTable"]["lib"], len(profile["libs"]), ())
    refers(thread["stackTable"]["frame"], frames, ())
    refers(allocations["stack"], stacks, ())
    assert all(prefix is None or prefix < row for row, prefix in enumerate(thread["stackTable"]["prefix"]))
    print("figure", FIGURES[thread["name"]], sum(allocations["weight"]))
for name in sorted({texts[name] for name in thread["funcTable"]["name"]}):
    print("name", name.replace("\n", "\\n"))
for counter in profile["counters"]:
    samples = counter["samples"]
    table(samples, ("time", "count"))
    assert counter["category"] == "Memory" and samples["time"] == sorted(samples["time"])
    values = [sum(samples["count"][:end + 1]) for end in range(samples["length"])]
    if counter["name"] != "malloc":
        assert counter["name"] == "RssAnon" and all(value > 0 for value in values)
        continue
    # Of threads apart nothing is known of the peak.
    if samples["length"] > 2:
        print("figure", "PeakBytes", max(values))
    print("figure", "LiveBytes", values[-1])
