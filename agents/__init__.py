"""Every decision maker: the reference policies, one short file each, and what they share."""
