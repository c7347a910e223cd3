"""The requirements of the design documents by id; every one needs a test that names it."""

from tests.requirements import agentscope, excelmanus, liteai, registrytools, sage

DOCUMENTS = (sage, excelmanus, liteai, agentscope, registrytools)
REQUIRED = {id_: words for document in DOCUMENTS for id_, words in document.REQUIRED.items()}
LEFT_OUT = {id_: words for document in DOCUMENTS for id_, words in document.LEFT_OUT.items()}
COMING = registrytools.COMING
