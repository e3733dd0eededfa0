"""`python -m driver MODULE` serves the driver protocol with the client of driver.MODULE."""

import asyncio
import importlib
import sys

from .lines import serve

if __name__ == "__main__":
    asyncio.run(serve(importlib.import_module(f"driver.{sys.argv[1]}")))
