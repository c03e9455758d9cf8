"""Serving pages: who may ask, logging in, and a server that no single client can hold up."""
