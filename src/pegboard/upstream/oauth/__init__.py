"""OAuth 2.1: login, token refresh and token storage for protected servers."""
