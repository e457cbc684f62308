# The targets are short; the work is in test/*.sh, to be read and run by hand.

GO     ?= go
PREFIX ?= /usr/local

# No C: one static binary for each folder of cmd/. The race detector alone turns cgo on (test/run.sh).
export CGO_ENABLED ?= 0

# The linker writes a program through a mapping, page by page, and so it lies in the page cache. A copy lies there in
# larger pieces (folios), takes fewer page faults to start, and is what `make install` makes anyway.
build:   ## bin/: every program
	$(GO) build -trimpath -buildvcs=false -o bin/ ./cmd/...
	@for f in bin/wolffia*; do cp "$$f" "$$f.copy" && mv "$$f.copy" "$$f"; done

run: build   ## set this machine up, make a small root, run a first container as an ordinary user
	bash test/first.sh

test:   ## every test: as an ordinary user, then the root-only ones when called by root
	bash test/run.sh test

test-vm:   ## TestVM… on other kernels in virtual machines: KERNELS="6.1 6.12" FLAVOURS=minimal PKGS=… RUN=…
	bash test/vm.sh

race:   ## the same, as the ordinary user, with the race detector (needs a C compiler)
	bash test/run.sh race

bench:   ## BENCH=regexp BENCHTIME=1s COUNT=1; peers: test/setup-peers.sh
	bash test/run.sh bench

fuzz:   ## FUZZTIME=5s for each target
	bash test/fuzz.sh

lint:   ## gofmt, vet for amd64 and arm64, staticcheck, shellcheck where there is one
	bash test/lint.sh

install: | bin/wolffia   ## PREFIX=/usr/local DESTDIR=
	install -d "$(DESTDIR)$(PREFIX)/bin"
	install -m 755 bin/wolffia* "$(DESTDIR)$(PREFIX)/bin"

bin/wolffia:
	$(MAKE) build

clean:
	rm -rf bin

help:
	@awk -F ':.*## ' '/^[a-z-]+:.*##/ { printf "make %-8s %s\n", $$1, $$2 }' Makefile

.PHONY: build run test test-vm race bench fuzz lint install clean help
