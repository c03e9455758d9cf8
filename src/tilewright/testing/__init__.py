"""Contract tests that any implementation of an interface can run: subclass and give the fixture."""
