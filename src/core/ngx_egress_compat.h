
/*
 * Copyright (C) the nginx egress gateway authors
 */


#ifndef _NGX_EGRESS_COMPAT_H_INCLUDED_
#define _NGX_EGRESS_COMPAT_H_INCLUDED_


/*
 * Where the nginx API differs between the supported versions, 1.22.1 to
 * 1.31, the difference is named here, and only here.
 */


/* 1.23.0: repeated headers are linked by "next" */

#if (nginx_version >= 1023000)
#define ngx_egress_header_last(h)  (h)->next = NULL
#else
#define ngx_egress_header_last(h)
#endif


/* 1.25.0: QUIC listeners */

#if (NGX_HTTP_V3)
#define ngx_egress_listens_quic(opt)  (opt)->quic
#else
#define ngx_egress_listens_quic(opt)  0
#endif


#endif /* _NGX_EGRESS_COMPAT_H_INCLUDED_ */
