#!/usr/bin/env python3
"""Makes the seeds of the fuzz targets from the test vectors.

usage: t/fuzz/seeds.py

Writes t/fuzz/seeds/<target>/<id of the vector>; run it when the vectors or
the layout of an input change.
"""

import base64
import json
import os
import shutil

HERE = os.path.dirname(os.path.abspath(__file__))
VECTORS = os.path.join(HERE, '..', 'data', 'vectors')

MOST = 120          # seeds of one target
LONGEST = 1024      # octets of one seed


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


TARGETS = {
    'host': (host, ['hosts']),
    'target': (target, ['targets']),
    'authorization': (authorization, ['authorization']),
    'git': (git, ['git', 'lfs']),
}


def main():
    for name, (make, files) in TARGETS.items():
        folder = os.path.join(HERE, 'seeds', name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)

        seeds = {}

        for file in files:
            for vector in lines(file):
                seed = make(vector)

                if seed and len(seed) <= LONGEST:
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
