
/*
 * Copyright (C) the nginx egress gateway authors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_egress.h>


ngx_str_t  ngx_egress_class_names[] = {
    ngx_null_string,
    ngx_string("read"),
    ngx_string("write"),
    ngx_string("unknown")
};


ngx_str_t  ngx_egress_vias[] = {
    ngx_string("direct"),
    ngx_string("base_url"),
    ngx_string("tls"),
    ngx_string("connect"),
    ngx_string("socks5")
};


/* in the order of the constants; DESIGN 6.6, and RFC 9209, 2.3 for errors */

ngx_egress_reason_t  ngx_egress_reasons[] = {

    { ngx_string("allowed"),
      ngx_null_string,
      ngx_null_string,
      ngx_null_string,
      0 },

    { ngx_string("write_refused"),
      ngx_string("http_request_denied"),
      ngx_string("write refused, this binding is read-only"),
      ngx_string("Only reads are allowed here. Ask a person to make this "
                 "change, or the operator for write access."),
      403 },

    { ngx_string("class_unknown"),
      ngx_string("http_request_denied"),
      ngx_string("the request could not be told to be a read"),
      ngx_string("Only requests that are known to be reads are allowed. "
                 "The operator can add a read rule for it."),
      403 },

    { ngx_string("method_refused"),
      ngx_string("http_request_denied"),
      ngx_string("the method, or a field or parameter that overrides it, "
                 "is refused"),
      ngx_string("Send the method that is meant, without method override "
                 "fields or a _method parameter."),
      403 },

    { ngx_string("path_refused"),
      ngx_string("http_request_denied"),
      ngx_string("the path could be read in more than one way"),
      ngx_string("Send a path without empty or dot segments, backslashes "
                 "and needless percent-encoding."),
      403 },

    { ngx_string("rule_refused"),
      ngx_string("http_request_denied"),
      ngx_string("refused by a rule of the binding or of the role"),
      ngx_string("The operator has refused this path. Nothing that is sent "
                 "differently will change it."),
      403 },

    { ngx_string("repo_refused"),
      ngx_string("http_request_denied"),
      ngx_string("the repository is not on the list of this binding"),
      ngx_string("Only the repositories that the operator has listed can be "
                 "used here."),
      403 },

    { ngx_string("repo_unknown"),
      ngx_string("http_request_denied"),
      ngx_string("the request does not tell which repository it is for"),
      ngx_string("Ask for what is wanted below one of the repositories that "
                 "the operator has listed."),
      403 },

    { ngx_string("tool_refused"),
      ngx_string("http_request_denied"),
      ngx_string("this tool is not on the list of this binding"),
      ngx_string("Only the tools that the operator has listed can be "
                 "called."),
      403 },

    { ngx_string("binding_refused"),
      ngx_string("http_request_denied"),
      ngx_string("this binding is not for this role"),
      ngx_string("The operator can add the binding to a use directive of "
                 "the role."),
      403 },

    { ngx_string("sandbox_unknown"),
      ngx_string("http_request_denied"),
      ngx_string("the sandbox is not known, or its token is wrong"),
      ngx_string("Check the name and the token in the proxy settings. The "
                 "sandbox may have been removed by the operator."),
      403 },

    { ngx_string("sandbox_expired"),
      ngx_string("http_request_denied"),
      ngx_string("the time of this sandbox is over"),
      ngx_string("The operator can give the sandbox a later end."),
      403 },

    { ngx_string("sandbox_revoked"),
      ngx_string("http_request_denied"),
      ngx_string("the sandbox was removed or changed since this connection "
                 "was made"),
      ngx_string("Connect again: where the sandbox is still there, it is "
                 "known as it is now."),
      403 },

    { ngx_string("upgrade_refused"),
      ngx_string("http_request_denied"),
      ngx_string("a change of protocols is not allowed here"),
      ngx_string("WebSocket is off for this binding. The operator can set "
                 "upgrade on."),
      403 },

    { ngx_string("credential_missing"),
      ngx_string("http_request_denied"),
      ngx_string("the credential of this binding has been removed"),
      ngx_string("Access was cut off by the operator. Trying again does not "
                 "help until the operator restores it."),
      403 },

    { ngx_string("credential_expired"),
      ngx_string("http_request_denied"),
      ngx_string("the credential of this binding is too old"),
      ngx_string("The operator must renew the secret file: it is older than "
                 "the ttl of the binding."),
      403 },

    { ngx_string("foreign_credential"),
      ngx_string("http_request_denied"),
      ngx_string("a credential of the client's own is refused"),
      ngx_string("Send the placeholder of this binding, or no credential."),
      403 },

    { ngx_string("auth_loop"),
      ngx_string("http_request_denied"),
      ngx_string("the same request was answered 401 again and again"),
      ngx_string("The service does not accept this credential. Stop trying "
                 "and ask the operator."),
      403 },

    { ngx_string("host_mismatch"),
      ngx_string("http_request_error"),
      ngx_string("the request names another host than the TLS handshake, "
                 "or one that is not bound"),
      ngx_string("Open a new connection for each host and let the client set "
                 "the Host field."),
      421 },

    { ngx_string("malformed_request"),
      ngx_string("http_request_error"),
      ngx_string("the request is malformed"),
      ngx_string("The request breaks a rule of HTTP. Check the client."),
      400 },

    { ngx_string("body_too_large"),
      ngx_string("http_request_error"),
      ngx_string("the request body is too large"),
      ngx_string("Send a smaller body."),
      413 },

    { ngx_string("body_unsupported"),
      ngx_string("http_request_error"),
      ngx_string("the body is encoded in a way that can't be looked into"),
      ngx_string("Send the body as UTF-8, without Content-Encoding."),
      415 },

    { ngx_string("proxy_auth_required"),
      ngx_string("http_request_denied"),
      ngx_string("the gateway needs the name and token of the sandbox"),
      ngx_string("Put the sandbox and its token into the proxy address: "
                 "http://sandbox:token@gateway:3128."),
      407 },

    { ngx_string("destination_refused"),
      ngx_string("http_request_denied"),
      ngx_string("this host or port is not allowed"),
      ngx_string("Only bound and allowed hosts can be reached. The operator "
                 "can add the host to an allow_host directive."),
      403 },

    { ngx_string("plain_http"),
      ngx_string("http_request_denied"),
      ngx_string("plain HTTP is refused, only HTTPS goes out"),
      ngx_string("Use an https:// address."),
      403 },

    { ngx_string("address_refused"),
      ngx_string("destination_ip_prohibited"),
      ngx_string("the host has no address that may be connected to"),
      ngx_string("Private and special addresses are refused. The operator "
                 "can lift a range with allow_private."),
      502 },

    { ngx_string("loop"),
      ngx_string("proxy_loop_detected"),
      ngx_string("the request has passed this gateway before"),
      ngx_string("The next hop leads back to the gateway. The operator must "
                 "correct the upstream of this binding."),
      502 },

    { ngx_string("secret_unreadable"),
      ngx_string("proxy_internal_error"),
      ngx_string("the credential of this binding could not be read"),
      ngx_string("The operator must repair the secret file. The error log of "
                 "the gateway tells what is wrong with it."),
      503 },

    { ngx_string("audit_unavailable"),
      ngx_string("proxy_internal_error"),
      ngx_string("the audit record could not be written"),
      ngx_string("Nothing is sent without a record. The operator must make "
                 "room for the audit log."),
      503 },

    { ngx_string("limit_reached"),
      ngx_string("connection_limit_reached"),
      ngx_string("too many connections or large requests of this sandbox at "
                 "one time"),
      ngx_string("Wait for others to end, then try again."),
      503 },

    { ngx_string("dns_error"),
      ngx_string("dns_error"),
      ngx_string("the name of the host could not be resolved"),
      ngx_string("Check the name. The operator can check the resolver."),
      502 },

    { ngx_string("dns_timeout"),
      ngx_string("dns_timeout"),
      ngx_string("the resolver did not answer in time"),
      ngx_string("Try again later. The operator can check the resolver."),
      504 },

    { ngx_string("connection_refused"),
      ngx_string("connection_refused"),
      ngx_string("the next hop did not accept the connection"),
      ngx_string("Try again later."),
      502 },

    { ngx_string("connection_timeout"),
      ngx_string("connection_timeout"),
      ngx_string("the connection to the next hop timed out"),
      ngx_string("Try again later."),
      504 },

    { ngx_string("connection_read_timeout"),
      ngx_string("connection_read_timeout"),
      ngx_string("the next hop did not answer in time"),
      ngx_string("Try again later, or ask for less at once."),
      504 },

    { ngx_string("connection_terminated"),
      ngx_string("connection_terminated"),
      ngx_string("the next hop closed the connection"),
      ngx_string("Try again later."),
      502 },

    { ngx_string("tls_certificate_error"),
      ngx_string("tls_certificate_error"),
      ngx_string("the certificate of the next hop was not accepted"),
      ngx_string("Nothing was sent. The operator must check the upstream and "
                 "trusted_certificate."),
      502 },

    { ngx_string("tls_alert_received"),
      ngx_string("tls_alert_received"),
      ngx_string("the next hop refused the TLS handshake"),
      ngx_string("The operator must check the upstream of this binding."),
      502 },

    { ngx_string("tls_protocol_error"),
      ngx_string("tls_protocol_error"),
      ngx_string("the TLS handshake with the next hop failed"),
      ngx_string("The operator must check the upstream of this binding."),
      502 },

    { ngx_string("http_protocol_error"),
      ngx_string("http_protocol_error"),
      ngx_string("the answer of the next hop could not be accepted"),
      ngx_string("The operator must check the upstream of this binding."),
      502 },

    { ngx_string("http_response_incomplete"),
      ngx_string("http_response_incomplete"),
      ngx_string("the next hop closed the connection within its response"),
      ngx_string("Try again later."),
      502 },

    { ngx_string("http_upgrade_failed"),
      ngx_string("http_upgrade_failed"),
      ngx_string("the next hop changed protocols without being asked"),
      ngx_string("Nothing that follows was passed on. The operator must check "
                 "the upstream of this binding."),
      502 }
};
