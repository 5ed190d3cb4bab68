// An ordinary Node client: https_get.js fetch|https ADDRESS PORT URL [AUTHORIZATION]
//
// Names are looked up as the sandbox's resolver would: all of them are the gateway. NODE_EXTRA_CA_CERTS names the authority.

const dns = require('dns');
const https = require('https');

const [how, address, port, url, authorization] = process.argv.slice(2);
const headers = authorization ? { authorization } : {};

dns.lookup = (host, options, callback) => {
    if (typeof options === 'function') {
        callback = options;
        options = {};
    }
    process.nextTick(() => options.all ? callback(null, [{ address, family: 4 }]) : callback(null, address, 4));
};

function fail(e) {
    console.log('error', e.cause ? e.cause.message : e.message);
    process.exit(1);
}

if (how === 'fetch') {
    fetch(url, { headers }).then(async (r) => console.log(r.status, await r.text()), fail);

} else {
    const target = new URL(url);
    const options = {
        host: target.hostname,
        port,
        servername: target.hostname,
        path: target.pathname + target.search,
        headers: { ...headers, host: target.hostname },
    };
    https.get(options, (r) => {
        let body = '';
        r.setEncoding('utf8');
        r.on('data', (piece) => { body += piece; });
        r.on('end', () => console.log(r.statusCode, body));
    }).on('error', fail);
}
