"""An MCP server with one tool: what a thing costs."""

from mcp.server.mcpserver import MCPServer

PRICES = {"apple": 3, "bread": 14, "cheese": 42, "honey": 27, "milk": 8, "olives": 31, "rice": 11, "tea": 19}

shop = MCPServer("shop")


@shop.tool()
def price(thing: str) -> str:
    """The price of one thing in crowns, today."""
    if thing.lower() not in PRICES:
        raise ValueError(f"no {thing} here; there are {', '.join(PRICES)}")
    return f"{PRICES[thing.lower()]} crowns"


if __name__ == "__main__":
    shop.run()
