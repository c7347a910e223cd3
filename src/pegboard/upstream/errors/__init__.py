"""Failures of servers, translated into errors of Pegboard, without their secrets."""
