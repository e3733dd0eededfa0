"""One JSON object a line in, one a line out.

A client's module has CLIENT, VERSION, CAN, Session(begin) with perform(op) and close(), either of which
may be a coroutine, and code(exception), Kafka's name of the error code or None.
"""

import asyncio
import inspect
import json
import sys

PROTOCOL = 1


class Unsupported(Exception):
    """The client has no way to do it, whatever the server says."""


async def serve(client) -> None:
    """Answers until standard input ends."""
    out = sys.stdout
    # A library that prints would break the protocol.
    sys.stdout = sys.stderr
    loop = asyncio.get_running_loop()
    session = None
    # Reading in a thread of its own lets a client's background tasks run between the lines.
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        op = json.loads(line)
        try:
            match op["op"]:
                case "hello":
                    answer = hello(client)
                case "begin":
                    session = client.Session(op)
                    answer = {}
                case "end":
                    if session is not None:
                        await finished(session.close())
                    session = None
                    answer = {}
                case _ if session is None:
                    raise RuntimeError("no session has begun")
                case _:
                    answer = await finished(session.perform(op))
            reply = {"ok": answer}
        except Unsupported as error:
            reply = {"unsupported": str(error)}
        except Exception as error:  # whatever a client raises is its answer
            message = f"{type(error).__name__}: {error}"
            reply = {"error": {"code": client.code(error), "message": message}}
        out.write(json.dumps(reply) + "\n")
        out.flush()
    if session is not None:
        await finished(session.close())


async def finished(result):
    return await result if inspect.isawaitable(result) else result


def hello(client) -> dict:
    return {
        "protocol": PROTOCOL,
        "client": client.CLIENT,
        "version": client.VERSION,
        "can": sorted(client.CAN),
    }
