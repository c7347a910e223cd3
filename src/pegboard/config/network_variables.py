"""Environment variables for certificates, proxies and package indexes, which servers inherit."""

from collections.abc import Mapping

__all__ = ["NETWORK_VARIABLES", "network_variables"]

NETWORK_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "certificates": (
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
        *("NODE_EXTRA_CA_CERTS", "NODE_USE_SYSTEM_CA", "DENO_CERT", "DENO_TLS_CA_STORE"),
        *("GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "AWS_CA_BUNDLE"),
    ),
    "proxies": ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "NODE_USE_ENV_PROXY"),
    "uv": (
        *("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS"),
        *("UV_NO_INDEX", "UV_INDEX_STRATEGY", "UV_INSECURE_HOST", "UV_KEYRING_PROVIDER"),
        *("UV_NATIVE_TLS", "UV_SYSTEM_CERTS", "UV_CONFIG_FILE", "UV_OFFLINE"),
        *("UV_PYTHON_INSTALL_MIRROR", "UV_PYPY_INSTALL_MIRROR"),
    ),
    "pip": (
        *("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX"),
        *("PIP_TRUSTED_HOST", "PIP_CERT", "PIP_PROXY", "PIP_CONFIG_FILE"),
    ),
    "npm": (
        *("NPM_CONFIG_REGISTRY", "NPM_CONFIG_USERCONFIG", "NPM_CONFIG_GLOBALCONFIG"),
        *("NPM_CONFIG_CAFILE", "NPM_CONFIG_STRICT_SSL", "NPM_CONFIG_OFFLINE"),
        *("NPM_CONFIG_PROXY", "NPM_CONFIG_HTTPS_PROXY", "NPM_CONFIG_NOPROXY"),
    ),
}
"""By what they are for, in capitals; programs read some of them in small letters, too.

None of them is itself a password, but the address of a proxy or of an index may contain one.
"""

_NAMES = frozenset(name for names in NETWORK_VARIABLES.values() for name in names)


def network_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an environment that say how to reach the network."""
    # Of an environment, reading a value takes longer than looking at its name.
    return {name: environ[name] for name in environ if name.upper() in _NAMES}
