"""The device farm: one scheduler, and the runners, builders and tuning clients that connect to it."""
