"""What a session of any Kafka client does: at most one producer, one consumer and one admin client."""

from .lines import Unsupported, finished


class Session:
    """A client's own has `common`, the settings of all three; the classes `Producing`, `Consuming` and
    `Administration`, each with OPERATIONS and a method of each name, which may be a coroutine; and opens
    them. Those that end have `close`."""

    Producing: type
    Consuming: type
    Administration: type

    def __init__(self, common: dict):
        self.common = common
        self.producer = self.consumer = self.admin = None

    def open_producer(self, settings: dict):
        raise NotImplementedError

    def open_consumer(self, settings: dict):
        raise NotImplementedError

    def open_admin(self):
        return self.Administration(self.common)

    def send_offsets(self, offsets: list):
        """Of the group of the consumer, into the transaction of the producer."""
        return self.opened("producer").send_offsets(offsets, self.opened("consumer").consumer)

    async def perform(self, op: dict) -> dict:
        match op["op"]:
            case "open_producer":
                await self.close_one("producer")
                self.producer = await finished(self.open_producer(op["settings"]))
                return {}
            case "open_consumer":
                await self.close_one("consumer")
                self.consumer = await finished(self.open_consumer(op["settings"]))
                return {}
            case "close_producer" | "close_consumer" as name:
                await self.close_one(name.removeprefix("close_"))
                return {}
            case "send_offsets":
                return await finished(self.send_offsets(op["offsets"]))
            case name if name in self.Producing.OPERATIONS:
                return await finished(getattr(self.opened("producer"), name)(op))
            case name if name in self.Consuming.OPERATIONS:
                return await finished(getattr(self.opened("consumer"), name)(op))
            case name if name in self.Administration.OPERATIONS:
                if self.admin is None:
                    self.admin = await finished(self.open_admin())
                return await finished(getattr(self.admin, name)(op))
            case name:
                raise Unsupported(name)

    def opened(self, kind: str):
        one = getattr(self, kind)
        if one is None:
            raise RuntimeError(f"this session has no {kind} open")
        return one

    async def close_one(self, kind: str) -> None:
        one = getattr(self, kind)
        setattr(self, kind, None)
        if hasattr(one, "close"):
            await finished(one.close())

    async def close(self) -> None:
        for kind in ("producer", "consumer", "admin"):
            await self.close_one(kind)
