"""What talks to a broker: the asyncio client over the wire, and the admin client over REST."""
