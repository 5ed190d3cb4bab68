package Test::Nginx::Socket;

# Client side of the test runner: requests over a plain socket, and checks of
# what comes back.  It runs the files of this suite in the form of
# Test::Nginx::Socket, and behaves like it in the subset that they use: see
# the manual at the end.

use v5.10.1;
use strict;
use warnings;

use Test::Base -Base;
use Test::More ();
use Test::Nginx::Util ();

use IO::Select ();
use IO::Socket::INET ();
use Time::HiRes qw(sleep time);

our $VERSION = $Test::Nginx::Util::VERSION;

our @EXPORT = qw(
    run_tests repeat_each
    no_shuffle no_long_string no_diff no_root_location log_level workers
    master_on master_off master_process_enabled worker_connections timeout
    server_addr server_name server_port server_port_for_client html_dir
    server_root env_to_nginx config_preamble add_block_preprocessor
    add_cleanup_handler add_test_cleanup_handler add_response_body_check
    check_accum_error_log no_nginx_manager use_hup run_test
);

my @ResponseBodyChecks;


for my $name (qw(repeat_each no_shuffle no_long_string no_root_location
                 log_level workers master_on master_off
                 master_process_enabled worker_connections timeout
                 server_addr server_name server_port server_port_for_client
                 html_dir server_root env_to_nginx config_preamble
                 add_block_preprocessor add_cleanup_handler
                 add_test_cleanup_handler check_accum_error_log
                 no_nginx_manager use_hup run_test))
{
    no strict 'refs';
    no warnings 'prototype';
    *{$name} = \&{"Test::Nginx::Util::$name"};
}


{
    no warnings qw(redefine prototype);

    *no_diff = sub () { };
    *add_response_body_check = sub ($) { push @ResponseBodyChecks, shift };
    *run_tests = sub () {
        Test::Nginx::Util::run_tests();
    };
}


# Requests.

sub trim_body (@) {
    my $body = shift;

    $body =~ s/^\s+|\s+$//gs if defined $body;

    return $body;
}


sub build_request (@) {
    my ($name, $text, $more_headers, $pipelined) = @_;

    my ($head, $body) = split /\r?\n/, $text =~ s/^\s+//r, 2;

    $head //= '';
    $body = trim_body($body);

    my ($method, $target, $version);

    if ($head =~ /^\s*(\S+)\s+(.*?)(?:\s+(HTTP\/\d+\.\d+))?\s*$/) {
        ($method, $target, $version) = ($1, $2, $3 // 'HTTP/1.1');

    } else {
        Test::Nginx::Util::bail_out("$name - bad request line \"$head\"");
    }

    my $headers = '';
    my %seen;

    for my $line (split /\r?\n/, $more_headers // '') {
        next if $line =~ /^\s*$/;
        $headers .= "$line\r\n";
        $seen{lc $1} = 1 if $line =~ /^\s*([^:\s]+)\s*:/;
    }

    my $request = "$method $target $version\r\n";

    $request .= 'Host: ' . Test::Nginx::Util::server_name() . "\r\n"
        if !$seen{host};

    if (!$seen{connection}) {
        $request .= 'Connection: ' . ($pipelined ? 'keep-alive' : 'close')
                    . "\r\n";
    }

    $request .= $headers;

    if (defined $body && length $body) {
        $request .= 'Content-Length: ' . length($body) . "\r\n"
            if !$seen{'content-length'} && !$seen{'transfer-encoding'};
        $request .= "\r\n$body";

    } else {
        $request .= "\r\n";
    }

    return $request;
}


# A list of requests, each a list of packets { value, delay_before }.

sub packets_of (@) {
    my ($name, $value) = @_;

    return [{ value => $value }] if !ref $value;

    my @packets;

    for my $packet (@$value) {
        if (ref $packet eq 'HASH') {
            push @packets, { value => $packet->{value},
                             delay => $packet->{delay_before} };

        } else {
            push @packets, { value => $packet };
        }
    }

    return \@packets;
}


sub requests_of (@) {
    my $block = shift;

    my $name = $block->name;
    my $more = Test::Nginx::Util::expand_canary(scalar $block->more_headers);
    my @list;

    if (defined $block->raw_request) {
        my $raw = Test::Nginx::Util::expand_canary(scalar $block->raw_request);

        my $delay = $block->raw_request_middle_delay;
        my $packets = packets_of($name, $raw);

        if (defined $delay) {
            $_->{delay} //= $delay for @$packets[1 .. $#$packets];
        }

        return ([{ packets => $packets, count => 1 }]);
    }

    if (defined $block->pipelined_requests) {
        my $all = $block->pipelined_requests;
        my $n = 0;
        my $text = '';

        for my $req (@$all) {
            my $headers = ref $more eq 'ARRAY' ? $more->[$n] : $more;
            $n++;

            if ($n == @$all && ($headers // '') !~ /^Connection\s*:/mi) {
                $headers = ($headers // '') . "\nConnection: close";
            }

            $text .= build_request($name, $req, $headers, 1);
        }

        return ([{ packets => [{ value => $text }], count => $n }]);
    }

    my $request = $block->request;
    return [] if !defined $request;

    my @requests = ref $request eq 'ARRAY' ? @$request : ($request);
    my $i = 0;

    for my $req (@requests) {
        my $headers = ref $more eq 'ARRAY' ? $more->[$i] : $more;
        $i++;

        if (ref $req) {
            # packets of one request: the text is put together first
            my $packets = packets_of($name, $req);
            my $text = build_request($name,
                                     join('', map { $_->{value} } @$packets),
                                     $headers, 0);
            my $tail = join '', map { $_->{value} } @$packets[1 .. $#$packets];

            $tail =~ s/\s+$//s;

            if (@$packets > 1 && length $tail && $text =~ /\Q$tail\E$/) {
                my $first = substr $text, 0, length($text) - length $tail;
                push @list, { count => 1, packets => [
                    { value => $first },
                    @$packets[1 .. $#$packets] ] };

            } else {
                push @list, { count => 1, packets => [{ value => $text }] };
            }

            next;
        }

        push @list, { count => 1, packets => [
            { value => build_request($name, $req, $headers, 0) }] };
    }

    return \@list;
}


# One connection: packets out, responses in.

sub body_complete (@) {
    my ($data, $head_request) = @_;

    return undef if $data !~ /\A(.*?)\r?\n\r?\n/s;

    my $head = $1;
    my $start = $+[0];
    my $rest = length($data) - $start;

    return $start if $head_request
                     || $head =~ m{\AHTTP/\d\.\d (?:1\d\d|204|304)\b};

    if ($head =~ /^Transfer-Encoding:\s*chunked/mi) {
        my $pos = $start;

        for ( ;; ) {
            return undef if substr($data, $pos) !~ /\A([0-9a-fA-F]+)[^\n]*\n/;
            my ($size, $line) = (hex $1, $+[0]);
            my $end = $pos + $line + $size;

            if ($size == 0) {
                return substr($data, $pos + $line) =~ /\A(?:[^\n]+\n)*\r?\n/
                       ? $pos + $line + $+[0] : undef;
            }

            return undef if length $data < $end + 2;
            $pos = $end + 2;
        }
    }

    if ($head =~ /^Content-Length:\s*(\d+)/mi) {
        return $rest >= $1 ? $start + $1 : undef;
    }

    # up to the end of the connection
    return undef;
}


sub exchange (@) {
    my ($block, $request) = @_;

    my $name = $block->name;
    my $limit = Test::Nginx::Util::parse_time(scalar $block->timeout)
                // $Test::Nginx::Util::Timeout;

    my $addr = $block->server_addr_for_client
               || Test::Nginx::Util::server_addr();

    my $sock = IO::Socket::INET->new(
        PeerAddr => $addr,
        PeerPort => Test::Nginx::Util::server_port_for_client(),
        Proto => 'tcp',
        Timeout => 10,
    );

    if (!$sock) {
        Test::More::fail("$name - cannot connect: $!");
        return ();
    }

    local $SIG{PIPE} = 'IGNORE';

    binmode $sock;
    $sock->autoflush(1);

    for my $packet (@{ $request->{packets} }) {
        sleep $packet->{delay} if $packet->{delay};

        my $value = $packet->{value};
        my $done = 0;

        while ($done < length $value) {
            my $n = syswrite $sock, $value, length($value) - $done, $done;
            last if !defined $n;
            $done += $n;
        }
    }

    my $all = join '', map { $_->{value} } @{ $request->{packets} };
    my $head = $all =~ /\AHEAD /;

    shutdown $sock, $block->shutdown if defined $block->shutdown;

    if (defined $block->abort) {
        sleep Test::Nginx::Util::parse_time(scalar $block->timeout) // 0;
        close $sock;
        return ();
    }

    my $data = '';
    my @responses;
    my $until = time() + $limit;
    my $select = IO::Select->new($sock);
    my $eof = 0;

    while (@responses < $request->{count}) {
        my $end = body_complete($data, $head);

        if (defined $end) {
            my $one = substr $data, 0, $end, '';

            # interim responses come before the one that is meant
            next if $one =~ m{\AHTTP/\d\.\d 1(?!01)\d\d\b};

            push @responses, $one;
            next;
        }

        last if $eof;

        my $left = $until - time();

        if ($left <= 0 || !$select->can_read($left)) {
            Test::More::fail("$name - socket client: timed out")
                if !$request->{quiet};
            last;
        }

        my $n = sysread $sock, $data, 65536, length $data;
        $eof = 1 if !$n;
        $until = time() + $limit if $n;
    }

    push @responses, $data if @responses < $request->{count} && length $data;

    close $sock;

    return @responses;
}


# Responses.

sub parse_response (@) {
    my $raw = shift;

    my $res = { raw => $raw, headers => {}, list => [], body => '',
                code => undef, raw_headers => '' };

    return $res if !defined $raw;

    if ($raw !~ m{\A(HTTP/\d\.\d) (\d\d\d)([^\r\n]*)\r?\n(.*?)\r?\n?\r?\n}s
        && $raw !~ m{\A(HTTP/\d\.\d) (\d\d\d)([^\r\n]*)\r?\n()\r?\n}s)
    {
        $res->{body} = $raw;
        return $res;
    }

    $res->{code} = $2;

    my ($head, $body) = split /\r?\n\r?\n/, $raw, 2;

    $res->{raw_headers} = "$head\r\n";

    my @lines = split /\r?\n/, $head;
    shift @lines;

    for my $line (@lines) {
        my ($key, $value) = $line =~ /^([^:]+):\s*(.*?)\s*$/ or next;
        push @{ $res->{headers}{lc $key} }, $value;
    }

    $body //= '';

    if ($head =~ /^Transfer-Encoding:\s*chunked/mi) {
        my $plain = '';

        while ($body =~ s/\A([0-9a-fA-F]+)[^\n]*\n//) {
            my $size = hex $1;
            last if $size == 0;
            $plain .= substr $body, 0, $size, '';
            $body =~ s/\A\r?\n//;
        }

        $body = $plain;
    }

    $res->{body} = $body;

    return $res;
}


sub pick (@) {
    my ($value, $i) = @_;

    return ref $value eq 'ARRAY' ? $value->[$i] : $value;
}


sub expand_expected (@) {
    my $text = shift;

    return $text if !defined $text || ref $text;

    $text = Test::Nginx::Util::expand_env_in_text(
                $text, 'expected text', $Test::Nginx::Util::RandPorts);

    my $port = Test::Nginx::Util::server_port();
    my $client = Test::Nginx::Util::server_port_for_client();

    $text =~ s/\$ServerPortForClient\b/$client/g;
    $text =~ s/\$ServerPort\b/$port/g;

    return $text;
}


sub check_code (@) {
    my ($block, $res, $i) = @_;

    my $name = $block->name;

    return if defined $block->ignore_response;

    if (defined $block->error_code_like) {
        my $want = pick(scalar $block->error_code_like, $i);
        Test::More::like($res->{code} // '', qr/$want/sm,
                         "$name - status code ok");
        return;
    }

    my $want = pick(scalar $block->error_code, $i) // 200;
    $want =~ s/^\s+|\s+$//g;

    Test::More::is($res->{code} // '', $want, "$name - status code ok");
}


sub header_value (@) {
    my ($res, $key) = @_;

    my $list = $res->{headers}{lc $key} or return undef;

    return join ', ', @$list;
}


sub check_headers (@) {
    my ($block, $res, $i) = @_;

    my $name = $block->name;

    if (defined(my $want = pick(scalar $block->response_headers, $i))) {
        for my $line (split /\r?\n/, expand_expected($want)) {
            next if $line =~ /^\s*(?:#|$)/;

            if ($line =~ /^\s*!\s*(\S+)/) {
                Test::More::is(header_value($res, $1), undef,
                               "$name - header $1 not present");
                next;
            }

            my ($key, $value) = $line =~ /^\s*([^:]+?)\s*:\s*(.*?)\s*$/
                or next;

            Test::Nginx::Util::is_str(header_value($res, $key) // '', $value,
                                      "$name - header $key ok");
        }
    }

    if (defined(my $want = pick(scalar $block->response_headers_like, $i))) {
        for my $line (split /\r?\n/, expand_expected($want)) {
            next if $line =~ /^\s*(?:#|$)/;

            my ($key, $value) = $line =~ /^\s*([^:]+?)\s*:\s*(.*?)\s*$/
                or next;

            Test::More::like(header_value($res, $key) // '', qr/^$value$/,
                             "$name - header $key like ok");
        }
    }

    if (defined(my $want = pick(scalar $block->raw_response_headers_like, $i))) {
        my $re = expand_expected($want);
        Test::More::like($res->{raw_headers}, qr/$re/s,
                         "$name - raw headers like ok");
    }

    if (defined(my $want = pick(scalar $block->raw_response_headers_unlike, $i))) {
        my $re = expand_expected($want);
        Test::More::unlike($res->{raw_headers}, qr/$re/s,
                           "$name - raw headers unlike ok");
    }
}


sub check_body (@) {
    my ($block, $res, $i) = @_;

    my $name = $block->name;

    if (defined(my $want = pick(scalar $block->response_body, $i))) {
        Test::Nginx::Util::is_str($res->{body}, expand_expected($want),
                                  "$name - response_body - response is "
                                  . "expected");
    }

    if (defined(my $want = pick(scalar $block->response_body_like, $i))) {
        my $re = expand_expected($want);
        $re =~ s/\n+$// if !ref $re;
        Test::More::like($res->{body}, ref $re ? $re : qr/$re/s,
                         "$name - response_body_like");
    }

    if (defined(my $want = pick(scalar $block->response_body_unlike, $i))) {
        my $re = expand_expected($want);
        $re =~ s/\n+$// if !ref $re;
        Test::More::unlike($res->{body}, ref $re ? $re : qr/$re/s,
                           "$name - response_body_unlike");
    }

    for my $check (@ResponseBodyChecks) {
        $check->($block, $res->{body}, $i);
    }
}


# Logs.

sub lines_like (@) {
    my ($lines, $pattern) = @_;

    return grep { Test::Nginx::Util::line_matches($_, $pattern) } @$lines;
}


sub check_patterns (@) {
    my ($name, $what, $lines, $wanted, $unwanted) = @_;

    for my $pattern (Test::Nginx::Util::patterns_of($wanted)) {
        Test::More::ok(scalar(lines_like($lines, $pattern)),
                       "$name - pattern \"$pattern\" matches a line in $what");
    }

    for my $pattern (Test::Nginx::Util::patterns_of($unwanted)) {
        my @found = lines_like($lines, $pattern);

        Test::More::ok(!@found, "$name - pattern \"$pattern\" should not "
                                . "match any line in $what")
            or Test::More::diag($found[0]);
    }
}


sub check_error_log (@) {
    my ($block, $res, $dry_run, $i, $need_array) = @_;

    my $name = $block->name;

    return if $dry_run;

    my $wanted = $block->error_log;
    my $unwanted = $block->no_error_log;
    my $grep = $block->grep_error_log;

    if (defined $wanted || defined $unwanted || defined $grep) {

        if (defined $block->wait) {
            sleep Test::Nginx::Util::parse_time(scalar $block->wait);
        }

        my $lines = Test::Nginx::Util::error_log_data();

        if (defined $block->must_die) {
            $lines = [@$lines, @{ Test::Nginx::Util::stderr_data() }];
        }

        $wanted = expand_expected($wanted) if !ref $wanted;
        $unwanted = expand_expected($unwanted) if !ref $unwanted;

        check_patterns($name, 'error.log', $lines, $wanted, $unwanted);

        if (defined $grep) {
            my $re = ref $grep ? $grep : qr/\Q$grep\E/;
            my $out = '';

            for my $line (@$lines) {
                while ($line =~ /($re)/g) {
                    $out .= "$1\n";
                }
            }

            my $want = pick(scalar $block->grep_error_log_out, $i) // '';

            if (ref $want) {
                Test::More::like($out, $want, "$name - grep_error_log_out");

            } else {
                Test::Nginx::Util::is_str($out, $want,
                                          "$name - grep_error_log_out");
            }
        }
    }

    if (defined $block->access_log || defined $block->no_access_log) {
        check_patterns($name, 'access.log',
                       Test::Nginx::Util::access_log_data(),
                       scalar $block->access_log,
                       scalar $block->no_access_log);
    }
}


sub check_shutdown_error_log (@) {
    my ($block, $skip) = @_;

    return if $skip;

    my $data = Test::Nginx::Util::slurp($Test::Nginx::Util::ErrLogFile) // '';

    check_patterns($block->name, 'error.log after the end',
                   [split /^/, $data],
                   scalar $block->shutdown_error_log,
                   scalar $block->no_shutdown_error_log);
}


# One block against the running nginx.

sub run_block (@) {
    my ($block, $dry_run, $repeated) = @_;

    my $list = requests_of($block);
    my $n = 0;

    return if $dry_run;

    for my $request (@$list) {
        $request->{quiet} = 1
            if defined $block->ignore_response || defined $block->abort;

        my @raw = exchange($block, $request);

        push @Test::Nginx::Util::Responses, @raw;

        if (defined $block->abort) {
            $n++;
            next;
        }

        for my $k (0 .. $request->{count} - 1) {
            my $res = parse_response($raw[$k]);

            check_code($block, $res, $n);

            if (!defined $block->ignore_response) {
                check_headers($block, $res, $n);
                check_body($block, $res, $n);
            }

            $n++;
        }
    }

    check_error_log($block, undef, $dry_run, $repeated, 0);
}


$Test::Nginx::Util::RunTestHelper = \&run_block;
$Test::Nginx::Util::CheckErrorLog = \&check_error_log;
$Test::Nginx::Util::CheckShutdownErrorLog = \&check_shutdown_error_log;


1;

__END__

=head1 NAME

Test::Nginx::Socket - a runner for test files in the form of that module

=head1 DESCRIPTION

Runs the files of this suite on a Debian machine, where the original can't be
installed from packages. It knows no word that the original does not know, so
that the files run under either: leave out C<-It/lib>, and C<use lib 't/lib'>,
to run them under the original.

Sections: config, http_config, main_config, post_main_config, server_name,
user_files, init, post_setup_server_root, request, raw_request,
raw_request_middle_delay, pipelined_requests, more_headers, timeout, abort,
shutdown, wait, error_code, error_code_like, response_headers,
response_headers_like, raw_response_headers_like, raw_response_headers_unlike,
response_body, response_body_like, response_body_unlike, ignore_response,
error_log, no_error_log, grep_error_log, grep_error_log_out, access_log,
no_access_log, shutdown_error_log, no_shutdown_error_log, must_die, log_level,
error_log_file, tcp_listen, tcp_reply, tcp_reply_delay, tcp_query,
tcp_query_len, tcp_shutdown, tcp_no_close, suppress_stderr, ONLY, SKIP,
skip_nginx, skip_openssl, skip_eval, todo; filters are those of Test::Base.

Environment: TEST_NGINX_BINARY, _LOAD_MODULES, _SERVROOT, _PORT, _SERVER_PORT,
_CLIENT_PORT, _RANDOMIZE, _SLEEP, _TIMEOUT, _NO_SHUFFLE, _NO_CLEAN, _VERBOSE,
_LOG_LEVEL, _WORKER_USER, _RAND_PORT_n and others of the same names as in the
original.

Two checks are of this runner only, and only the environment turns them on.
With TEST_NGINX_STRICT_LOG=1 a line at alert, crit or emerg that a block does
not itself name fails it, and so does a report of a sanitizer. With
TEST_NGINX_CANARY_SCAN=1 the value of TEST_NGINX_CANARY, which is random unless
it is set, must not be found in logs, temporary files and responses: as it is,
in base64, in hex or percent-encoded.

=cut
