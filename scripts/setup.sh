#!/bin/sh
# Installs what the tests need beyond Go: a C compiler for the race detector, a
# Java runtime and the jars of ZooKeeper, all as Debian packages. It does nothing
# when they are there, and says what to install where it can't.
set -eu

jars=${ELECTOR_ZK_JARS:-/usr/share/java}
missing=
command -v "${JAVA_HOME:+$JAVA_HOME/bin/}java" >/dev/null || missing="$missing openjdk-17-jre-headless"
[ -e "$jars/zookeeper.jar" ] && [ -e "$jars/zookeeper-jute.jar" ] || missing="$missing zookeeper"
command -v "${CC:-gcc}" >/dev/null || missing="$missing gcc libc6-dev"
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
	cat >&2 <<-EOF
	The tests run on a real ZooKeeper server. Missing here:$missing
	(names of Debian packages). On Debian or Ubuntu:

	    sudo apt-get install --no-install-recommends$missing

	Elsewhere: install a Java runtime (11 or later), put ZooKeeper's jars and their
	dependencies into one folder, and set ELECTOR_ZK_JARS to it.
	EOF
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
