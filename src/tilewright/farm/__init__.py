"""The device farm: a server, its keeper, and the runners, builders and tuning clients that connect to it."""
