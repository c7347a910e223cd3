"""Console: web pages of a gateway for people, served by the gateway itself under ``/console``."""
