"""queen-mq: the client of Queen itself, which speaks no Kafka: the other side of the topics."""

from importlib.metadata import version

from queen import Queen

from ..lines import Unsupported

CLIENT = "queen-mq"
VERSION = version("queen-mq")
CAN = {"open_queen", "queen_push", "queen_pop", "queen_move"}


def code(_error: BaseException) -> str | None:
    """It knows none of Kafka's codes."""
    return None


class Session:
    """One Queen to talk to."""

    def __init__(self, _begin: dict):
        self.queen: Queen | None = None

    async def perform(self, op: dict) -> dict:
        if op["op"] == "open_queen":
            await self.close()
            self.queen = Queen(op["url"])
            return {}
        if self.queen is None:
            raise RuntimeError("this session has no Queen open")
        match op["op"]:
            case "queen_push":
                items = [{"data": payload} for payload in op["payloads"]]
                await self.lane(op["queue"]).push(items)
                return {}
            case "queen_pop":
                messages = await self.pop(op["queue"], op)
                if messages:
                    await self.queen.ack(messages, True, {"group": op["group"]})
                return {"payloads": [message["data"] for message in messages]}
            case "queen_move":
                return await self.move(op)
            case name:
                raise Unsupported(name)

    def lane(self, queue: str):
        """Kafka's partition 0."""
        return self.queen.queue(queue).partition("0")

    async def pop(self, queue: str, op: dict) -> list:
        lane = self.lane(queue).group(op["group"]).subscription_mode("all")
        return await lane.batch(op["max"]).wait(False).pop()

    async def move(self, op: dict) -> dict:
        messages = await self.pop(op["from"], op)
        transaction = self.queen.transaction()
        if messages:
            transaction.ack(messages, "completed", {"consumer_group": op["group"]})
            lane = transaction.queue(op["to"]).partition("0")
            lane.push([{"data": message["data"]} for message in messages])
            if not await transaction.commit():
                raise RuntimeError("the transaction was not committed")
        return {"payloads": [message["data"] for message in messages]}

    async def close(self) -> None:
        queen, self.queen = self.queen, None
        if queen is not None:
            await queen.close()
