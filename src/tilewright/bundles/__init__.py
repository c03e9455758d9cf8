"""Making bundles: building, signing, checking and exporting them. Reading them is the runtime's (docs/bundles.md)."""
