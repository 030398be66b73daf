"""The HTTP and WebSocket API under /api/v1: one module per kind of thing. `app.make_app` puts it together."""
