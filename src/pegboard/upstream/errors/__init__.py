"""Errors of servers: failures translated into errors of Pegboard, with secrets redacted."""
