"""What people do with the official client, against the Queen at a URL.

`native_client.py URL before` does it all and leaves a leased batch behind; `… URL after`, against
the same data after the server was killed, finds what was acknowledged. Fails by raising.
"""

import asyncio
import json
import sys
import urllib.request
from datetime import datetime, timedelta, timezone

from queen import Queen

STATE = "native-client-state"


def same(seen, expected, what):
    if seen != expected:
        raise AssertionError(f"{what}: {seen!r} instead of {expected!r}")


def holds(condition, what):
    if not condition:
        raise AssertionError(what)


def data(messages):
    return [message["data"] for message in messages]


def post(url, route, body):
    """What a Kafka facade would do, which the client has no words for."""
    request = urllib.request.Request(f"{url}/api/v1/{route}", json.dumps(body).encode(), method="POST")
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def reads_verdicts(client):
    """Clients of the 1.x line take the status 200 for success, whatever the body says."""
    return hasattr(client.queue("orders"), "fetch")


async def queues(client):
    made = await client.queue("orders").config({"lease_time": 60, "retry_limit": 1}).create()
    same(made["configured"], True, "create")
    detail = await client.admin.get_queue("orders")
    same((detail["options"]["leaseTime"], detail["partitions"]), (60, 0), "created queue")
    doomed = client.queue("doomed")
    await doomed.push([{"data": 1}])
    same((await client.queue("doomed").delete())["deleted"], True, "delete")
    same((await client.queue("doomed").delete())["existed"], False, "delete again")


async def push(client):
    results = await client.queue("orders").partition("eu").push(
        [{"data": {"n": n}, "transactionId": f"order-{n}"} for n in range(3)]
    )
    same([r["status"] for r in results], ["queued"] * 3, "push")
    same([r["offset"] for r in results], [0, 1, 2], "push offsets")
    duplicates = []

    async def on_duplicate(items, error):
        duplicates.extend(items)

    again = client.queue("orders").partition("eu").push([{"data": {"n": 0}, "transactionId": "order-0"}])
    await again.on_duplicate(on_duplicate)
    same(len(duplicates), 1, "duplicates")
    null = client.queue("nulls")
    await null.push([{"data": None}])
    same(data(await client.queue("nulls").batch(5).wait(False).pop()), [None], "a null payload")


async def without_a_group(client):
    popped = await client.queue("orders").batch(2).wait(False).pop()
    same(data(popped), [{"n": 0}, {"n": 1}], "pop")
    same(await client.queue("orders").batch(2).wait(False).pop(), [], "pop of a held lane")
    renewed = await client.renew(popped[0])
    same(renewed["success"], True, "renew")
    acked = await client.ack(popped[0])
    same((acked["success"], acked["leaseReleased"]), (True, False), "ack of the first")
    acked = await client.ack(popped[1])
    same((acked["success"], acked["leaseReleased"]), (True, True), "ack of the last")
    late = await client.ack(popped[1])
    same((late["success"], late["error"]), (False, "invalid or expired lease"), "ack again")
    if reads_verdicts(client):
        gone = await client.renew(popped[0]["leaseId"])
        same(gone["success"], False, "renew of a released lease")
    popped = await client.queue("orders").partition("eu").batch(5).wait(False).pop()
    same(data(popped), [{"n": 2}], "pop of one lane")
    same((await client.ack(popped))["success"], True, "batch ack")


async def with_groups(client):
    new = client.queue("orders").group("new").batch(10).wait(False)
    same(await new.pop(), [], "a new group skips what was there")
    every = client.queue("orders").group("all").subscription_mode("all").batch(10).wait(False)
    popped = await every.pop()
    same(data(popped), [{"n": 0}, {"n": 1}, {"n": 2}], "a group from the start")
    context = {"group": "all"}
    # The first is done, the second failed: it comes again with the third.
    popped[0]["_status"], popped[1]["_status"], popped[1]["_error"] = "completed", "failed", "boom"
    verdict = await client.ack(popped[:2], context=context)
    same([r["success"] for r in verdict["results"]], [True, True], "batch ack of a group")
    popped = await every.pop()
    same(data(popped), [{"n": 1}, {"n": 2}], "after a failure")
    # A free retry, then the last failure that the queue allows.
    same((await client.ack(popped[0], "retry", context))["dlq"], False, "retry")
    popped = await every.pop()
    last = await client.ack(popped[0], False, {"group": "all", "error": "for good"})
    same((last["success"], last["dlq"]), (True, True), "the last failure")
    popped = await every.pop()
    same(data(popped), [{"n": 2}], "behind a dead letter")
    same((await client.ack(popped[0], "dlq", context))["dlq"], True, "dead letter by hand")
    letters = await client.queue("orders").dlq("all").limit(10).get()
    by_error = {row["data"]["n"]: row["errorMessage"] for row in letters["messages"]}
    same(by_error[1], "for good", "dead letters")
    same(sorted(by_error), [1, 2], "dead letters")
    await client.queue("orders").partition("us").push([{"data": {"n": 3}}])
    same(data(await new.pop()), [{"n": 3}], "a new group takes what came since")
    groups = {row["name"]: row for row in await client.admin.list_consumer_groups()}
    same((groups["all"]["kind"], groups["all"]["totalLag"]), ("queen", 0), "group list")
    same(groups["all"]["subscriptionMode"], "all", "group list")
    one = await client.admin.get_consumer_group("new")
    leased = [row["partition"] for row in one["orders"]["partitions"] if row["leaseActive"]]
    same(leased, ["us"], "group")
    await client.admin.seek_consumer_group("all", "orders", {"timestamp": "2020-01-01T00:00:00Z"})
    same(len(await client.queue("orders").group("all").batch(10).partitions(4).wait(False).pop()), 4, "seek")
    await client.delete_consumer_group("all")
    same("all" in {row["name"] for row in await client.admin.list_consumer_groups()}, False, "group delete")


async def long_polls(client):
    queue = client.queue("bell").group("ears")
    started = asyncio.get_running_loop().time()
    waiting = asyncio.create_task(queue.batch(1).wait(True).timeout_millis(20000).pop())
    await asyncio.sleep(0.3)
    await client.queue("bell").push([{"data": "ding"}])
    same(data(await waiting), ["ding"], "long poll")
    holds(asyncio.get_running_loop().time() - started < 10, "the long poll woke late")


async def consumes(client):
    await client.queue("work").push([{"data": n} for n in range(5)])
    seen = []

    async def handler(message):
        seen.append(message["data"])

    await client.queue("work").batch(1).limit(5).each().consume(handler)
    same(seen, [0, 1, 2, 3, 4], "consume")
    await client.queue("work").push([{"data": "bad"}, {"data": "good"}])

    async def fussy(message):
        if message["data"] == "bad":
            raise ValueError("not this one")
        seen.append(message["data"])

    await client.queue("work").batch(2).idle_millis(300).wait(False).each().consume(fussy)
    same(seen[-1], "good", "consume over failures")
    letters = await client.queue("work").dlq().get()
    same([row["errorMessage"] for row in letters["messages"]], ["not this one"], "given up by consume")


async def transactions(client):
    await client.queue("in").push([{"data": n} for n in range(2)])
    popped = await client.queue("in").batch(2).wait(False).pop()
    done = await (
        client.transaction().ack(popped[1]).queue("out").partition("p").push([{"data": "made"}]).commit()
    )
    same([r["type"] for r in done["results"]], ["ack", "push"], "transaction")
    same(data(await client.queue("out").batch(5).wait(False).pop()), ["made"], "pushed in a transaction")
    try:
        await client.transaction().ack(popped[1]).queue("out").push([{"data": "never"}]).commit()
    except Exception as refused:
        holds("lease" in str(refused), f"refused for {refused}")
    else:
        raise AssertionError("an ack under a released lease was committed")
    gate = client.transaction().once("gates", "g1", forever=True).queue("out").partition("p").push([{"data": "x"}])
    same(bool(await gate.commit()), True, "the first through a gate")
    gate = client.transaction().once("gates", "g1", forever=True).queue("out").partition("p").push([{"data": "y"}])
    lost = await gate.commit()
    same((bool(lost), lost["reason"], lost["failedIndex"]), (False, "kv_precondition", 1), "the second")


async def rows(client):
    kv = client.kv
    first = await kv.put("notes", "a", {"text": "ü"}, forever=True)
    same(first["applied"], True, "put")
    same((await kv.get("notes", "a"))["value"], {"text": "ü"}, "get")
    same((await kv.put("notes", "a", 1, forever=True, expect=0))["reason"], "exists", "put expecting none")
    same(bool(await kv.put("notes", "a", 2, ttl_seconds=60, expect=first["version"])), True, "fenced put")
    same((await kv.incr("notes", "n", delta=5, forever=True))["value"], 5, "incr")
    page = await kv.get_prefix("notes", "a")
    same([row["key"] for row in page["rows"]], ["a"], "prefix")
    many = await kv.get_many("notes", ["n", "missing"])
    same((len(many["rows"]), many["missing"]), (1, ["missing"]), "many")
    same(bool(await kv.delete("notes", "n")), True, "delete")
    same(await kv.once("notes", "claim", ttl_seconds=60), True, "claim")
    same(await kv.once("notes", "claim", ttl_seconds=60), False, "claim again")


async def reads_by_offset(client):
    if not hasattr(client.queue("orders"), "fetch"):
        return False  # Came with the 2.x line.
    read = await client.queue("orders").fetch(["eu", "us", "nowhere"], offsets={"eu": 1})
    same([r["payload"] for r in read["eu"]["records"]], [{"n": 1}, {"n": 2}], "fetch")
    same((read["eu"]["nextOffset"], read["eu"]["highWatermark"]), (3, 3), "fetch")
    same(read["nowhere"]["records"], [], "fetch of a lane never written")
    changed = await client.queue("orders").changed_since(datetime.now(timezone.utc) - timedelta(hours=1))
    same(sorted(p["name"] for p in changed["partitions"]), ["eu", "us"], "changed lanes")
    none = await client.queue("orders").changed_since(datetime.now(timezone.utc) + timedelta(hours=1))
    same(none["partitions"], [], "lanes changed later")
    return True


async def crosses_with_kafka(client, url):
    envelope = {"h": [{"k": "trace", "v": None}], "k": "a2V5", "t": 1700000000000, "v": "dmFsdWU="}
    item = {"queue": "topic", "partition": "0", "payload": envelope}
    post(url, "push", {"items": [item]})
    same(data(await client.queue("topic").batch(1).wait(False).pop()), [envelope], "a Kafka record")
    await client.queue("topic").partition("0").push([{"data": {"native": True}}])
    entry = {"queue": "topic", "partition": "0", "offset": 1}
    fetched = post(url, "fetch", {"entries": [entry]})
    same(fetched["entries"][0]["records"][0]["payload"], {"native": True}, "a native record")


async def before(client, url):
    await queues(client)
    await push(client)
    await without_a_group(client)
    await with_groups(client)
    await long_polls(client)
    await consumes(client)
    await transactions(client)
    await rows(client)
    by_offset = await reads_by_offset(client)
    await crosses_with_kafka(client, url)
    # For `after`: one of two acknowledged, the other held.
    await client.queue("kept").push([{"data": n} for n in range(3)])
    held = await client.queue("kept").batch(2).wait(False).pop()
    same((await client.ack(held[0]))["success"], True, "ack")
    await client.kv.put(STATE, "held", held[1], forever=True)
    print("offset reads:", "yes" if by_offset else "not in this client")


async def after(client):
    same(await client.queue("kept").batch(5).wait(False).pop(), [], "the lease holds after a kill")
    held = (await client.kv.get(STATE, "held"))["value"]
    same((await client.ack(held))["leaseReleased"], True, "ack after a kill")
    same(data(await client.queue("kept").batch(5).wait(False).pop()), [2], "what was left")
    letters = await client.queue("orders").dlq().get()
    same(len(letters["messages"]), 2, "dead letters after a kill")


async def main():
    url, act = sys.argv[1], sys.argv[2]
    async with Queen(url, retry_attempts=1) as client:
        if act == "before":
            await before(client, url)
        else:
            await after(client)
    print("done:", act)


asyncio.run(main())
