
/*
 * Copyright (C) the nginx egress gateway authors
 */


/*
 * Times the inspectors of bodies, without any of nginx around them: bodies of
 * 1 MiB, and of 4 MiB to show that the cost grows with the length.  Prints the
 * best of several rounds by processor time.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <time.h>
#include "ngx_egress_body.h"


#define PARSE_SIZE    (1 << 20)
#define PARSE_ROUNDS  15
#define PARSE_TARGET  300       /* MB/s */


typedef struct {
    const char  *name;
    const char  *head;
    const char  *part;          /* over and over */
    const char  *tail;
    ngx_int_t    want;
    ngx_uint_t   json_rpc;
} parse_kind_t;


static double parse_time(parse_kind_t *kind, size_t size);
static ngx_int_t parse_body(parse_kind_t *kind, ngx_str_t *body);
static double parse_now(void);


static parse_kind_t  kinds[] = {

    { "graphql, a long string variable",
      "{\"query\":\"query A($x:S){a(x:$x){id}}\",\"variables\":{\"x\":\"",
      "The quick brown fox jumps over the lazy dog, again and again. ",
      "\"}}", NGX_OK, 0 },

    { "graphql, a long indented document",
      "{\"query\":\"query A {\\n",
      "  repository(owner: $owner, name: $name) {\\n    id\\n    name\\n"
      "    description\\n    owner { login }\\n  }\\n",
      "}\"}", NGX_OK, 0 },

    { "graphql, comments",
      "{\"query\":\"{a}",
      "# nothing of this is executed, and all of it is skipped\\n",
      "\"}", NGX_OK, 0 },

    { "graphql, many variables",
      "{\"query\":\"{a}\",\"variables\":{",
      "\"name\":\"a value of some length\",\"number\":12345,\"flag\":true,",
      "\"last\":null}}", NGX_OK, 0 },

    { "graphql, many operations",
      "{\"query\":\"", "query A{a}", "\"}", NGX_OK, 0 },

    { "graphql, deep selections (refused)",
      "{\"query\":\"", "{a", "\"}", NGX_DECLINED, 0 },

    { "graphql, deep JSON (refused)",
      "{\"query\":\"{a}\",\"variables\":", "{\"a\":", "1", NGX_DECLINED, 0 },

    { "json_rpc, a long argument",
      "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":"
      "{\"name\":\"search\",\"arguments\":{\"text\":\"",
      "The quick brown fox jumps over the lazy dog, again and again. ",
      "\"}}}", NGX_OK, 1 },

    { NULL, NULL, NULL, NULL, 0, 0 }
};


int
main(int argc, char *const *argv)
{
    double         one, four, rate;
    parse_kind_t  *kind;

    printf("%-36s %10s %10s %8s\n", "inspected body", "MB/s", "target",
           "4 times");

    for (kind = kinds; kind->name; kind++) {

        one = parse_time(kind, PARSE_SIZE);
        four = parse_time(kind, 4 * PARSE_SIZE);

        rate = PARSE_SIZE / one / 1e6;

        if (kind->want != NGX_OK) {

            /* it ends at the limit, however long the rest is */

            printf("%-36s %8.3f ms\n", kind->name, one * 1e3);
            continue;
        }

        printf("%-36s %10.0f %10d %8.2f  %s\n", kind->name, rate,
               PARSE_TARGET, four / one,
               rate >= PARSE_TARGET ? "met" : "not met");
    }

    return 0;
}


static double
parse_time(parse_kind_t *kind, size_t size)
{
    int        i;
    double     best, took;
    size_t     head, part, tail;
    u_char    *p;
    ngx_str_t  body;

    head = strlen(kind->head);
    part = strlen(kind->part);
    tail = strlen(kind->tail);

    body.data = malloc(size + head + part + tail);
    if (body.data == NULL) {
        exit(1);
    }

    p = body.data;
    memcpy(p, kind->head, head);
    p += head;

    while ((size_t) (p - body.data) + part + tail <= size) {
        memcpy(p, kind->part, part);
        p += part;
    }

    memcpy(p, kind->tail, tail);
    body.len = p + tail - body.data;

    best = 1e9;

    for (i = 0; i < PARSE_ROUNDS; i++) {

        took = parse_now();

        if (parse_body(kind, &body) != kind->want) {
            fprintf(stderr, "parse: another verdict: %s\n", kind->name);
            exit(1);
        }

        took = parse_now() - took;

        if (took < best) {
            best = took;
        }
    }

    free(body.data);

    return best;
}


static ngx_int_t
parse_body(parse_kind_t *kind, ngx_str_t *body)
{
    ngx_str_t                tool;
    ngx_array_t              tools;
    ngx_egress_body_t        b;
    ngx_egress_body_field_t  none;

    if (!kind->json_rpc) {
        return ngx_egress_graphql_body(body, &b);
    }

    ngx_str_set(&tool, "search");

    memset(&tools, 0, sizeof(ngx_array_t));
    memset(&none, 0, sizeof(ngx_egress_body_field_t));

    tools.elts = &tool;
    tools.nelts = 1;

    return ngx_egress_json_rpc_body(body, &tools, 0, &none, &none, &b);
}


static double
parse_now(void)
{
    struct timespec  ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);

    return ts.tv_sec + ts.tv_nsec / 1e9;
}
