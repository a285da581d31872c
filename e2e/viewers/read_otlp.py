"""Reads a file of OpenTelemetry's profiles with the messages that are published as `opentelemetry-proto`."""
import sys

from opentelemetry.proto.profiles.v1development import profiles_pb2

FIGURES = {
    "inuse_space": "LiveBytes",
    "inuse_objects": "LiveBlocks",
    "alloc_space": "AllocatedBytes",
    "alloc_objects": "AllocatedBlocks",
    "peak_space": "PeakBytes",
    "peak_objects": "PeakBlocks",
    "temporary_space": "TemporaryBytes",
    "temporary_objects": "TemporaryBlocks",
}

data = profiles_pb2.ProfilesData()
data.ParseFromString(open(sys.argv[1], "rb").read())
tables = data.dictionary
texts = tables.string_table
assert texts[0] == "", "row 0 of the texts is not empty"
for table in (tables.mapping_table, tables.location_table, tables.function_table, tables.link_table,
              tables.attribute_table, tables.stack_table):
    assert table[0] == type(table[0])(), "row 0 of a table is not empty"
known = profiles_pb2.ProfilesData()
known.CopyFrom(data)
known.DiscardUnknownFields()
assert known.ByteSize() == data.ByteSize(), "there are fields that the messages do not have"
for stack in tables.stack_table:
    for index in stack.location_indices:
        assert 0 < index < len(tables.location_table)
for location in tables.location_table:
    assert location.mapping_index < len(tables.mapping_table)
    for line in location.lines:
        assert 0 < line.function_index < len(tables.function_table)
for function in tables.function_table:
    for index in (function.name_strindex, function.system_name_strindex, function.filename_strindex):
        assert index < len(texts)
        if index == function.name_strindex:
            print("name", texts[index].replace("\n", "\\n"))
for attribute in tables.attribute_table[1:]:
    assert texts[attribute.key_strindex] != ""
    print("name", attribute.value.string_value.replace("\n", "\\n"))
for resource in data.resource_profiles:
    keys = [attribute.key for attribute in resource.resource.attributes]
    assert len(keys) == len(set(keys)) and "service.name" in keys, keys
    for scope in resource.scope_profiles:
        for profile in scope.profiles:
            name = texts[profile.sample_type.type_strindex]
            total = 0
            for sample in profile.samples:
                assert 0 < sample.stack_index < len(tables.stack_table) and len(sample.values) == 1
                for index in sample.attribute_indices:
                    assert 0 < index < len(tables.attribute_table)
                total += sample.values[0]
            print("figure", FIGURES[name], total)
