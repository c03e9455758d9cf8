"""The CPU template of attention: softmax(Q K^T) V in one pass over the keys, without storing the scores."""
