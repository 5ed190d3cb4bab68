# The egress gateway.  "make demo" and "make test" are all that is needed on a
# fresh Debian 12 or 13: both install, as root or by sudo, what they need.

SHELL = /bin/bash

BUILD = build
NGINX_SRC = /usr/share/nginx/src
STREAM_MODULE = /usr/lib/nginx/modules/ngx_stream_module.so

PACKAGES = nginx nginx-dev libnginx-mod-stream libyajl-dev libssl-dev \
	libpcre2-dev zlib1g-dev gcc libc6-dev make clang libclang-rt-dev \
	cppcheck perl libtest-base-perl libtest-longstring-perl \
	libtext-diff-perl openssl ca-certificates curl git python3 \
	fcgiwrap procps iproute2 nftables gh git-lfs skopeo python3-pip \
	bubblewrap python3-yaml

HTTP_SO = $(BUILD)/modules/ngx_http_egress_module.so
STREAM_SO = $(BUILD)/modules/ngx_stream_egress_module.so

SOURCES = config $(wildcard src/*/*.c src/*/*.h)

TESTS = t
PROVE = prove -It/lib -r

ROOT = $(CURDIR)

# where Debian has nginx, for those who are not root

export PATH := $(PATH):/usr/sbin:/sbin

# the flags of the distribution's own build, where they can be told

CC_OPT := $(or $(shell dpkg-buildflags --get CFLAGS 2> /dev/null) \
	$(shell dpkg-buildflags --get CPPFLAGS 2> /dev/null),-g -O2) -fPIC
LD_OPT := $(shell dpkg-buildflags --get LDFLAGS 2> /dev/null) -Wl,-z,now

# changes with the headers that we build against, and with this directory, whose
# name is in the Makefile that nginx writes

NGINX_ID := $(shell { echo $(ROOT); ls -lR --time-style=full-iso \
	$(NGINX_SRC)/src $(NGINX_SRC)/conf_flags 2> /dev/null; } | cksum)


.PHONY: all deps demo test check check-presets bench fuzz install static asan \
	clean test-static FORCE


all: $(HTTP_SO)

$(BUILD)/nginx.id: FORCE
	@mkdir -p $(BUILD)
	@echo "$(NGINX_ID)" | cmp -s - $@ || echo "$(NGINX_ID)" > $@

$(BUILD)/nginx/objs/Makefile: config $(BUILD)/nginx.id
	@if [ ! -f $(NGINX_SRC)/conf_flags ]; then \
	    echo "$(NGINX_SRC) is missing: run \"make deps\" (Debian 12, 13)," \
	         "or build into an nginx source tree of your own:" \
	         "make static NGINX_SRC=DIR" >&2; exit 1; fi
	rm -rf $(BUILD)/nginx
	cp -r $(NGINX_SRC) $(BUILD)/nginx
	cd $(BUILD)/nginx && . ./conf_flags \
	    && ./configure "$${NGX_CONF_FLAGS[@]}" \
	       --add-dynamic-module=$(ROOT) \
	       --with-cc-opt="$(CC_OPT)" --with-ld-opt="$(LD_OPT)" \
	       > configure.log || { tail -n 20 configure.log; exit 1; }

$(HTTP_SO): $(BUILD)/nginx/objs/Makefile $(SOURCES)
	$(MAKE) -s -C $(BUILD)/nginx -f objs/Makefile modules
	mkdir -p $(BUILD)/modules
	@# to new files: a running nginx has the old ones mapped
	cp --remove-destination $(BUILD)/nginx/objs/ngx_http_egress_module.so \
	   $(BUILD)/nginx/objs/ngx_stream_egress_module.so $(BUILD)/modules/


# installs packages; services that come with them are not started

deps:
	@util/deps.sh $(PACKAGES)


demo: deps
	@$(MAKE) -s all
	@conf-examples/quickstart/demo.sh


test: deps
	@$(MAKE) -s all
	TEST_NGINX_LOAD_MODULES="$(STREAM_MODULE) $(ROOT)/$(HTTP_SO) \
	$(ROOT)/$(STREAM_SO)" TEST_NGINX_STRICT_LOG=1 TEST_NGINX_RANDOMIZE=1 \
	TEST_NGINX_CANARY_SCAN=1 EGRESS_BUILD=$(BUILD) \
	EGRESS_NGINX_SRC=$(BUILD)/nginx $(PROVE) $(TESTS)


# the same suite with an nginx that has the modules within; not NGINX=, which
# nginx itself would take for sockets that it is to inherit

test-static:
	TEST_NGINX_BINARY=$(STATIC) TEST_NGINX_UPSTREAM_BINARY=$$(which nginx) \
	TEST_NGINX_LOAD_MODULES= \
	TEST_NGINX_STRICT_LOG=1 TEST_NGINX_RANDOMIZE=1 \
	TEST_NGINX_CANARY_SCAN=1 \
	EGRESS_BUILD=$(BUILD) EGRESS_NGINX_SRC=$(BUILD)/nginx \
	$(PROVE) $(TESTS)


check: $(BUILD)/nginx/objs/Makefile
	util/style.pl src t/unit t/fuzz t/bench
	util/lint.sh $(BUILD)/nginx
	@$(MAKE) -s check-presets


check-presets:
	util/check-presets.pl conf-examples/bindings/*.conf


bench: all
	t/bench/run.py


fuzz: all
	EGRESS_BUILD=$(BUILD) EGRESS_NGINX_SRC=$(BUILD)/nginx \
	EGRESS_FUZZ_RUNS=$${RUNS:-1000000} prove -v t/fuzz.t


install: all
	@util/install.sh $(BUILD)/modules "$(DESTDIR)"


# into an nginx source tree: make static NGINX_SRC=DIR

static:
	@[ -f $(NGINX_SRC)/auto/configure ] || { \
	    echo "make static NGINX_SRC=DIR: no nginx source tree" >&2; exit 1; }
	cd $(NGINX_SRC) && auto/configure --with-debug --with-http_ssl_module \
	    --with-http_v2_module --with-http_auth_request_module \
	    --with-stream --with-stream_ssl_module \
	    --with-stream_ssl_preread_module --add-module=$(ROOT) \
	    $(CONFIGURE) > configure.log \
	    || { tail -n 20 configure.log; exit 1; }
	$(MAKE) -s -C $(NGINX_SRC)


# a static nginx with sanitizers from the distribution's source package

asan:
	util/asan.sh $(BUILD)/asan


clean:
	rm -rf $(BUILD) t/servroot*
