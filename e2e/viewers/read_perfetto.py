"""Reads a trace with Perfetto's own messages, published as `perfetto`, and resolves all that packets refer to by number."""
import sys

from perfetto.protos.perfetto.trace import perfetto_trace_pb2

trace = perfetto_trace_pb2.Trace()
trace.ParseFromString(open(sys.argv[1], "rb").read())
known = perfetto_trace_pb2.Trace()
known.CopyFrom(trace)
known.DiscardUnknownFields()
assert known.ByteSize() == trace.ByteSize(), "there are fields that the messages do not have"
names, paths, builds, sources, mappings, frames, stacks = {}, {}, {}, {}, {}, {}, {}
figures = {}
counters, tracks, before, index = {}, {}, -1, 0
assert trace.packet[0].sequence_flags & 1, "the sequence does not begin with a clear state"
for packet in trace.packet:
    assert packet.trusted_packet_sequence_id == 1
    data = packet.interned_data
    for table, rows in ((names, data.function_names), (paths, data.mapping_paths), (builds, data.build_ids),
                        (sources, data.source_paths), (mappings, data.mappings), (frames, data.frames),
                        (stacks, data.callstacks)):
        for row in rows:
            assert row.iid != 0 and row.iid not in table, "a number twice"
            table[row.iid] = row
    for mapping in data.mappings:
        assert all(part in paths for part in mapping.path_string_ids)
        assert mapping.build_id == 0 or mapping.build_id in builds
    for frame in data.frames:
        assert frame.mapping_id == 0 or frame.mapping_id in mappings
        assert frame.source_path_iid == 0 or frame.source_path_iid in sources
        assert frame.function_name_id == 0 or frame.function_name_id in names
    for stack in data.callstacks:
        assert stack.frame_ids and all(frame in frames for frame in stack.frame_ids)
    if packet.HasField("track_event"):
        event = packet.track_event
        counters.setdefault(tracks[event.track_uuid], []).append((packet.timestamp, event.counter_value))
        assert packet.timestamp >= before, "time goes backwards"
        before = packet.timestamp
    if packet.track_descriptor.HasField("counter"):
        tracks[packet.track_descriptor.uuid] = packet.track_descriptor.name
    if packet.HasField("profile_packet"):
        profile = packet.profile_packet
        assert profile.index == index, "a packet is missing"
        index += 1
        for dump in profile.process_dumps:
            for sample in dump.samples:
                assert sample.callstack_id in stacks
                for name, value in (("AllocatedBytes", sample.self_allocated), ("AllocatedBlocks", sample.alloc_count),
                                    ("FreedBytes", sample.self_freed), ("FreedBlocks", sample.free_count),
                                    ("PeakBytes", sample.self_max), ("PeakBlocks", sample.self_max_count),
                                    ("LiveBytes", sample.self_allocated - sample.self_freed),
                                    ("LiveBlocks", sample.alloc_count - sample.free_count)):
                    figures[name] = figures.get(name, 0) + value
        last = not profile.continued
assert last, "the last packet says that it goes on"
# A trace of the peak has nothing else, as heapprofd writes them.
of_peak = figures.get("PeakBytes", 0) != 0
for name, value in figures.items():
    if name.startswith("Peak") == of_peak:
        print("figure", name, value)
# Of threads apart nothing is known of the peak.
live = [value for _, value in counters.pop("live bytes", [])]
if len(live) > 2:
    print("figure", "PeakBytes", max(live))
    print("figure", "LiveBytes", live[-1])
for name, values in counters.items():
    assert name.startswith("anonymous memory") and all(value > 0 for _, value in values), name
for name in names.values():
    print("name", name.str.decode().replace("\n", "\\n"))
