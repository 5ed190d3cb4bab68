# npm through the gateway, to a registry of somebody's own: install, audit and what else looks works, publish and its like
# are refused. The stand-in's record decides: a read arrived with the real token, a write not at all.
#
#     prove t/clients/npm.t           KEEP=1: leave the directory with logs and outputs

use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";

use Clients;
use Test::More;

my $lacks = Clients::lacks('node', 'npm');
plan skip_all => "needs $lacks" if $lacks;

$SIG{INT} = $SIG{TERM} = sub { exit 1 };

my $HOST = 'registry.example.test';
my $g = Clients->start(
    services => { $HOST => 'npm' },
    bindings => <<'CONF',
    binding npm {
        host registry.example.test { include @PRESETS@/npm.conf; }
    }
CONF
);
END { local $?; $g->stop if $g }

my $dir = $g->{dir};
my $P = $g->{placeholder};
my %env = (npm_config_cache => "$dir/tmp/npm", npm_config_update_notifier => 'false', npm_config_fund => 'false',
    npm_config_loglevel => 'error', npm_config_fetch_retries => 0, CI => 1);

Gateway::spew("$dir/home/.npmrc", "registry=https://$HOST/\n//$HOST/:_authToken=$P\n");

sub npm { my ($args, %want) = @_; $g->reads("npm @$args", \%env, ['npm', @$args], %want) }
sub no_npm { my ($args, %want) = @_; $g->refused("npm @$args: refused", \%env, ['npm', @$args], %want) }

my ($rc, $version) = $g->client(\%env, 'sh', '-c', 'echo "npm $(npm --version), node $(node --version)"');
note($version);


# --- reads --------------------------------------------------------------------------------------

Gateway::spew("$dir/work/package.json", '{"name":"app","version":"1.0.0","dependencies":{"@octo/kit":"^2.0.0"}}');

npm(['install'], print => qr/added 2 packages/, token => [
    "GET $HOST/\@octo%2fkit\$", "GET $HOST/lefty\$", "GET $HOST/\@octo/kit/-/kit-2\\.0\\.0\\.tgz",
    "POST $HOST/-/npm/v1/security/advisories/bulk",
]);
ok(-s "$dir/work/node_modules/\@octo/kit/index.js", 'npm install: the scoped package is there');
is(Gateway::slurp("$dir/work/node_modules/lefty/index.js"), "module.exports = '1.1.0';\n", 'npm install: and what it needs');

npm(['audit'], print => qr/found 0 vulnerabilities/, token => ["POST $HOST/-/npm/v1/security/advisories/bulk"]);
npm(['ci', '--prefer-online'], print => qr/added 2 packages/);
npm(['view', '@octo/kit', 'version'], print => qr/^2\.0\.0$/m, token => ["GET $HOST/\@octo%2fkit"]);
npm(['outdated'], rc => 0);
npm(['whoami'], print => qr/^octocat$/m, token => ["GET $HOST/-/whoami"]);
npm(['search', 'lefty'], print => qr/lefty/, token => ["GET $HOST/-/v1/search"]);
npm(['dist-tag', 'ls', '@octo/kit'], print => qr/latest: 2\.0\.0/, token => ["GET $HOST/-/package/\@octo%2fkit/dist-tags"]);
npm(['pack', 'lefty@1.0.0'], print => qr/lefty-1\.0\.0\.tgz/);


# --- writes -------------------------------------------------------------------------------------

my $new = "$dir/work/new";
mkdir $new;
Gateway::spew("$new/package.json", '{"name":"@octo/new","version":"1.0.0","main":"index.js"}');
Gateway::spew("$new/index.js", 'module.exports = 1;');

my @said = (rc => 1, print => qr/\b403\b/);
no_npm(['publish', $new], rc => 1, print => qr/E403.*403 Forbidden - PUT https:\/\/$HOST\/\@octo%2fnew/s);
no_npm(['unpublish', '--force', '@octo/kit@2.0.0'], @said);
no_npm(['deprecate', 'lefty@1.0.0', 'old'], @said);
no_npm(['dist-tag', 'add', 'lefty@1.0.0', 'latest'], @said);
no_npm(['access', 'set', 'status=public', '@octo/kit'], @said);
no_npm(['owner', 'add', 'mallory', 'lefty'], @said);
no_npm(['token', 'revoke', 'abcdef'], @said);

$g->finish;
done_testing();
