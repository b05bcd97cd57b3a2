# The everyday commands. They wrap meson and tests/run; `make` alone lists them.
#
# PREFIX, DESTDIR: where `make install` puts things.  ARGS: options of `krait serve` for `make run`.
# CI=true: warnings are errors, pages that do not build are too, and a test that would be skipped fails.

SHELL := /bin/bash
.DEFAULT_GOAL := help

PREFIX ?= /usr/local
DESTDIR ?=
ARGS ?=
BUILD := build

# By absolute path: another Python in front of PATH must not choose the headers, nor run the build.
MESON := /usr/bin/meson
NINJA := /usr/bin/ninja
PYTHON := /usr/bin/python3

# Debian packages, each in the first list that needs it. `make run` needs the first three, `make test` and `make bench` all. Those of the
# web pages are asked for only where no npm is found, and without them the program is built with plain pages.
PACKAGES_BUILD := gcc libc6-dev meson ninja-build pkg-config python3 python3-dev \
	libuv1-dev libjansson-dev libseccomp-dev libcap-dev libsqlite3-dev libsodium-dev zlib1g-dev libssl-dev
PACKAGES_WEB = $(if $(shell command -v npm),,nodejs npm)
PACKAGES_RUN := python3-numpy python3-pandas python3-scipy python3-matplotlib python3-seaborn python3-sklearn \
	python3-statsmodels python3-plotly python3-sympy python3-pil python3-openpyxl python3-httpx python3-requests \
	python3-aiohttp python3-websocket fonts-droid-fallback fonts-wqy-microhei ca-certificates btrfs-progs \
	python3-pip git curl librsvg2-bin procps python3-psutil python3-joblib
PACKAGES_TEST := clang clang-format clang-tidy libclang-rt-14-dev cppcheck shellcheck strace bubblewrap \
	python3-ipykernel python3-jupyter-client python3-pytest python3-pexpect libpython3.11-testsuite qemu-system-x86 \
	e2fsprogs xfsprogs cpio busybox-static chromium
PACKAGES := $(PACKAGES_BUILD) $(PACKAGES_RUN) $(PACKAGES_TEST)

STRICT := $(filter true 1 yes,$(CI))
WERROR := $(if $(STRICT),true,false)
# Looked at when a build begins, since npm may have been installed by then.
WEB = $(if $(STRICT),$(if $(shell command -v npm),enabled,auto),auto)
RUN_TESTS := KR_MUST_WORK=$(if $(STRICT),1,$(KR_MUST_WORK)) tests/run

.PHONY: help deps configured build build-all build-asan build-clang build-fuzz run dev serve-http demo check test test-vm test-asan test-long conformance bench install lint fmt clean

help: ## this list
	@echo "krait: sandboxed Python. make …"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' Makefile | expand -t 14

deps: $(BUILD)/.deps-all $(BUILD)/.deps-web ## install every Debian package that is used and missing

$(BUILD)/.deps-build: PACKAGES_WANTED = $(PACKAGES_BUILD)
$(BUILD)/.deps-run: PACKAGES_WANTED = $(PACKAGES_BUILD) $(PACKAGES_RUN)
$(BUILD)/.deps-all: PACKAGES_WANTED = $(PACKAGES)
$(BUILD)/.deps-web: PACKAGES_WANTED = $(if $(PACKAGES_WEB),--optional $(PACKAGES_WEB))
$(BUILD)/.deps-%: Makefile tools/deps.sh
	@tools/deps.sh $(PACKAGES_WANTED)
	@mkdir -p $(@D) && touch $@

configured: $(BUILD)/.deps-build $(BUILD)/.deps-web
	@MESON=$(MESON) tools/configure $(BUILD) -Dprefix=$(PREFIX) -Dwerror=$(WERROR) -Dweb=$(WEB)

build: configured ## build the program, and nothing else: build/krait
	@$(NINJA) -C $(BUILD) krait

# With the test programs and the measurements.
build-all: $(BUILD)/.deps-all configured
	@$(NINJA) -C $(BUILD)

build-asan: $(BUILD)/.deps-all $(BUILD)/.deps-web
	@MESON=$(MESON) tools/configure build-asan -Dwerror=$(WERROR) -Dweb=$(WEB) -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1
	@$(NINJA) -C build-asan

# For clang's warnings, which do not depend on the optimisation: without it, as nothing of it is run.
build-clang: $(BUILD)/.deps-all $(BUILD)/.deps-web
	@MESON=$(MESON) CC=clang tools/configure build-clang -Dwerror=$(WERROR) -Dweb=$(WEB) -Doptimization=0 -Ddebug=false
	@$(NINJA) -C build-clang

build-fuzz: $(BUILD)/.deps-all $(BUILD)/.deps-web
	@MESON=$(MESON) CC=clang tools/configure build-fuzz -Dweb=$(WEB) -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false
	@$(NINJA) -C build-fuzz fuzzers

run: $(BUILD)/.deps-run build ## install what is missing, build, and start the server; ARGS="--port 9000" are options of `krait serve`
	@tools/serve.sh $(BUILD)/krait $(ARGS)

# The two starts of the document of dialect python-sandbox. Only the server may write to stdout in the first: the build talks on stderr.
dev: ## build, and speak MCP on stdin and stdout in the dialect python-sandbox; ARGS are options of `krait mcp`
	@$(MAKE) --no-print-directory $(BUILD)/.deps-run build >&2
	@exec $(BUILD)/krait mcp --dialect python-sandbox $(ARGS)

serve-http: $(BUILD)/.deps-run build ## build, and serve the dialect python-sandbox on port 9000; ARGS are options of `krait serve`
	@tools/serve.sh $(BUILD)/krait --dialect python-sandbox $(ARGS)

demo: $(BUILD)/.deps-run build ## build, then show on the command line what a sandbox does and what it refuses
	@tools/demo.sh $(BUILD)/krait

check: build-all ## while you work, without root: build, unit tests, lint of what changed; under a minute after the first build
	@tests/run unit
	@tools/lint --changed

test: build-all build-asan build-clang ## build three ways (gcc, clang, sanitizers) and run every suite, under 20 minutes on two processors; CI=true: strict
	@$(RUN_TESTS)

test-vm: build-all ## the suites that run in a VM with Debian's own kernel (part of `make test`)
	@$(RUN_TESTS) vm

test-asan: build-asan ## the unit and integration suites under ASan and UBSan (part of `make test`)
	@$(RUN_TESTS) asan

test-long: build-all build-asan build-fuzz ## hours: every suite under the sanitizers, every error at every call, fuzzing, longer storms
	@$(RUN_TESTS) --long

conformance: $(BUILD)/.deps-all $(BUILD)/.deps-web build-all ## MCP: the official conformance suite, and clients that others wrote, from npm (part of `make test`)
	@$(RUN_TESTS) mcp/conformance mcp/clients

bench: build-all ## measure: one table, beside python3, bubblewrap and ipykernel
	@bench/run

install: build ## install below $(DESTDIR)$(PREFIX)
	@$(MESON) install -C $(BUILD) --no-rebuild $(if $(DESTDIR),--destdir $(abspath $(DESTDIR)))

lint: $(BUILD)/.deps-all build ## clang-format, clang-tidy, cppcheck, shellcheck, and the tree's own rules
	@tools/lint

fmt: $(BUILD)/.deps-all ## format the C files in place, write the file lists of src/*/meson.build anew
	@tools/lint --fix

clean: ## remove what was built
	rm -rf build build-asan build-clang build-fuzz web/dist web/node_modules web/.state
