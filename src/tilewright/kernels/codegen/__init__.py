"""Code generation: prelude, expression printer, loop emitter."""
