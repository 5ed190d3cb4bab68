# nothing of a secret stays in the memory of a worker but on its own pages:
# prototype P6, security X-42, X-43

use lib 't/lib', 't/fixture';
use Fixture;
use Test::Nginx::Socket 'no_plan';

our $P = $ENV{TEST_NGINX_PLACEHOLDER};
$ENV{TEST_NGINX_PLACEHOLDER_TAIL} = Fixture::random(36);
our $C = $ENV{TEST_NGINX_CANARY};

# a 64-bit number in hex

sub addr { unpack 'Q>', pack 'H16', substr '0' x 16 . $_[0], -16 }

# mappings of a process, with the text of those that a core would have

sub found {
    my ($pid) = @_;
    my ($in, $out) = (0, 0);
    my @maps;

    open my $fh, '<', "/proc/$pid/smaps" or return (-1, -1);

    while (my $l = <$fh>) {
        if ($l =~ /^([0-9a-f]+)-([0-9a-f]+) (\S+)/) {
            push @maps, [addr($1), addr($2), $3, 0];

        } elsif ($l =~ /^VmFlags:.* dd\b/) {
            $maps[-1][3] = 1;
        }
    }

    open my $mem, '<:raw', "/proc/$pid/mem" or return (-1, -1);

    # the value, and the base64 of it behind "x-access-token:"
    my $b = MIME::Base64::encode("x-access-token:$C", '');
    # the test's own environment has it too
    my $re = join '|', "(?<!TEST_NGINX_CANARY=)\Q$C\E",
                       quotemeta substr $b, 20, 40;

    for my $m (@maps) {
        next if $m->[2] !~ /^rw/;

        # the shadow of a sanitizer is no memory of ours
        next if $m->[1] - $m->[0] > 1 << 28;

        sysseek $mem, $m->[0], 0 or next;
        my $n = sysread $mem, my $text, $m->[1] - $m->[0];
        next if !$n;
        my $k = () = $text =~ /$re/g;
        $m->[3] ? ($in += $k) : ($out += $k);
    }

    return ($in, $out);
}

use MIME::Base64 ();

our $Main = <<'CONF';
egress {
    audit_log            $TEST_NGINX_FIXTURE_DIR/m.json;
    trusted_certificate  $TEST_NGINX_FIXTURE_DIR/trusted.pem;
    binding api {
        hosts        api.test;
        upstream     https://127.0.0.1:$TEST_NGINX_UPSTREAM_PORT;
        secret       $TEST_NGINX_SECRET;
        placeholder  $TEST_NGINX_PLACEHOLDER;
        access       write;
    }
    binding set {
        hosts        other.test;
        upstream     https://127.0.0.1:$TEST_NGINX_UPSTREAM_PORT;
        secret       $TEST_NGINX_SECRET;
        inject       always;
        basic_user   x-access-token everywhere;
    }
    binding both {
        hosts        both.test;
        upstream     https://127.0.0.1:$TEST_NGINX_UPSTREAM_PORT;
        secret       $TEST_NGINX_SECRET;
        placeholder  $TEST_NGINX_PLACEHOLDER;
        credential key {
            header       X-Api-Key;
            secret       $TEST_NGINX_SECRET;
            placeholder  key_$TEST_NGINX_PLACEHOLDER_TAIL;
        }
        credential set {
            header       X-Data prefix=v=;
            inject       always;
            secret       $TEST_NGINX_SECRET;
        }
    }
    binding bad {
        hosts        third.test;
        upstream     https://127.0.0.1:$TEST_NGINX_BAD_PORT;
        secret       $TEST_NGINX_SECRET;
        inject       always;
    }
    binding clear {
        hosts        clear.test;
        upstream     http://127.0.0.1:$TEST_NGINX_CLEAR_PORT;
        secret       $TEST_NGINX_SECRET;
        inject       always;
    }
}
CONF

add_block_preprocessor(sub {
    my $block = shift;

    $block->set_value(main_config => $Main);
    $block->set_value(config => <<'CONF');
location /api/ { egress_pass api; }
location /set/ { egress_pass set; }
location /both/ { egress_pass both; }
location /bad/ { egress_pass bad; }
location /clear/ { egress_pass clear; }
CONF
});

no_long_string();
run_tests();

__DATA__

=== TEST 1: after requests of each kind
--- init
my $port = Test::Nginx::Socket::server_port_for_client();
my $a = "-s -o /dev/null -H 'Authorization: Bearer $main::P'";
my $b = MIME::Base64::encode("x-access-token:$main::P", '');
my $u = "http://127.0.0.1:$port";
for (1 .. 12) {
    system "curl $a $u/api/x";
    system "curl $a $u/api/x -d body";
    system "curl $a $u/api/x -H 'Expect: 100-continue' -T /etc/passwd";
    system "curl $a $u/api/x -T - < /etc/passwd";
    system "curl -s -o /dev/null -H 'Authorization: Basic $b' $u/api/x";
    system "curl -s -o /dev/null $u/set/x";
    system "curl $a -H 'X-Api-Key: key_$ENV{TEST_NGINX_PLACEHOLDER_TAIL}' $u/both/x";
    system "curl -s -o /dev/null $u/bad/x";
    system "curl -s -o /dev/null $u/clear/x";
}
select undef, undef, undef, 0.2;
my $pid = Fixture::read_file("$ENV{TEST_NGINX_SERVER_ROOT}/logs/nginx.pid");
chomp $pid;
my ($in, $out) = main::found($pid);
Test::More::cmp_ok($in, '>=', 7, 'the seven secrets and their spellings, on pages of their own');
Test::More::is($out, 0, 'and nowhere else');
--- request
GET /api/x
--- error_code: 200
--- error_log
certificate verify error
