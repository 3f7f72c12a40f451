"""Result stores: where runs, bundles and results live when they outlive a folder.

`open_store` makes a `Store` of a URI; `layout` knows the keys; `publish`, `fetch`, `find` and `commit` move runs and
shards with their manifests. obstore is imported only by the kinds that need it.
"""

from mst.store.contract import Digested, Folder, ObjectInfo, Store, check_key
from mst.store.uri import check_writable, key_of, object_uri, open_store, redacted
from mst.store.wrap import Patience

__all__ = [
    "Digested",
    "Folder",
    "ObjectInfo",
    "Patience",
    "Store",
    "check_key",
    "check_writable",
    "key_of",
    "object_uri",
    "open_store",
    "redacted",
]
