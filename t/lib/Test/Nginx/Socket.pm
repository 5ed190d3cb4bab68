package Test::Nginx::Socket;

# Client side of the test runner: building requests from the sections of a
# block, sending them, and checking responses and logs.  See the manual at
# the end of this file.

use v5.10.1;
use strict;
use warnings;

use Errno qw(EAGAIN EINTR EWOULDBLOCK);
use IO::Select ();
use IO::Socket::INET ();
use Test::More ();
use Time::HiRes qw(sleep time);

require Test::Base;
use Test::Nginx::Util ();

our $VERSION = '0.33';
our @ISA = ('Test::Base');

our @EXPORT;

# What a test file gets besides the exports of Test::Base, most of all plan(),
# blocks(), filters() and the functions of Test::More.
BEGIN {
    @EXPORT = qw(
        run_tests run_test is_str bail_out
        repeat_each no_shuffle no_long_string no_root_location
        check_accum_error_log log_level timeout
        workers worker_connections
        master_on master_off master_process_enabled use_hup no_nginx_manager
        server_name server_addr server_port server_port_for_client
        server_root html_dir
        config_preamble env_to_nginx
        add_block_preprocessor add_cleanup_handler add_test_cleanup_handler
        add_response_body_check
    );

    no strict 'refs';

    for my $name (grep { $_ ne 'add_response_body_check' } @EXPORT) {
        *$name = \&{"Test::Nginx::Util::$name"};
    }
}

our @ResponseBodyChecks;

$Test::Nginx::Util::RunTestHelper = \&run_test_helper;
$Test::Nginx::Util::CheckErrorLog = \&check_error_log;
$Test::Nginx::Util::CheckShutdownErrorLog = \&check_shutdown_error_log;

sub add_response_body_check ($) { push @ResponseBodyChecks, shift }
sub set_http_config_filter ($) { $Test::Nginx::Util::FilterHttpConfig = shift }

sub extra_fail ($) { goto &Test::Nginx::Util::extra_fail }

sub port_variables {
    my $text = shift;

    return $text if !defined $text || ref $text;

    $text =~ s/\$ServerPort\b/$Test::Nginx::Util::ServerPort/g;
    $text =~
        s/\$ServerPortForClient\b/$Test::Nginx::Util::ServerPortForClient/g;
    return $text;
}

sub expand ($$) {
    my ($text, $name) = @_;

    return Test::Nginx::Util::expand_env_in_text(
               $text, $name, $Test::Nginx::Util::RandPorts);
}

sub canary ($) { Test::Nginx::Util::expand_canary($_[0]) }


# Requests.  A request is a list of packets, each { value, delay_before }.

# Returns the header lines of more_headers and whether the body is chunked.
sub header_lines ($) {
    my $text = shift;

    my ($out, $chunked) = ('', 0);

    for my $line (split /\n+/, $text) {
        next if $line =~ /^\s*#/;

        my ($key, $value) = split /:\s*/, $line, 2;
        $value //= '';

        if (lc $key eq 'transfer-encoding' && $value eq 'chunked') {
            $chunked = 1;
        }

        $out .= "$key: $value\r\n";
    }

    return ($out, $chunked);
}

sub headers_of_request ($$$) {
    my ($block, $i, $name) = @_;

    my $headers = canary($block->more_headers || '');

    if (ref $headers eq 'ARRAY') {
        defined $headers->[$i]
            or bail_out("$name - more_headers has nothing for request $i");
        $headers = $headers->[$i];
    }

    return header_lines($headers);
}

# Completes a request and keeps the borders of its packets: each is moved to
# where the text around it has gone.
sub complete_request {
    my ($name, $headers, $chunked, $connection, $packets) = @_;

    my $text = join '', @$packets;

    if ($text !~ /\A(\s*)(\S+)(\x20*)
                    (?:(\S+)(\x20*))?
                    (?:(\S+)(\x20*))?
                    ([^\S\n]*(?:\n|\z))/x)
    {
        my ($line) = split /\n/, $text;
        bail_out("$name - not a request line: \"", $line // '', '"');
    }

    my ($lead, $method, $gap1, $url, $gap2, $version, $gap3, $end) =
        map { $_ // '' } $1, $2, $3, $4, $5, $6, $7, $8;

    my $body = substr $text, $+[0];
    my $content = $body;
    my $length = '';

    if (!$chunked && $body ne ''
        && $headers !~ /(?:^|\n)Content-Length:/)
    {
        $content =~ s/^\s+|\s+$//g;
        $length = 'Content-Length: ' . length($content) . "\r\n";
    }

    my $head = '';
    $head .= "Host: $Test::Nginx::Util::ServerName\r\n"
        if $headers !~ /(?:^|\n)Host:/i;
    $head .= "Connection: $connection\r\n"
        if $headers !~ /(?:^|\n)Connection/i;
    $head .= "$headers$length\r\n";

    # Pairs: length in the section, text on the wire.
    my @parts = (
        [length $lead, ''],
        [length $method, "$method "],
        [length $gap1, ''],
        [length $url, (length $url ? $url : '/') . ' '],
        [length $gap2, ''],
        [length $version,
         (length $version ? $version : 'HTTP/1.1') . "\r\n"],
        [length($gap3) + length($end), ''],
        [0, $head],
        [length $body, $content],
    );

    my $wire = join '', map { $_->[1] } @parts;
    my (@out, $border);
    my $sent = 0;

    for my $i (0 .. $#$packets) {
        $border += length $packets->[$i];

        my $to = $i == $#$packets ? length $wire : new_offset($border, @parts);
        push @out, substr $wire, $sent, $to - $sent;
        $sent = $to;
    }

    return @out;
}

sub new_offset {
    my ($border, @parts) = @_;

    my ($old, $new) = (0, 0);

    for my $part (@parts) {
        my ($length, $text) = @$part;

        if ($border < $old + $length) {
            my $within = $border - $old;
            $within = length $text if $within > length $text;
            return $new + $within;
        }

        $old += $length;
        $new += length $text;
    }

    return $new;
}

sub requests_of_block ($) {
    my $block = shift;

    my $name = $block->name;

    if (defined(my $raw = canary($block->raw_request))) {
        my @packets = ref $raw eq 'ARRAY' ? @$raw : ($raw);
        return [map { { value => $_ } } @packets];
    }

    if (my $list = $block->pipelined_requests) {
        ref $list eq 'ARRAY'
            or bail_out("$name - pipelined_requests must be an array");

        my $wire = '';

        for my $i (0 .. $#$list) {
            my ($headers, $chunked) = headers_of_request($block, $i, $name);

            $wire .= join '', complete_request(
                $name, $headers, $chunked,
                $i == $#$list ? 'close' : 'keep-alive',
                [expand($list->[$i], $name)]);
        }

        return [{ value => $wire }];
    }

    my $request = canary($block->request);

    defined $request or bail_out("$name - no request section");

    if (!ref $request) {
        # Comments and empty lines may stand before the request line.
        1 while $request =~ s/\A(?:\s*#[^\n]+\s+|\s+)//;
    }

    my @requests;
    my $list = ref $request ? $request : [$request];

    ref $list eq 'ARRAY'
        or bail_out("$name - request must be text or an array");

    for my $i (0 .. $#$list) {
        my $packets = ref $list->[$i] ? $list->[$i] : [$list->[$i]];

        ref $packets eq 'ARRAY'
            or bail_out("$name - a request must be text or an array");

        my @given = map { ref $_ ? $_ : { value => $_ } } @$packets;
        my ($headers, $chunked) = headers_of_request($block, $i, $name);

        my @wire = complete_request($name, $headers, $chunked, 'close',
                                    [map { $_->{value} // '' } @given]);

        push @requests, [map { { %{$given[$_]}, value => $wire[$_] } }
                             0 .. $#given];
    }

    return @requests;
}


# Sending.

sub connect_to_server {
    my ($block, $timeout) = @_;

    my $name = $block->name;
    my $addr = $block->server_addr_for_client
               // $Test::Nginx::Util::ServerAddr;
    my $port = $Test::Nginx::Util::ServerPortForClient;
    my $until = time() + ($Test::Nginx::Util::UseValgrind ? 30 : 5);
    my $wait = 0.01;

    for ( ;; ) {
        my $sock = IO::Socket::INET->new(
            PeerAddr => $addr,
            PeerPort => $port,
            Proto => 'tcp',
            Timeout => $timeout,
        );

        if ($sock) {
            $sock->blocking(0);
            return $sock;
        }

        if (time() > $until) {
            extra_fail("$name - cannot connect to $addr:$port: $!");
            return undef;
        }

        sleep $wait;
        $wait *= 1.5 if $wait < 0.3;
    }
}

# Sends all packets and reads until the server closes the connection.  The
# time limit is for each wait, not for the whole exchange.
sub send_request {
    my ($block, $packets, $timeout) = @_;

    my $name = $block->name;
    my $sock = connect_to_server($block, $timeout) or return '';

    local $SIG{PIPE} = 'IGNORE';

    my @queue = @$packets;
    my $buffer = (shift @queue)->{value};
    my $select = IO::Select->new($sock);
    my $response = '';
    my $writing = 1;

    for ( ;; ) {
        $! = 0;

        my ($readable, $writable) = IO::Select->select(
            $select, $writing ? $select : undef, undef, $timeout);

        if (!defined $readable) {
            next if $! == EINTR;

            extra_fail("ERROR: client socket timed out - $name")
                if !defined $block->abort;
            last;
        }

        if (@$readable) {
            my $got = sysread $sock, $response, 65536, length $response;

            if (!defined $got) {
                if ($! != EAGAIN && $! != EWOULDBLOCK && $! != EINTR) {
                    warn "WARNING: $name - HTTP response read failure: $!\n";
                    last;
                }

            } elsif ($got == 0) {
                last;
            }
        }

        next if !@$writable;

        if (length $buffer) {
            my $sent = syswrite $sock, $buffer;

            if (defined $sent) {
                substr $buffer, 0, $sent, '';

            } elsif ($! != EAGAIN && $! != EWOULDBLOCK && $! != EINTR) {
                warn "$name - write failed: $!\n";
                # An answer may have come before the reset.
                $writing = 0;
            }

            next if length $buffer;
        }

        if (@queue) {
            my $next = shift @queue;
            my $delay = Test::Nginx::Util::parse_time(
                            $next->{delay_before}
                            // $block->raw_request_middle_delay);

            sleep $delay if $delay;
            $buffer = $next->{value};

        } elsif ($writing) {
            $writing = 0;

            if (defined(my $how = $block->shutdown)) {
                shutdown $sock, $how =~ /\d/ ? $how : 1;
            }
        }
    }

    close $sock;
    return $response;
}

sub send_by_curl {
    my ($block, $packets, $timeout) = @_;

    my $name = $block->name;
    my $text = join '', map { $_->{value} } @$packets;

    $text =~ s{\A\s*(\S+)\s+(\S+)\s+HTTP/\S+\r?\n}{}
        or bail_out("$name - http2 needs a complete request line");

    my ($method, $uri) = ($1, $2);
    my ($head, $body) = split /\r\n\r\n/, "\r\n$text", 2;

    my @command = ('curl', '-i', '-sS', '--http2-prior-knowledge',
                   '--max-time', $timeout, '-H', 'User-Agent:', '-H',
                   'Accept:');

    push @command, $method eq 'HEAD' ? '-I' : ('-X', $method);

    for my $line (grep { length } split /\r\n/, $head) {
        next if $line =~ /^(?:Connection|Content-Length)\s*:/i;
        push @command, '-H', $line;
    }

    if (length $body) {
        my $file = Test::Nginx::Util::html_dir() . '/curl.data.bin';
        Test::Nginx::Util::spew($file, $body);
        push @command, '-H', 'Content-Type:' if $head !~ /^Content-Type:/im;
        push @command, '--data-binary', "\@$file";
    }

    push @command, $block->curl_options if defined $block->curl_options;
    push @command, ($block->curl_protocol // 'http') . '://'
        . ($block->server_addr_for_client // $Test::Nginx::Util::ServerAddr)
        . ":$Test::Nginx::Util::ServerPortForClient$uri";

    open my $out, '-|', @command or bail_out("$name - cannot run curl: $!");
    binmode $out;
    local $/;
    my $response = <$out> // '';
    close $out;

    return $response;
}


# Responses.

# Header names are compared without case, and "_" counts as "-".
sub header_key ($) {
    my $key = lc shift;

    $key =~ tr/_/-/;
    return $key;
}

sub response_header ($$) {
    my ($res, $key) = @_;

    my $values = $res->{headers}{header_key($key)};

    return defined $values ? join ', ', @$values : undef;
}

# Returns the response, the raw headers, and the bytes after it.
sub parse_response ($$$) {
    my ($name, $raw, $head) = @_;

    my $raw_headers = $raw =~ /\A(.*?\r\n)\r\n/s ? $1 : '';
    my $res = { code => undef, headers => {}, content => '' };
    my ($top, $rest) = split /\r?\n\r?\n/, $raw, 2;
    my @lines = split /\r?\n/, $top // '';
    my $status = shift @lines // '';

    if ($status =~ m{^(?:HTTP/\S+\s+)?(\d+)(?:\s|$)}) {
        $res->{code} = $1;
    }

    my $values;

    for my $line (@lines) {
        if ($line =~ /^[ \t]/ && $values) {
            $values->[-1] .= "\n$line";

        } elsif ($line =~ /^([^\s:]+)[ \t]*: ?(.*)/) {
            $values = $res->{headers}{header_key($1)} //= [];
            push @$values, $2;
        }
    }

    $res->{content} = $rest // '';

    my $code = $res->{code} // 0;

    if ($code == 304 || $code == 101) {
        return ($res, $raw_headers, undef);
    }

    my $encoding = response_header($res, 'Transfer-Encoding');
    my $length = response_header($res, 'Content-Length');
    my $left;

    if (defined $encoding && $encoding eq 'chunked') {
        my ($content, $error);

        ($content, $left, $error) =
            decode_chunks($res->{content},
                          defined response_header($res, 'Trailer'));

        if (defined $error) {
            extra_fail("$name - invalid chunked data received: $error");
            return (undef, $raw_headers, undef);
        }

        $res->{content} = $content;

    } elsif (defined $length && $length =~ /^\d+$/) {
        my $got = length $res->{content};

        if ($got < $length && !$head) {
            warn "WARNING: $name - response body truncated: "
                 . "$length expected, but got $got\n";

        } elsif ($got > $length) {
            $left = substr $res->{content}, $length;
            $res->{content} = substr $res->{content}, 0, $length;
        }
    }

    return ($res, $raw_headers, $left);
}

sub decode_chunks {
    my ($data, $trailers) = @_;

    my $content = '';

    for ( ;; ) {
        if ($data !~ s/\A[ \t]*([0-9A-Fa-f]+)[ \t]*\r\n//) {
            return (undef, undef,
                    length $data ? 'no chunk size' : 'no last chunk');
        }

        my $size = hex $1;
        last if $size == 0;

        if (length $data < $size + 2) {
            return (undef, undef, 'chunk too short');
        }

        $content .= substr $data, 0, $size, '';

        if ($data !~ s/\A\r\n//) {
            return (undef, undef, 'no line end after a chunk');
        }
    }

    1 while $trailers && $data =~ s/\A[^\r\n:]+:[^\n]*\r\n//;

    if ($data !~ s/\A\r\n//) {
        return (undef, undef, 'no line end after the last chunk');
    }

    return ($content, length $data ? $data : undef, undef);
}


# Checks.  Each runs as one subtest, or is skipped if nginx lacks something
# and the environment allows that.

sub check_unless ($$&) {
    my ($dry_run, $name, $check) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 2;

    SKIP: {
        Test::More::skip("$name - tests skipped due to $dry_run", 1)
            if $dry_run;

        $check->();
    }
}

# The value for one of several requests.
sub value_for ($$$$) {
    my ($name, $value, $i, $several) = @_;

    return ref $value eq 'ARRAY' ? $value->[$i] : $value
        if !$several || ref $value eq 'ARRAY';

    bail_out("$name - several requests need arrays of expected results");
}

sub check_error_code {
    my ($block, $res, $dry_run, $i, $several) = @_;

    my $name = $block->name;
    my $code = ($res && $res->{code}) || '';

    check_unless $dry_run, $name, sub {
        if (defined $block->error_code_like) {
            my $pattern = value_for($name, $block->error_code_like, $i,
                                    $several);
            Test::More::like($code, qr/$pattern/sm, "$name - status code ok");
            return;
        }

        my $expected = defined $block->error_code
            ? value_for($name, $block->error_code, $i, $several) : 200;

        Test::More::is($code, $expected, "$name - status code ok");
    };
}

sub check_raw_response_headers {
    my ($block, $raw, $dry_run, $i, $several) = @_;

    my $name = $block->name;

    if (defined(my $value = $block->raw_response_headers_like)) {
        my $pattern = value_for($name, canary($value), $i, $several);

        check_unless $dry_run, "$name - raw_response_headers_like", sub {
            Test::More::like($raw, qr/$pattern/s,
                             "$name - raw resp headers like");
        };
    }

    if (defined(my $value = $block->raw_response_headers_unlike)) {
        my $pattern = value_for($name, canary($value), $i, $several);

        check_unless $dry_run, "$name - raw_response_headers_unlike", sub {
            Test::More::unlike($raw, qr/$pattern/s,
                               "$name - raw resp headers unlike");
        };
    }
}

# Pairs of a name and a value, which is undefined for "! Name".  Of several
# lines with one name the last counts.
sub expected_headers ($) {
    my $text = shift // '';

    my (%value, @order);

    for my $line (split /\n/, $text) {
        $line =~ s/^\s+|\s+$//g;

        my ($key, $value);

        if ($line =~ s/^!\s*//) {
            $key = $line;

        } else {
            ($key, $value) = split /\s*:\s*/, $line, 2;
            $key //= '';
        }

        push @order, $key if !exists $value{$key};
        $value{$key} = $value;
    }

    return map { [$_, $value{$_}] } @order;
}

sub check_response_headers {
    my ($block, $res, $raw, $dry_run, $i, $several) = @_;

    my $name = $block->name;

    if (defined(my $text = $block->response_headers)) {
        $text = value_for($name, canary($text), $i, $several);

        for my $pair (expected_headers($text)) {
            my ($key, $value) = @$pair;

            check_unless $dry_run, "$name - response_headers", sub {
                if (!defined $value) {
                    Test::More::unlike($raw, qr/^\s*\Q$key\E\s*:/ms,
                        "$name - header $key not present in the raw headers");
                    return;
                }

                my $got = $res ? response_header($res, $key) : undef;
                Test::More::is($got // '', port_variables($value),
                               "$name - header $key ok");
            };
        }

    }

    if (defined(my $text = $block->response_headers_like)) {
        $text = value_for($name, canary($text), $i, $several);

        for my $pair (expected_headers($text)) {
            my ($key, $pattern) = @$pair;

            my $got = $res ? response_header($res, $key) : undef;
            $pattern //= '';

            check_unless $dry_run, "$name - response_headers_like", sub {
                Test::More::like($got // '', qr/^$pattern$/,
                                 "$name - header $key like ok");
            };
        }
    }
}

my %BodyFilters = (
    uc => sub { uc $_[0] },
    lc => sub { lc $_[0] },
    ucfirst => sub { ucfirst $_[0] },
    lcfirst => sub { lcfirst $_[0] },
    length => sub { length $_[0] },
    md5_hex => sub { require Digest::MD5; Digest::MD5::md5_hex($_[0]) },
    sha1_hex => sub { require Digest::SHA; Digest::SHA::sha1_hex($_[0]) },
);

sub transform_response_body {
    my ($block, $res, $i) = @_;

    my $filters = $block->response_body_filters;

    return if !$res || !defined $filters;

    my $name = $block->name;

    if (!ref $filters) {
        $filters = [split ' ', $filters];

    } elsif (ref $filters ne 'ARRAY') {
        $filters = [$filters];

    } elsif (ref $filters->[0] eq 'ARRAY') {
        $filters = $filters->[$i]
            // bail_out("$name - no response_body_filters for request $i");
    }

    for my $filter (@$filters) {
        my $code = ref $filter eq 'CODE' ? $filter : $BodyFilters{$filter}
            // bail_out("$name - unknown response body filter: $filter");

        $res->{content} = $code->($res->{content});
    }
}

sub sorted_json ($) {
    my $text = shift;

    require JSON::PP;
    my $json = JSON::PP->new->canonical(1)->loose(1);
    my $value = eval { $json->decode($text) };

    return defined $value ? $json->encode($value) . "\n" : $text;
}

sub check_response_body {
    my ($block, $res, $dry_run, $i, $repeat, $several) = @_;

    my $name = $block->name;
    my $content = $res ? $res->{content} : undef;

    if (defined(my $value = $block->response_body)) {
        my $expected = value_for($name, $value, $i, $several);
        my $text = "$name - response_body - response is expected "
                   . "(repeated req $repeat, req $i)";

        $expected = expand(port_variables($expected), $name);

        if (defined $block->response_body_json_sort) {
            $content = sorted_json($content // '');
        }

        check_unless $dry_run, "$name - response_body", sub {
            Test::Nginx::Util::is_str($content, $expected, $text);
        };

    }

    if (defined(my $value = $block->response_body_like)) {
        my $pattern = value_for($name, canary($value), $i, $several);
        $pattern = port_variables($pattern);

        check_unless $dry_run, "$name - response_body_like", sub {
            Test::More::like($content // '', qr/$pattern/s,
                "$name - response_body_like - response is expected");
        };

    }

    if (defined(my $value = $block->response_body_unlike)) {
        my $pattern = value_for($name, canary($value), $i, $several);
        $pattern = port_variables($pattern);

        check_unless $dry_run, "$name - response_body_unlike", sub {
            Test::More::unlike($content // '', qr/$pattern/s,
                "$name - response_body_unlike - response is expected");
        };
    }

    for my $check (@ResponseBodyChecks) {
        $check->($block, $content, $i, $repeat, $dry_run);
    }
}


# Logs.

sub printable ($) {
    my $text = shift;

    chomp $text;
    $text =~ s/"/\\"/g;
    $text =~ s/\r/\\r/g;
    $text =~ s/\n/\\n/g;
    return $text;
}

# Patterns as written in a section: lines of literal text, one regular
# expression, or an array of both.
sub log_patterns ($) {
    my $value = canary(shift);

    if (!ref $value) {
        chomp $value;
        return split /\n+/, $value;
    }

    return ref $value eq 'ARRAY' ? grep { defined } @$value : ($value);
}

sub matches ($$) { goto &Test::Nginx::Util::line_matches }

sub check_present {
    my ($value, $lines, $dry_run, $label, $file, $suffix) = @_;

    for my $pattern (log_patterns($value)) {
        check_unless $dry_run, $label, sub {
            my $found = grep { matches($_, $pattern) } @{$lines->()};

            Test::More::ok($found,
                "$label - pattern \"$pattern\" "
                . ($found ? 'matches' : 'should match')
                . " a line in $file$suffix");
        };
    }
}

sub check_absent {
    my ($value, $lines, $dry_run, $label, $file, $suffix) = @_;

    for my $pattern (log_patterns($value)) {
        check_unless $dry_run, $label, sub {
            my @all = @{$lines->()};
            my ($at) = grep { matches($all[$_], $pattern) } 0 .. $#all;
            my $shown = printable($pattern);

            if (!defined $at) {
                Test::More::pass("$label - pattern \"$shown\" does not match "
                                 . "a line in $file$suffix");
                return;
            }

            Test::More::fail("$label - pattern \"$shown\" should not match "
                             . "any line in $file but matches line \""
                             . printable($all[$at]) . "\"$suffix");

            my $last = $at + 10 < $#all ? $at + 10 : $#all;
            Test::More::diag($_) for @all[$at + 1 .. $last];
        };
    }
}

sub check_access_log {
    my ($block, $dry_run, $repeat) = @_;

    my $name = $block->name;
    my $data;
    my $lines = sub { $data //= Test::Nginx::Util::access_log_data() };

    if (defined $block->access_log) {
        check_present($block->access_log, $lines, $dry_run,
                      $name, 'access.log', " (req $repeat)");
    }

    if (defined $block->no_access_log) {
        check_absent($block->no_access_log, $lines, $dry_run,
                     $name, 'access.log', " (req $repeat)");
    }
}

sub check_error_log {
    my ($block, $res, $dry_run, $repeat, $several) = @_;

    my $name = $block->name;
    my ($log, $data);
    my $log_lines = sub { $log //= Test::Nginx::Util::error_log_data() };

    # A failed start is also reported on the standard error of nginx.
    my $lines = sub {
        $data //= [@{$log_lines->()},
                   defined $block->must_die
                   ? @{Test::Nginx::Util::stderr_data()} : ()];
    };

    my $grep = canary($block->grep_error_log);
    my $grep_out = $block->grep_error_log_out;

    if (defined $grep xor defined $grep_out) {
        bail_out("$name - grep_error_log and grep_error_log_out "
                 . "go together");
    }

    $grep = $grep->[$repeat] if ref $grep eq 'ARRAY';

    if (defined $grep) {
        my $expected = expand($grep_out, $name);
        $expected = $expected->[$repeat] if ref $expected eq 'ARRAY';

        check_unless $dry_run, "$name - grep_error_log", sub {
            my $pattern = ref $grep ? $grep : qr/\Q$grep\E/;
            my $found = '';

            for my $line (@{$lines->()}) {
                next if $line !~ /($pattern)/ || $1 =~ /\n/;
                $found .= "$1\n";
            }

            Test::Nginx::Util::is_str($found, $expected,
                "$name - grep_error_log_out (req $repeat)");
        };
    }

    my $suffix = " (req $repeat)";

    if (defined $block->error_log) {
        check_present($block->error_log, $lines, $dry_run,
                      $name, 'error.log', $suffix);
    }

    if (defined $block->no_error_log) {
        check_absent($block->no_error_log, $lines, $dry_run,
                     $name, 'error.log', $suffix);
    }

    return if $dry_run;

    my @mentioned = map { Test::Nginx::Util::patterns_of($_) }
                        $block->error_log, $block->no_error_log;

    for my $level (qw(alert crit emerg)) {
        next if grep { /\Q[$level\E/ || /\Q\\[$level\E/ } @mentioned;

        for my $line (grep { /\[$level\]/ } @{$log_lines->()}) {
            warn "WARNING: $name - ", printable($line), "\n";
        }
    }

    for my $line (grep { /\bAssertion .*?failed\b/ } @{$log_lines->()}) {
        extra_fail("$name - " . printable($line));
    }
}

sub check_shutdown_error_log {
    my ($block, $dry_run) = @_;

    my $name = $block->name;
    my $data;
    my $lines = sub { $data //= Test::Nginx::Util::error_log_data() };

    $dry_run = 'the running nginx' if $dry_run;

    if (defined $block->shutdown_error_log) {
        check_present($block->shutdown_error_log, $lines, $dry_run,
                      $name, 'error.log', '');
    }

    if (defined $block->no_shutdown_error_log) {
        check_absent($block->no_shutdown_error_log, $lines, $dry_run,
                     $name, 'error.log', '');
    }
}


# One run of all requests of a block.

sub run_test_helper {
    my ($block, $dry_run, $repeat) = @_;

    my $name = $block->name;
    my @requests = requests_of_block($block);
    my $timeout = Test::Nginx::Util::parse_time($block->timeout)
                  // Test::Nginx::Util::timeout();

    my $pipelined = $block->pipelined_requests;
    my $wait = Test::Nginx::Util::parse_time($block->wait);
    my $ignore = defined $block->ignore_response;
    my $several = @requests > 1 || $pipelined;

    # A response for each request, or several on one connection.
    my $count = $pipelined ? @$pipelined : @requests;
    my ($raw, $head, $res);

    for my $i (0 .. $count - 1) {
        if ($i == 0 || !$pipelined) {
            my $packets = $requests[$i];

            $head = join('', map { $_->{value} } @$packets) =~ /^\s*HEAD\s/;

            if ($dry_run) {
                $raw = "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n";

            } elsif (defined $block->http2) {
                $raw = send_by_curl($block, $packets, $timeout);

            } else {
                $raw = send_request($block, $packets, $timeout);
            }

            warn "$name - response: [$raw]\n" if $Test::Nginx::Util::Verbose;
            push @Test::Nginx::Util::Responses, $raw if !$dry_run;
        }

        if (!$ignore) {
            my ($raw_headers, $left) = ('');

            if (defined $block->http09) {
                $res = { code => 200, headers => {}, content => $raw };

            } else {
                ($res, $raw_headers, $left) = parse_response($name, $raw,
                                                             $head);
            }

            if ($res && !$dry_run) {
                # A token cut in two by chunks is whole only here.
                push @Test::Nginx::Util::Responses, $res->{content};
            }

            if ($pipelined) {
                $raw = $left // '';
            }

            if (defined $left && (!$pipelined || $i == $count - 1)) {
                warn "WARNING: $name - unexpected extra bytes after the "
                     . 'response: ' . length($left) . "\n";
            }

            check_error_code($block, $res, $dry_run, $i, $several);
            check_raw_response_headers($block, $raw_headers, $dry_run, $i,
                                       $several);
            check_response_headers($block, $res, $raw_headers, $dry_run, $i,
                                   $several);
            transform_response_body($block, $res, $i);
            check_response_body($block, $res, $dry_run, $i, $repeat,
                                $several);
        }

        sleep $wait if $wait;
        check_error_log($block, $res, $dry_run, $repeat, $several);
        check_access_log($block, $dry_run, $repeat) if !$ignore;
    }
}

1;

__END__

=head1 NAME

Test::Nginx::Socket - data-driven tests of nginx

=head1 SYNOPSIS

    use lib 't/lib';
    use Test::Nginx::Socket 'no_plan';

    run_tests();

    __DATA__

    === TEST 1: a fixed answer
    --- config
        location = /t {
            return 200 "ok\n";
        }
    --- request
    GET /t
    --- response_body
    ok
    --- no_error_log
    [error]

=head1 DESCRIPTION

A runner for the test files in F<t/>. It understands a subset of the language
of the well-known module of the same name, and adds no words to it: a test
file that passes here passes there, too, when F<t/lib> is taken off the search
path. It needs perl, Test::Base, nginx, and, for better messages,
Test::LongString and Text::Diff.

Each block of a file gets a new nginx, whose files are in F<t/servroot>. The
configuration is made of the parts C<main_config>, C<http_config>, C<config>
(inside C<server>) and C<post_main_config>, in the order in which they stand in
F<t/servroot/conf/nginx.conf>. Blocks run in random order unless the file
calls C<no_shuffle()>.

=head2 Sections

Configuration: C<config>, C<http_config>, C<main_config>, C<post_main_config>,
C<server_name>, C<user_files>, C<error_log_file>, C<log_level>,
C<post_setup_server_root>, C<init>.

Request: C<request>, C<more_headers>, C<raw_request>,
C<raw_request_middle_delay>, C<pipelined_requests>, C<http09>, C<http2>,
C<curl_options>, C<curl_protocol>, C<timeout>, C<abort>, C<shutdown>, C<wait>,
C<server_addr_for_client>.

Assertions: C<error_code>, C<error_code_like>, C<response_headers>,
C<response_headers_like>, C<raw_response_headers_like>,
C<raw_response_headers_unlike>, C<response_body>, C<response_body_like>,
C<response_body_unlike>, C<response_body_filters>,
C<response_body_json_sort>, C<ignore_response>, C<error_log>,
C<no_error_log>, C<grep_error_log>, C<grep_error_log_out>, C<access_log>,
C<no_access_log>, C<shutdown_error_log>, C<no_shutdown_error_log>,
C<must_die>, C<suppress_stderr>.

Fake TCP peer: C<tcp_listen>, C<tcp_reply>, C<tcp_reply_delay>, C<tcp_query>,
C<tcp_query_len>, C<tcp_query_auto_timeout>, C<tcp_shutdown>,
C<tcp_shutdown_delay>, C<tcp_no_close>.

Control: C<ONLY>, C<SKIP>, C<skip_nginx>, C<skip_nginx2>, C<skip_openssl>,
C<skip_eval>, C<todo>, C<todo_nginx>.

Under the original only the first section of a kind that a block has is looked
at: C<response_headers> before C<response_headers_like>; C<response_body> before
C<response_body_like> before C<response_body_unlike>. Here all are. A block with
one of each kind tests the same under both.

With several requests the logs are looked at after each of them, and each time
only what is new, unless the file calls C<check_accum_error_log()>. Then a
pattern must match after the first request already; C<pipelined_requests> are
all answered before that.

=head2 Not supported

Reloading instead of restarting (C<use_hup()> does nothing, C<reload_fails> is
ignored), SystemTap, leak and speed measurements, HTTP/3, fake UDP peers, and
the sections for stream servers driven from Lua. A block with C<udp_listen>,
C<http3> or one of the stream sections ends the run, rather than pass
without having been tested.

=head2 Environment

C<TEST_NGINX_BINARY>, C<_LOAD_MODULES>, C<_SERVROOT>, C<_PORT>,
C<_SERVER_PORT>, C<_CLIENT_PORT>, C<_RANDOMIZE>, C<_SLEEP>, C<_TIMEOUT>,
C<_NO_SHUFFLE>, C<_FORCE_RESTART_ON_TEST>, C<_NO_NGINX_MANAGER>, C<_NO_CLEAN>,
C<_VERBOSE>, C<_LOG_LEVEL>, C<_MASTER_PROCESS>, C<_EVENT_TYPE>,
C<_POSTPONE_OUTPUT>, C<_REUSE_PORT>, C<_LD_PRELOAD>, C<_WORKER_USER>,
C<_IGNORE_MISSING_DIRECTIVES>, C<_FAST_SHUTDOWN>, C<_CHECK_ACCUM_ERR_LOG>,
C<_USE_VALGRIND>, C<_VALGRIND_EXIT_ON_FIRST_ERR>. C<TEST_NGINX_SERVER_ROOT>
is set for the test files.

With C<TEST_NGINX_RANDOMIZE=1> each file has its own port and its own
servroot, so several can run at once:

    TEST_NGINX_RANDOMIZE=1 prove -j8 -r t

C<$TEST_NGINX_NAME> is expanded in the configuration sections, C<user_files>,
C<error_log_file>, C<tcp_listen>, C<pipelined_requests>, C<response_body> and
C<grep_error_log_out>, and nowhere else. C<$TEST_NGINX_RAND_PORT_1> and so on
are free ports, the same within a block.

=head2 Two stricter modes

Both are off unless the environment asks for them, and both only ever add
failures.

C<TEST_NGINX_STRICT_LOG=1>: after nginx has stopped, any line of level
C<alert>, C<crit> or C<emerg> in the error log fails, unless a pattern in
C<error_log>, C<grep_error_log> or C<shutdown_error_log> matches that line;
C<emerg> is expected in a C<must_die> block. So do reports of sanitizers in the
error log or in F<logs/stderr.log>, the standard error of nginx.

C<TEST_NGINX_CANARY_SCAN=1>: after nginx has stopped, all files in the
servroot except those in F<conf> and F<html>, and all responses, are searched
for the value of C<TEST_NGINX_CANARY>, as it is, in hexadecimal, in base64 at
each alignment, and percent-encoded. A file whose name matches
C</upstream.*\.log$/> is left out: it is the record of the upstream for which
the value was meant.

C<TEST_NGINX_CANARY> is chosen at random if it is not set. It is expanded
as above and also in C<request>, C<raw_request>, C<more_headers>, and the
sections with patterns and headers. To have it in a request or in such a section
of a file that is to run under the original module as well, write the section
with the C<eval> filter and C<$ENV{TEST_NGINX_CANARY}>, and set the variable
outside.

=cut
