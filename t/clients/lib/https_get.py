"""An ordinary urllib client: https_get.py ADDRESS PORT CAFILE URL [AUTHORIZATION]

Names are looked up as the sandbox's resolver would: all of them are the gateway. Certificates are checked as strictly as
Python 3.13 does by default.
"""

import socket
import ssl
import sys
import urllib.error
import urllib.request

address, port, cafile, url = sys.argv[1:5]
lookup = socket.getaddrinfo


def getaddrinfo(host, service, *rest, **named):
    return lookup(address, int(port), *rest, **named)


socket.getaddrinfo = getaddrinfo

context = ssl.create_default_context(cafile=cafile)
context.verify_flags |= ssl.VERIFY_X509_STRICT | getattr(ssl, 'VERIFY_X509_PARTIAL_CHAIN', 0)

opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
request = urllib.request.Request(url)
if len(sys.argv) > 5:
    request.add_header('Authorization', sys.argv[5])

try:
    with opener.open(request, timeout=15) as response:
        print(response.status, response.read().decode())
except urllib.error.HTTPError as e:
    print(e.code, e.read().decode())
