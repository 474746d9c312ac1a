#!/bin/sh
# Shows what the tests need: which version is there and where, and how to get what is missing.
# It changes nothing and downloads nothing, and fails if something is missing.
set -eu
cd "$(dirname "$0")/.."
. scripts/needs.sh

# Go would fetch a newer toolchain or a module.
export GOPROXY=off

complete=true
row() { # what, version, where, what for
	printf '%-15s %-14s %-34s %s\n' "$@"
}
absent() { # what, how to get it, what for
	complete=false
	row "$1" MISSING "$2" "$3"
}

row WHAT VERSION WHERE "NEEDED FOR"

wanted=$(awk '$1 == "go" { print $2 }' go.mod)
if ! command -v "${GO:-go}" >/dev/null; then
	absent Go "https://go.dev/dl" "everything; $wanted or later"
	go=
elif ! go=$(find_go 2>/dev/null) || ! "$go" list -m >/dev/null 2>&1; then
	absent Go "https://go.dev/dl" "everything; $wanted or later, and here is $(GOTOOLCHAIN=local "${GO:-go}" env GOVERSION)"
	go=
else
	row Go "$("$go" env GOVERSION | sed 's/^go//')" "$go" "everything; $wanted or later"
fi

show() {
	if where=$("find_$2"); then
		row "$1" "$("version_$2")" "$where" "$4"
	else
		absent "$1" "packages: $3" "$4"
	fi
}
needs show

show_server() {
	if [ -n "$go" ] && where=$(find_server "$2" "$3"); then
		row "$1" "$(version_server "$2" "$4")" "in Go's cache" "the tests on it"
	else
		absent "$1" "make setup-$2: $(version_server "$2" "$4")" "the tests on it"
	fi
}
servers show_server
echo
echo "make test-all needs more:"
needs_all show
servers_all show_server

# Tests that cut servers off say so when they are skipped.
if ! own_networks; then
	networks="no, they take root on Linux; tests on them are skipped"
elif unshare --net true 2>/dev/null; then
	networks=yes
else
	networks="no, the kernel does not let this process make them; tests on them are skipped"
fi
echo
echo "networks of the tests' own: $networks"
echo "processors: $(getconf _NPROCESSORS_ONLN)"
if [ -r /proc/meminfo ]; then
	awk '/^MemAvailable:/ { printf "memory: %.1f GiB available\n", $2 / 2 ^ 20 }' /proc/meminfo
fi
if [ -n "$go" ]; then
	cache=$("$go" env GOCACHE)
	while [ ! -d "$cache" ]; do cache=$(dirname "$cache"); done
	df -Pk "$cache" | awk 'NR == 2 { printf "disk: %.0f GiB free for Go'"'"'s cache\n", $4 / 2 ^ 20 }'
fi
if [ -d /dev/shm ]; then
	df -Pk /dev/shm | awk 'NR == 2 { printf "/dev/shm: %.1f GiB free; the servers keep their files there if there is 1 GiB\n", $4 / 2 ^ 20 }'
fi
echo "open files: $(ulimit -Hn), the hard limit, to which Go programs raise theirs"

if ! $complete; then
	echo
	echo "Something is missing: 'make setup' gets what make test needs, 'make setup-all' the rest, or they say what to install."
	exit 1
fi
