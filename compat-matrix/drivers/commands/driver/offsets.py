"""GetOffsetShell and DeleteRecordsCommand."""

import json
import re

from ..values import place, places
from .tool import Failed, Tools

LOW_WATERMARK = re.compile(r"^partition: (\S+)-(\d+)\tlow_watermark: (-?\d+)$", re.MULTILINE)


def list_offsets(tools: Tools, op: dict) -> dict:
    found = []
    for each in op["partitions"]:
        where = f"{each['topic']}:{each['partition']}"
        said = tools.run(
            "GetOffsetShell", "--topic-partitions", where, "--time", str(each["offset"])
        )
        # Empty where there is no such offset.
        offset = said.strip().rpartition(":")[2]
        found.append(place(each["topic"], each["partition"], int(offset or -1)))
    return places(found)


def delete_records(tools: Tools, op: dict) -> dict:
    wanted = [
        {"topic": each["topic"], "partition": each["partition"], "offset": each["offset"]}
        for each in op["partitions"]
    ]
    orders = json.dumps({"partitions": wanted, "version": 1})
    said = tools.run("DeleteRecordsCommand", "--offset-json-file", tools.file("delete.json", orders))
    found = LOW_WATERMARK.findall(said)
    if len(found) < len(wanted):
        raise Failed(said)
    return places(place(topic, int(number), int(offset)) for topic, number, offset in found)


OPERATIONS = {"list_offsets": list_offsets, "delete_records": delete_records}
