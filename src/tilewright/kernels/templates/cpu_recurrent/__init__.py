"""The CPU template of recurrent layers: packed weights, and a state that each step reads from the result."""
