"""Reads a compressed streaming list as zlib does, which knows of one gzip member, and says
how it came. Arguments: host:port, the files of the CA, the certificate and the key, and
the path of a collection."""

import http.client
import ssl
import sys
import zlib

address, ca, cert, key, path = sys.argv[1:]
tls = ssl.create_default_context(cafile=ca)
tls.load_cert_chain(cert, key)
conn = http.client.HTTPSConnection(address, context=tls)
query = "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=3"
conn.request("GET", path + query, headers={"Accept-Encoding": "gzip"})
answer = conn.getresponse()
member = zlib.decompressobj(wbits=31)
text, synced = b"", False
while piece := answer.read1(1 << 16):
    text += member.decompress(piece)
    if not synced and b"initial-events-end" in text:
        synced = True
        print("SYNCED", text.count(b'"type":"ADDED"'), "ended", member.eof)
print("END", answer.headers["Content-Encoding"], "ended", member.eof, "unused", len(member.unused_data))
