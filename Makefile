# The verbs of this repository. Each does all its own set-up.
.DEFAULT_GOAL := help
SHELL := /bin/sh
PYTHON := .venv/bin/python

.PHONY: help setup setup-demo dist dist-arm64 test-wheel demo test test-cases test-lab test-python checks test-fast fast-rust fast-python test-integrations test-openstack test-kubernetes test-spark test-ansible test-tofu test-ray test-kernels test-systemd test-programs flaky lint lint-rust lint-python docs fuzz chaos deny format snapshots proto lock clean

help: ## Describe each verb
	@sed -n 's/^\([a-z0-9%-]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 14

setup: ## Install requirements and build .venv/bin/gavotte
	@tools/setup

setup-demo:
	@tools/setup demo

dist: setup ## Build the wheel with the agent inside, its SBOM and licences, and run its demo as an ordinary user (ARGS="--again" builds twice and compares)
	@$(PYTHON) tools/dist $(ARGS)

dist-arm64: setup ## The same for arm64, tried in an emulator; needs root once to install a linker and the emulator
	@command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-aarch64-static >/dev/null || [ "$$(id -u)" != 0 ] || \
		apt-get install -q -y --no-install-recommends gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static
	@$(PYTHON) tools/dist --machine aarch64 $(ARGS)

test-wheel: setup ## Install, use, upgrade and remove agents over real SSH with the command of the wheel that `make dist` has built
	@ls dist/gavotte-*_$$(uname -m).whl >/dev/null 2>&1 || { echo "test-wheel: dist/ has no wheel; run make dist first" >&2; exit 1; }
	@test -x target/wheel/bin/python || .venv/bin/uv venv --quiet --python python3 target/wheel
	@.venv/bin/uv pip install --quiet --reinstall-package gavotte --python target/wheel/bin/python dist/gavotte-*_$$(uname -m).whl
	@GAVOTTE_COMMAND=$(CURDIR)/target/wheel/bin/gavotte $(PYTHON) -m pytest -q tests/hosts/test_over_ssh.py tests/hosts/test_other_version.py

demo: setup-demo ## Measure an emulated cloud, place an application, run it, show the gain
	@.venv/bin/gavotte demo
	@test -e .venv/built-release || echo 'demo: this build is mostly not optimised; "make setup" builds the one to use and to measure with' >&2

# Labs mostly wait for packets. Lints, Rust's tests and the Python tests that start no processes use the idle processor time, at the
# lowest priority.
WHEN_IDLE := $(shell command -v chrt >/dev/null && echo chrt --idle 0)
# Labs and checks hold both of make's two job slots, so that a cargo that asks make for slots would build one crate at a time.
CARGO := env -u MAKEFLAGS -u MFLAGS cargo

test: setup ## All checks and tests; rare ones are left out, those with packets run in two cases, others that start processes in four, and properties have few examples
	@GAVOTTE_EXAMPLES=fast $(MAKE) --no-print-directory -j 2 --output-sync=line test-python checks

test-cases: setup ## All tests with packets in all their cases, other rare tests, and all examples of properties; takes long
	$(PYTHON) -m pytest -q -n 4 --dist worksteal --durations=10 -m "rare or lab"
	$(PYTHON) -m pytest -q -n 2 --durations=10 -m "not rare and not lab" --ignore tests/docs

test-python: test-lab
	@# Cases that are left out leave their snapshots unused. Two workers use two thirds of two cores: 333 s, and three take 249 s.
	$(PYTHON) -m pytest -q -n 3 --dist worksteal --most-cases 4 --snapshot-warn-unused --durations=10 -m "not lab and slow and not rare" --ignore tests/docs

test-lab:
	@# Two cores suffice for four labs, since their tests mostly wait for packets and deadlines. A fifth one was no faster.
	$(PYTHON) -m pytest -q -n 4 --dist worksteal --most-cases 2 --durations=10 -m "lab and not rare"

checks:
	$(WHEN_IDLE) $(MAKE) --no-print-directory lint-rust lint-python
	@# No comment has code to run, and to look for it takes a minute.
	$(WHEN_IDLE) $(CARGO) test --workspace --lib --bins --tests --quiet --locked
	$(WHEN_IDLE) $(PYTHON) -m pytest -q -n 2 -o timeout=900 -m "not lab and not rare" tests/docs
	$(WHEN_IDLE) $(PYTHON) -m pytest -q -n 2 -o timeout=900 --durations=10 -m "not lab and not slow" --ignore tests/docs

test-fast: setup ## The inner loop: no lab, no slow tests, few examples of each property; about a minute
	@$(MAKE) --no-print-directory -j 2 --output-sync=line fast-rust fast-python

fast-rust:
	@PROPTEST_CASES=16 $(CARGO) test --workspace --lib --bins --tests --quiet --locked

fast-python:
	@GAVOTTE_EXAMPLES=fast $(PYTHON) -m pytest -q -n 2 -m "not lab and not slow"

test-integrations: test-kubernetes test-openstack test-spark test-ray test-ansible test-tofu test-programs ## All tests with heavy components: Kubernetes, OpenStack, Spark, Ray, Ansible, OpenTofu, Prometheus, OpenSearch; the first call builds and downloads them for half an hour; needs root

test-openstack: setup ## The OpenStack driver against real services, which the first call downloads; needs root
	@GAVOTTE_OPENSTACK=real tools/openstack $(PYTHON) -m pytest -q tests/campaign/test_openstack.py

test-kubernetes: setup ## All that runs with a real cluster, whose pods run: the driver, hosts by a kubeconfig, the agents' manifest, the scheduler extender and plugin, labels of nodes, and exports; the first call builds it for ten minutes; needs root
	@GAVOTTE_KUBERNETES=real tools/kubernetes $(PYTHON) -m pytest -q tests/campaign/test_kubernetes.py tests/install/test_image.py tests/*/test_*_in_cluster.py

test-kernels: setup ## The agent on kernel 5.10 in an emulated machine; the first call downloads the kernel (22 MB); needs root and qemu
	@tools/kernels $(PYTHON) -m pytest -q tests/hosts/test_kernels.py

test-systemd: setup ## The Debian package of the agent under a real systemd, in a copy of this machine that is discarded; needs root
	@GAVOTTE_SYSTEMD=real $(PYTHON) -m pytest -q tests/install/test_systemd.py

test-programs: setup ## Tests with Open vSwitch, Prometheus, Chromium, cron and OpenSearch, which the first call installs (500 MB); needs root
	@command -v ovs-vswitchd >/dev/null && command -v prometheus >/dev/null && command -v chromium >/dev/null && \
		command -v cron >/dev/null || \
		apt-get install -q -y --no-install-recommends openvswitch-switch prometheus chromium cron
	$(PYTHON) -m pytest -q tests/campaign/test_traffic_in_lab.py tests/campaign/test_sharing_results.py tests/campaign/test_schedules.py \
		tests/report/test_narrow.py tests/serve/test_prometheus.py
	@command -v mvn >/dev/null || apt-get install -q -y --no-install-recommends maven default-jdk-headless
	tools/opensearch $(PYTHON) -m pytest -q tests/campaign/test_opensearch.py

test-browser: setup ## The pages of `gavotte serve` and the report in a real Chromium by Playwright, with axe; needs root once to install Chromium (GAVOTTE_SCREENSHOTS=FOLDER keeps pictures)
	@command -v chromium >/dev/null || apt-get install -q -y --no-install-recommends chromium fonts-dejavu-core
	@test -x target/browser/bin/pip || $(PYTHON) -m venv target/browser
	@target/browser/bin/pip install --quiet --disable-pip-version-check playwright==1.65.2 axe-playwright-python==0.1.8
	@GAVOTTE_BROWSER=$(CURDIR)/target/browser/bin/python $(PYTHON) -m pytest -q -rP tests/serve/test_pages_in_browser.py tests/report/test_narrow.py

test-spark: setup ## The recipe for Spark and the rack script against real Spark and its Hadoop, which the first call downloads (500 MB)
	@command -v java >/dev/null || apt-get install -q -y --no-install-recommends default-jre-headless
	@test -x target/spark/bin/pip || $(PYTHON) -m venv target/spark
	@target/spark/bin/pip install --quiet --disable-pip-version-check pyspark==4.3.0
	@GAVOTTE_SPARK=$(CURDIR)/target/spark/bin/python $(PYTHON) -m pytest -q tests/transfer/test_spark_in_lab.py tests/export/test_hadoop.py

test-ansible: setup ## The inventory for Ansible read by Ansible itself, which the first call downloads (10 MB)
	@test -x target/ansible/bin/pip || $(PYTHON) -m venv target/ansible
	@target/ansible/bin/pip install --quiet --disable-pip-version-check ansible-core==2.19.14
	@GAVOTTE_ANSIBLE=$(CURDIR)/target/ansible/bin/ansible-inventory $(PYTHON) -m pytest -q tests/hosts/test_listings.py -k ansible

test-tofu: setup ## The outputs of OpenTofu as hosts, and hosts as its variables, by OpenTofu itself, which the first call builds by Go in ten minutes
	@test -x target/tofu/tofu || tools/tofu target/tofu
	@GAVOTTE_TOFU=$(CURDIR)/target/tofu/tofu $(PYTHON) -m pytest -q tests/hosts/test_opentofu.py

# The Ray of `make bench-ecosystem`, if that has installed one.
RAY := $(or $(patsubst %/ray,%,$(wildcard target/ecosystem/bin/ray)),target/ray/bin)

test-ray: setup ## The labels and commands for Ray with real Ray nodes in a lab, which the first call downloads (80 MB); needs root
	@test -x $(RAY)/python || $(PYTHON) -m venv target/ray
	@test -x $(RAY)/ray || $(RAY)/pip install --quiet --disable-pip-version-check ray==2.60.0
	@GAVOTTE_RAY=$(CURDIR)/$(RAY)/python $(PYTHON) -m pytest -q tests/export/test_ray.py tests/export/test_ray_placed.py

flaky: setup ## Count how often each test with real packets needs another try (ARGS="--runs 3 tests/lab")
	@tools/flaky -n 2 $(ARGS)

lint: setup ## Formats, lints as errors, types, spelling, licences
	@$(MAKE) --no-print-directory -j 2 --output-sync=target lint-rust lint-python

lint-rust:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet --locked

lint-python:
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/stubtest gavotte._core
	.venv/bin/typos
	$(PYTHON) tools/licences

docs: setup ## The documentation as a site in build/site; a broken link is an error
	@.venv/bin/sphinx-build --quiet --fail-on-warning --keep-going -j 2 docs build/site
	@echo build/site/index.html

fuzz: setup ## Damaged files for every command, and coverage-guided fuzzing of parsers, ARGS="SECONDS [TARGET...]" each
	@tools/fuzz $(ARGS)

chaos: setup ## Random faults in a lab while commands run in it, ARGS="--seconds 120 --seed 1"
	@$(PYTHON) -m tests.chaos $(ARGS)

deny: setup ## Sources, bans and licences of all crates by cargo-deny, which the first call builds
	@target/tools/bin/cargo-deny --version >/dev/null 2>&1 || cargo install --quiet --locked --root target/tools cargo-deny
	target/tools/bin/cargo-deny check bans licenses sources

bench-%: setup ## One benchmark: broadcast, train, transfer-time, allpairs, racks, clouds, sharing, scale, slow, dry-run, install, start, large, playing, impair, zerocopy, loss, ramp, policer, cross, calibrate, stability, fluid, place, choreo, rpca, constant, change, profile, programs, launch, training, replay, collectives, tuned, self-tuning, shuffle, transfers, cache, dask, campaign, verdicts, guarantee, ecosystem; figures draws docs/results (ARGS="...")
	@tools/peers $*
	@$(PYTHON) -m benches.$(subst -,_,$*) $(ARGS)

format: setup ## Format all sources
	cargo fmt --all
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

snapshots: setup ## Renew the tests' snapshots of help texts, messages and the report; then read the diff
	$(PYTHON) -m pytest -q --snapshot-update $$(grep -rl SnapshotAssertion tests --include='test_*.py')

PROTOC := python -m grpc_tools.protoc -Iproto
PROTOCS := proto/gavotte/agents/agent.proto proto/gavotte/transfer/queue.proto
GENERATE := .venv/bin/uv run --quiet --no-project --isolated --python $(PYTHON) --with 'setuptools<81' --with

proto: setup ## Generate the Python and Rust sides of proto/
	@# What newer compilers generate refuses to load next to a protobuf older than theirs. Their types are better.
	$(GENERATE) grpcio-tools==1.62.3 $(PROTOC) --python_out=python --grpc_python_out=python $(PROTOCS)
	$(GENERATE) grpcio-tools==1.62.3 $(PROTOC) --python_out=python proto/gavotte/campaign/remote_write.proto
	$(GENERATE) grpcio-tools==1.80.1 $(PROTOC) --pyi_out=python $(PROTOCS) proto/gavotte/campaign/remote_write.proto
	GAVOTTE_RENEW=1 cargo test --quiet --locked --package gavotte-agent --test agent generated
	sed -i '/^ # This class is part of an EXPERIMENTAL API/,$$d' python/gavotte/agents/agent_pb2_grpc.py python/gavotte/transfer/queue_pb2_grpc.py

lock: setup ## Renew requirements.lock and tools/demo.lock from pyproject.toml
	@# Debian 12 has Python 3.11.2, and some packages need a later 3.11.
	.venv/bin/uv pip compile --quiet --python-version 3.11.2 --all-extras --generate-hashes --no-header pyproject.toml -o requirements.lock
	@# What the demo needs, in the same versions.
	@sed -n 's/^ *"\(maturin==[^"]*\)",$$/\1/p' pyproject.toml | .venv/bin/uv pip compile --quiet --python-version 3.11.2 --constraints requirements.lock \
		--generate-hashes --no-header pyproject.toml - -o tools/demo.lock

clean: ## Remove every build product
	rm -rf .venv target fuzz/target build .pytest_cache .mypy_cache .ruff_cache .hypothesis python/gavotte/_core*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
