"""Servers behind HTTP: one client, its connections and certificates, and two transports."""
