"""The monitoring dashboard as a picture, from a real run of an endpoint and without Grafana."""
