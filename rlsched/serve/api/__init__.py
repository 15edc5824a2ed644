"""The HTTP interface: schema, requests, admission, tokens and the ASGI application."""
