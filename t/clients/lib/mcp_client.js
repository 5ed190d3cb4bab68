// A client of the official SDK that does one thing after another and prints what came of each, a line of JSON a step.
//
//     node mcp_client.js DIRECTORY-OF-PACKAGES URL TOKEN STEP...
//
// STEP: tools, call:NAME, resources, read, prompts, ping, level, notify, close.  The proxy is that of the environment.

const packages = require('module').createRequire(process.argv[2] + '/x.js');
const { Client } = packages('@modelcontextprotocol/sdk/client/index.js');
const { StreamableHTTPClientTransport } = packages('@modelcontextprotocol/sdk/client/streamableHttp.js');
const undici = packages('undici');

const [, , , url, token, ...steps] = process.argv;
const dispatcher = new undici.EnvHttpProxyAgent();
const client = new Client({ name: 'test', version: '1.0.0' });
const transport = new StreamableHTTPClientTransport(new URL(url), {
    fetch: (to, options) => undici.fetch(to, { ...options, dispatcher }),
    requestInit: { headers: { Authorization: `Bearer ${token}` } },
});

const does = {
    tools: async () => (await client.listTools()).tools.map(t => t.name),
    call: async name => (await client.callTool({ name, arguments: { id: '7' } })).content[0].text,
    resources: async () => (await client.listResources()).resources.map(r => r.uri),
    read: async () => (await client.readResource({ uri: 'note://1' })).contents[0].text,
    prompts: async () => (await client.listPrompts()).prompts.map(p => p.name),
    ping: async () => client.ping(),
    notify: async () => client.sendRootsListChanged(),
    other: async name => client.request({ method: name, params: {} }, packages('@modelcontextprotocol/sdk/types.js').ResultSchema),
    close: async () => { await transport.terminateSession(); return 'ended'; },
};

async function main() {
    await print('connect', () => client.connect(transport).then(() => client.getServerVersion().name));
    for (const step of steps) {
        const [what, name] = step.split(/:(.*)/);
        await print(step, () => does[what](name));
    }
    process.exit(0);
}

async function print(step, f) {
    try {
        console.log(JSON.stringify({ step, got: await f() }));
    } catch (e) {
        console.log(JSON.stringify({ step, code: e.code, error: String(e.message) }));
    }
}

main();
