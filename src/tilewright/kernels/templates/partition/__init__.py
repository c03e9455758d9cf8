"""The partition templates: a program cut into segments of consecutive stages, each with another template's kernel."""
