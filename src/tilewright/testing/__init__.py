"""Contract tests of the interfaces: an implementation's tests subclass a contract and give its fixtures."""
