"""Makes bundles: builds, signs, checks and exports them. The runtime reads them (docs/bundles.md)."""
