#!/usr/bin/env python3
"""What has to hold of compose.yml whatever else is changed in it: the sandbox is on networks without a way out only, and
sees no file of the gateway."""

import sys

try:
    import yaml
except ImportError:
    print('python3-yaml is not installed')
    sys.exit(77)

wrong = []


def must(held, what):
    if not held:
        wrong.append(what)


with open(sys.argv[1]) as file:
    compose = yaml.safe_load(file)

services, networks = compose['services'], compose['networks']
sandbox, gateway = services['sandbox'], services['gateway']

for service in services.values():
    for network in service['networks']:
        must(network in networks, f'network {network} is not there')

must(all((networks.get(n) or {}).get('internal') is True for n in sandbox['networks']), 'the sandbox has a way out')
must(set(sandbox['networks']) & set(gateway['networks']), 'the sandbox does not reach the gateway')
must('volumes' not in sandbox and 'network_mode' not in sandbox and 'privileged' not in sandbox,
     'the sandbox has something of the host')
must('ports' not in gateway, 'the gateway is open to others')
must(any(v.endswith('/egress:/etc/nginx/egress:ro') for v in gateway['volumes']), 'the gateway has no files')
must(sandbox['cap_drop'] == ['ALL'], 'the sandbox has capabilities')

for what in wrong:
    print('compose.yml: ' + what)

sys.exit(1 if wrong else 0)
