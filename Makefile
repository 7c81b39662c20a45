# The verbs of this repository. Each does all its own set-up.
.DEFAULT_GOAL := help
SHELL := /bin/sh
PYTHON := .venv/bin/python

.PHONY: help setup demo test lint format proto lock clean

help: ## Say what each verb does
	@sed -n 's/^\([a-z%-]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 14

setup: ## Install what is needed, build, leave .venv/bin/gavotte
	@tools/setup

demo: setup ## Measure an emulated cloud, place an application, run it, show the gain
	@.venv/bin/gavotte demo

test: setup lint ## All checks and tests
	cargo test --workspace --quiet --locked
	$(PYTHON) -m pytest

lint: setup
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet --locked
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy

bench-%: setup ## One benchmark: train, transfer-time, allpairs, sharing, cross, fluid, place, choreo, rpca, change, constant (ARGS="...")
	@tools/peers
	@$(PYTHON) -m benches.$(subst -,_,$*) $(ARGS)

format: setup ## Format all sources
	cargo fmt --all
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

proto: setup ## Generate the Python side of proto/
	$(PYTHON) -m grpc_tools.protoc -Iproto --python_out=python --pyi_out=python --grpc_python_out=python \
		proto/gavotte/agents/agent.proto

lock: setup ## Renew requirements.lock from pyproject.toml
	.venv/bin/uv pip compile --quiet --all-extras --generate-hashes --no-header pyproject.toml -o requirements.lock

clean: ## Remove every build product
	rm -rf .venv target build .pytest_cache .mypy_cache .ruff_cache .hypothesis python/gavotte/_core*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
