"""The pages of the exporter: plain HTML for people, made from the board at each request."""
