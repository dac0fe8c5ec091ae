"""The data layer: discovery of endpoints, scraping of metrics, and KV events of engines."""
