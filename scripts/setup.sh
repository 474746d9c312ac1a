#!/bin/sh
# Gets what the tests need beyond Go. It installs a C compiler for the race
# detector, a Java runtime, the jars of ZooKeeper, the browser Chromium, and for root on
# Linux the tools for networks, all as Debian packages, if they are not there, and says
# what to install where it can't.
# It builds the etcd and Consul servers, if they are not in Go's build cache.
set -eu
cd "$(dirname "$0")/.."

jars=${ELECTOR_ZK_JARS:-/usr/share/java}
missing=
command -v "${JAVA_HOME:+$JAVA_HOME/bin/}java" >/dev/null || missing="$missing openjdk-17-jre-headless"
[ -e "$jars/zookeeper.jar" ] && [ -e "$jars/zookeeper-jute.jar" ] || missing="$missing zookeeper"
command -v "${CC:-gcc}" >/dev/null || missing="$missing gcc libc6-dev"
# By any of the names that the tests try.
command -v chromium >/dev/null || command -v chromium-browser >/dev/null ||
	command -v google-chrome >/dev/null || missing="$missing chromium"
# Root on Linux can have networks of its own, to cut servers off from each other.
if [ "$(uname -s)" = Linux ] && [ "$(id -u)" = 0 ]; then
	command -v ip >/dev/null && command -v tc >/dev/null && command -v ss >/dev/null || missing="$missing iproute2"
fi

if [ -n "$missing" ]; then
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		cat >&2 <<-EOT
		The tests run on a real ZooKeeper server, and look at a page in a real browser.
		Missing here:$missing
		(names of Debian packages). On Debian or Ubuntu:

		    sudo apt-get install --no-install-recommends$missing

		Elsewhere: install a Java runtime (11 or later), put ZooKeeper's jars and their
		dependencies into one folder, and set ELECTOR_ZK_JARS to it. Have Chromium or
		Chrome in PATH as chromium, chromium-browser or google-chrome.
		EOT
		exit 1
	fi
	echo "installing$missing" >&2
	export DEBIAN_FRONTEND=noninteractive
	log=$(mktemp)
	trap 'rm -f "$log"' EXIT
	# shellcheck disable=SC2086 # a list of packages
	if ! { apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing; } >"$log" 2>&1; then
		cat "$log" >&2
		exit 1
	fi
fi

echo "building the etcd and Consul servers for the tests: minutes the first time, then from Go's cache" >&2
# As in internal/servertest/build.go, so that the tests find them in the cache.
export GOWORK=off GOFLAGS=-mod=readonly
"${GO:-go}" -C internal/servers/etcd tool -n go.etcd.io/etcd/server/v3 >/dev/null
"${GO:-go}" -C internal/servers/consul tool -n github.com/hashicorp/consul >/dev/null
