#!/usr/bin/env python3
"""Makes the seeds of the fuzz targets from the test vectors.

usage: t/fuzz/seeds.py

Writes t/fuzz/seeds/<target>/<id of the vector>; run it when the vectors or
the layout of an input change.
"""

import base64
import ipaddress
import json
import os
import shutil

HERE = os.path.dirname(os.path.abspath(__file__))
VECTORS = os.path.join(HERE, '..', 'data', 'vectors')

MOST = 120          # seeds of one target
LONGEST = 1024      # octets of one seed
LONGER = {'client_hello': 4096}


def lines(name):
    with open(os.path.join(VECTORS, name + '.jsonl')) as file:
        return [json.loads(line) for line in file]


def octets(vector, name):
    """The bytes of a field, None if it is absent."""

    if vector.get(name + '_b64') is not None:
        return base64.b64decode(vector[name + '_b64'])

    if vector.get(name) is not None:
        return vector[name].encode('latin-1')

    return None


def host(vector):
    form = {'name': b'0', 'host': b'1', 'connect': b'2'}[vector['form']]

    return form + octets(vector, 'in')


def target(vector):
    return octets(vector, 'target')


def authorization(vector):
    value = octets(vector, 'value')

    if value is None:
        return None

    # bit 0 replaces the user, bit 1 the password

    flags = ord('0') | int(vector['id'][-3:]) % 4

    return bytes([flags, min(len(octets(vector, 'secret')), 255)]) + value


def git(vector):
    parts = [octets(vector, name)
             for name in ('method', 'target', 'content_type')]

    segments = b'2' if vector['preset'] == 'github' else b'0'

    return segments + b'\n'.join(part for part in parts if part is not None)


def client_hello(vector):
    data = bytes.fromhex(vector['in_hex'])

    # where it is cut off, and the length of other records

    cut = int(vector['id'][-3:]) * 7 % 256

    return bytes([cut, cut ^ 0x55]) + data


def connect(vector):
    cut = int(vector['id'][-3:]) * 7 % 256

    return bytes([cut]) + octets(vector, 'in')


def socks5(vector):
    said = ''.join(step.get('client', '') for step in vector['dialogue'])

    return (b'1' if vector['users'] else b'0') + bytes.fromhex(said)


def address(vector):
    allowed = vector.get('allow_private', ['192.0.2.0/24'])
    own = vector.get('own', ['192.0.2.1'])
    seed = b''

    for text in vector['addr'], allowed[0], own[0]:
        net = ipaddress.ip_network(text, strict=False)
        packed = net.network_address.packed

        seed += (b'%d' % net.version + bytes([net.prefixlen])
                 + packed.ljust(16, b'\0'))

    return seed


def redact(vector):
    """Steps of the fuzz target: a spelling, its start, its end."""

    secret = octets(vector, 'secret')
    text = octets(vector, 'text')

    if text is None:
        text = b'a \xff\x00 b \xff\x05\xff\x0b\xfe\x03\x07\xff\x01 c'

    # one octet at a time, several, or all; the end alone, or not

    how = int(vector['id'][-3:]) * 37 % 256

    return bytes([min(len(secret), 48), how]) + secret[:48] + text


def graphql(vector):
    return vector['document'].encode()


def text_body(vector):
    """The octets of a body, which is text in UTF-8."""

    if vector.get('body') is not None:
        return vector['body'].encode()

    return octets(vector, 'body')


def body(vector):
    """An octet for the inspector, two lines for JSON-RPC, the body."""

    kind = vector.get('inspector') or vector['id'].split('-')[0]

    if kind == 'graphql' and 'target' in vector:
        return b'1' + vector['target'].partition('?')[2].encode()

    data = text_body(vector)

    if kind in ('graphql', 'graphql_query', 'lfs'):
        octet = {'graphql': b'0', 'graphql_query': b'1', 'lfs': b'2'}[kind]

        return data and octet + data

    fields = {name.lower(): value for name, value in vector.get('headers', [])}
    octet = b'4' if vector.get('all') else b'3'

    return octet + b'\n'.join([fields.get('mcp-method', '').encode(),
                               fields.get('mcp-name', '').encode(), data])


TARGETS = {
    'host': (host, ['hosts']),
    'target': (target, ['targets']),
    'authorization': (authorization, ['authorization']),
    'git': (git, ['git', 'lfs']),
    'client_hello': (client_hello, ['clienthello']),
    'connect': (connect, ['connect']),
    'socks5': (socks5, ['socks5']),
    'address': (address, ['addresses']),
    'redact': (redact, ['redact']),
    'graphql': (graphql, ['graphql_document']),
    'body': (body, ['bodies', 'lfs', 'graphql', 'jsonrpc']),
}


def main():
    for name, (make, files) in TARGETS.items():
        folder = os.path.join(HERE, 'seeds', name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)

        seeds = {}
        longest = LONGER.get(name, LONGEST)

        for file in files:
            for vector in lines(file):
                seed = make(vector)

                if seed and len(seed) <= longest:
                    seeds.setdefault(seed, vector['id'])

        # evenly over the file, so that each kind of vector has its share

        all_seeds = list(seeds.items())
        count = min(MOST, len(all_seeds))

        for i in range(count):
            seed, ident = all_seeds[i * len(all_seeds) // count]

            with open(os.path.join(folder, ident), 'wb') as out:
                out.write(seed)

        print(name, count)


main()
