"""ConsumerGroupCommand: list, describe, delete, reset-offsets, delete-offsets."""

from ..values import place, places
from .tool import Tools, outcome, table

TOOL = "consumer.group.ConsumerGroupCommand"


def groups(tools: Tools, op: dict) -> dict:
    if op["group"] is None:
        ids = tools.run(TOOL, "--list").split()
        return {
            "groups": [
                {"id": each, "state": "", "protocol": "", "client_ids": []} for each in sorted(ids)
            ]
        }
    about = ("--describe", "--group", op["group"])
    # The column of the coordinator holds two words, so what follows is counted from the end.
    (row,) = [
        line.split()
        for line in tools.run(TOOL, *about, "--state").splitlines()
        if line.split()[:1] == [op["group"]]
    ]
    members = table(tools.run(TOOL, *about, "--members"))
    state = row[-2]
    return {
        "groups": [
            {
                "id": op["group"],
                "state": state,
                "protocol": row[-3] if len(row) > 5 else "",
                "client_ids": sorted(each["CLIENT-ID"] for each in members),
            }
        ]
    }


def delete_groups(tools: Tools, op: dict) -> dict:
    return {
        "outcomes": {
            each: outcome(lambda: tools.run(TOOL, "--delete", "--group", each))
            for each in op["groups"]
        }
    }


def group_offsets(tools: Tools, op: dict) -> dict:
    said = tools.run(TOOL, "--describe", "--group", op["group"], "--offsets")
    return places(
        place(row["TOPIC"], int(row["PARTITION"]), int(row["CURRENT-OFFSET"]))
        for row in table(said)
        if row["CURRENT-OFFSET"] != "-"
    )


def alter_group_offsets(tools: Tools, op: dict) -> dict:
    for each in op["offsets"]:
        where = f"{each['topic']}:{each['partition']}"
        order = ["--topic", where, "--to-offset", str(each["offset"]), "--execute"]
        tools.run(TOOL, "--reset-offsets", "--group", op["group"], *order)
    return {}


def delete_group_offsets(tools: Tools, op: dict) -> dict:
    for each in op["partitions"]:
        where = f"{each['topic']}:{each['partition']}"
        tools.run(TOOL, "--delete-offsets", "--group", op["group"], "--topic", where)
    return {}


OPERATIONS = {
    "groups": groups,
    "delete_groups": delete_groups,
    "group_offsets": group_offsets,
    "alter_group_offsets": alter_group_offsets,
    "delete_group_offsets": delete_group_offsets,
}
