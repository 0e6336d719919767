# What a newcomer runs. Each target first lets scripts/setup supply what the machine lacks.
#
# Everything is built in the release profile, tests and lints included: RocksDB takes minutes to compile, and cargo
# compiles it once per profile.

CARGO ?= cargo
DEMO ?= target/demo
DEMO_SIZE ?= 256MiB
FUZZ_SECONDS ?= 30
ATTACK_MINUTES ?= 60
PREFIX ?= $(HOME)/.local
CONTAINERS ?= podman
MINIMUM_RUST = $(shell sed -nE 's/^rust-version = "(.*)"/\1/p' Cargo.toml)
ROOT = $(DESTDIR)$(PREFIX)
# Tests wait for disks and for the programs that they kill: three times as many of them as cores keep the cores busy.
TEST = RUST_TEST_THREADS=$$(($$(nproc) * 3)) $(CARGO) test --release --locked --config scripts/tests.toml
# Of portable, deb, rpm: x86_64 or aarch64.
ARCH ?= $(shell uname -m)
PORTABLE = $(or $(CARGO_TARGET_DIR),target)/$(ARCH)-unknown-linux-gnu/release/bedload
PACKAGES = target/packages
VERSION = $(shell sed -nE 's/^version = "(.*)"/\1/p;T;q' Cargo.toml)
BEDLOAD ?= $(or $(CARGO_TARGET_DIR),target)/release/bedload

# Shows a bedload command as a user would type it, and runs it.
define bedload
@printf '\n$$ bedload %s\n' '$(1)' >&2
@$(CARGO) run --release --locked --quiet -- $(1)
endef

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup build demo test test-slow test-long test-fleet attack fixtures lint bench benchmarks fuzz install \
  install-files clean-demo portable package-files deb rpm release-files checksums \
  release-notes image test-packages deny print-minimum-rust minimum-rust publish-check

help: ## Show the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1|\2/p' $(firstword $(MAKEFILE_LIST)) | \
	  while IFS='|' read -r name text; do printf '%-20s %s\n' "$$name" "$$text"; done

setup: ## Supply what the build needs and the machine lacks
	@scripts/setup

build: setup ## Build target/release/bedload
	$(CARGO) build --release --locked

demo: build ## Generate a snapshot (DEMO_SIZE=256MiB), import it, verify the database
	@$(MAKE) --no-print-directory $(DEMO)/snapshot-$(DEMO_SIZE).car
	@rm -rf $(DEMO)/db $(DEMO)/db.partial
	$(call bedload,import $(DEMO)/snapshot-$(DEMO_SIZE).car --db $(DEMO)/db)
	$(call bedload,verify --db $(DEMO)/db)

# Kept for the next time: the same size gives the same file.
$(DEMO)/%.car:
	@mkdir -p $(@D)
	$(call bedload,generate $@ --profile mainnet --size $(DEMO_SIZE))

clean-demo: ## Remove what the demo wrote
	rm -rf $(DEMO)

# Kills at named points, imports of several times their memory budget, benchmarks, and other programs.
SLOW = crash:: memory:: bench:: import::hard_keys:: import::old_rocksdb:: remote::real_ remote::repeated_kills::

test: setup ## Run the tests, with overflow checks and debug assertions in bedload's own code
	$(TEST) --lib --test '*' --example '*' --no-run
	$(TEST) --lib --test attack --test fixtures --example '*'
	$(TEST) --test all -- $(SLOW:%=--skip %)
	$(TEST) --doc

# Debian's librocksdb7.8 and rocksdict open what imports make; Debian's nginx-light and moto serve snapshots.
test-slow: setup ## Run the tests of crashes, memory budgets, benchmarks, older RocksDBs, nginx and S3
	@scripts/old-rocksdb
	@scripts/servers
	$(TEST) --test all -- $(SLOW)

# Kills at every named point of every kind of import and at random moments, cuts power 300 times, lets disks fail
# and fill up, holds imports of four times their budget (64 MiB to 1 GiB, 1 to 8 threads) to it, and kills one from nginx
# a hundred times.
test-long: setup ## Run the long crash and memory tests (45 minutes, 14 GiB of disk in TMPDIR)
	@scripts/servers
	BEDLOAD_LONG_TESTS=1 $(TEST) --test all -- crash:: block_log:: read::verify read::damaged_databases memory::budgets \
	  memory::hostile import::hard_keys import::existing_databases bench::doctor remote::repeated_kills remote::bad_bundles \
	  remote::contradictory_bundles
	BEDLOAD_LONG_TESTS=1 $(TEST) --test attack

test-fleet: setup ## Run examples/fleet on Slurm and GNU parallel (Debian's), and check it against schemas
	@scripts/fleet
	BEDLOAD_LONG_TESTS=1 $(TEST) --test all remote::fleet::

# See docs/reliability.md; BEDLOAD_WRITE_DOCS=1 writes the counts into it.
attack: setup ## Kill, fill up, flip and swap everything for ATTACK_MINUTES=60, and count what comes out
	BEDLOAD_ATTACK_MINUTES=$(ATTACK_MINUTES) $(TEST) --test attack

fixtures: setup ## Make the snapshots of fixtures/ anew
	BEDLOAD_WRITE_FIXTURES=1 $(TEST) --test all project::fixtures::

lint: setup ## Check format, lints and documentation
	$(CARGO) fmt --check
	@scripts/chart --check
	$(CARGO) clippy --release --locked --all-targets -- -D warnings
	$(CARGO) clippy --release --locked --no-default-features --lib -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --release --locked --no-deps

bench: setup ## Measure the hot paths
	$(CARGO) bench --locked

benchmarks: build ## Measure the tables anew (SIZE=4GiB ROUNDS=5 FEW_ROUNDS=3; takes hours)
	@scripts/benchmarks

fuzz: setup ## Fuzz every parser for FUZZ_SECONDS=30 (needs a nightly toolchain and cargo-fuzz)
	@scripts/fuzz $(FUZZ_SECONDS)

install: build ## Install program, completions, man pages and the systemd unit below PREFIX=~/.local
	@$(MAKE) --no-print-directory install-files

# What `install` copies; DESTDIR is for packagers.
install-files:
	install -d "$(ROOT)/bin" "$(ROOT)/share/bash-completion/completions" "$(ROOT)/share/zsh/site-functions" \
	  "$(ROOT)/share/fish/vendor_completions.d" "$(ROOT)/share/man/man1"
	install -m755 "$(BEDLOAD)" "$(ROOT)/bin/bedload"
	"$(BEDLOAD)" completions bash >"$(ROOT)/share/bash-completion/completions/bedload"
	"$(BEDLOAD)" completions zsh >"$(ROOT)/share/zsh/site-functions/_bedload"
	"$(BEDLOAD)" completions fish >"$(ROOT)/share/fish/vendor_completions.d/bedload.fish"
	"$(BEDLOAD)" man "$(ROOT)/share/man/man1"
	install -d "$(ROOT)/lib/systemd/system"
	sed 's,/usr/,$(PREFIX)/,' packaging/bedload-import@.service >"$(ROOT)/lib/systemd/system/bedload-import@.service"
	install -Dm644 packaging/bedload.sysusers "$(ROOT)/lib/sysusers.d/bedload.conf"
	install -Dm644 packaging/import.env "$(ROOT)/share/doc/bedload/examples/import.env"

portable: setup ## Build the program for any Linux with glibc 2.17 (ARCH=x86_64 or aarch64; compiles RocksDB with zig)
	@scripts/portable $(ARCH)

# What a package holds, as it lies below /. The texts come from the program of this machine where the packed one is for another.
package-files: portable
	rm -rf $(PACKAGES)/root
	@$(MAKE) --no-print-directory install-files DESTDIR=$(PACKAGES)/root PREFIX=/usr \
	  BEDLOAD=$(if $(filter $(ARCH),$(shell uname -m)),$(PORTABLE),$(BEDLOAD))
	install -m755 $(PORTABLE) $(PACKAGES)/root/usr/bin/bedload
	gzip -9n $(PACKAGES)/root/usr/share/man/man1/*.1
	install -d $(PACKAGES)/root/usr/share/doc/bedload/docs $(PACKAGES)/root/usr/share/doc/bedload/examples/presets
	install -m644 *.md LICENSE-MIT LICENSE-APACHE $(PACKAGES)/root/usr/share/doc/bedload/
	install -m644 docs/*.md docs/*.svg $(PACKAGES)/root/usr/share/doc/bedload/docs/
	cp -r --no-preserve=mode examples/. $(PACKAGES)/root/usr/share/doc/bedload/examples/
	install -m644 configs/*.toml $(PACKAGES)/root/usr/share/doc/bedload/examples/presets/

deb: package-files ## Make target/packages/bedload_VERSION_ARCH.deb (needs cargo-deb)
	cargo deb --no-build --no-strip --target $(ARCH)-unknown-linux-gnu --output $(PACKAGES)/

rpm: package-files ## Make target/packages/bedload-VERSION.ARCH.rpm (needs cargo-generate-rpm)
	cargo generate-rpm --target $(ARCH)-unknown-linux-gnu --output $(PACKAGES)/

release-files: deb rpm ## Make what a release has for this architecture: a tar of the program and its texts, deb, rpm
	tar -C $(PACKAGES)/root/usr --sort=name --owner=0 --group=0 --numeric-owner \
	  --transform 's,^\./,bedload-$(VERSION)/,' -czf $(PACKAGES)/bedload-$(VERSION)-$(ARCH)-linux.tar.gz ./bin ./share

checksums: ## Write target/packages/SHA256SUMS
	cd $(PACKAGES) && sha256sum bedload[-_]* >SHA256SUMS

release-notes: ## Print what CHANGELOG.md says of VERSION
	@awk '/^## /{on = index($$0, "$(VERSION)") > 0; next} on' CHANGELOG.md

image: ## Make a container image, bedload:VERSION, with podman (or CONTAINERS=docker), and save it in target/packages
	@mkdir -p $(PACKAGES)
	$(CONTAINERS) build --tag bedload:$(VERSION) --file Containerfile .
	$(CONTAINERS) save bedload:$(VERSION) | gzip >$(PACKAGES)/bedload-$(VERSION)-image.tar.gz

test-packages: deb rpm ## Build the packages; install, run, upgrade and remove the deb in chroots of Debians (root, debootstrap)
	@scripts/test-packages $(PACKAGES)/bedload_$(VERSION)-1_$(if $(filter x86_64,$(ARCH)),amd64,arm64).deb

deny: ## Check licences, sources and advisories of the dependencies (needs cargo-deny)
	cargo deny --locked check

print-minimum-rust:
	@echo $(MINIMUM_RUST)

minimum-rust: setup ## Check that the Rust of Cargo.toml's rust-version is enough (needs that toolchain)
	cargo +$(MINIMUM_RUST) check --release --locked --all-targets

publish-check: setup ## Make the crate's package, build it by itself, and stop short of publishing it
	$(CARGO) publish --dry-run --locked
