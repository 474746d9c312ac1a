#!/bin/sh
# Gets what the tests need beyond Go, and says what it does and how far it is:
#
#	setup.sh packages   what make test needs of the system, as Debian packages
#	setup.sh all        the same for make test-all
#	setup.sh etcd       the etcd server, built into Go's cache; so for each of internal/servers
#
# scripts/needs.sh lists what that is. Where it can't be installed it says what to install. What is
# there is left as it is.
set -eu
cd "$(dirname "$0")/.."
exec >&2
. scripts/needs.sh

what=${1:-}
log=$(mktemp)
running=
created=
trap '[ -z "$running" ] || kill "$running" 2>/dev/null || true; rm -f "$log" $created' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# watched runs a command, and every ten seconds prints what an awk program makes of its
# output so far. Of a command that fails it prints all of the output, and exits.
watched() { # awk program, command
	tell=$1
	shift
	"$@" >"$log" 2>&1 </dev/null &
	running=$!
	seconds=0
	while kill -0 "$running" 2>/dev/null; do
		sleep 1
		seconds=$((seconds + 1))
		[ $((seconds % 10)) != 0 ] || echo "setup: $(awk "$tell" "$log")"
	done
	status=0
	wait "$running" || status=$?
	running=
	if [ "$status" != 0 ]; then
		cat "$log"
		echo "setup: failed: $*"
		exit "$status"
	fi
}

add_missing() {
	"find_$2" >/dev/null || missing="$missing $3"
}

install() {
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		cat <<-EOT
		The tests run on real servers. Missing here:$missing
		(names of Debian packages). On Debian or Ubuntu:

		    sudo apt-get install --no-install-recommends$missing

		Elsewhere: install a Java runtime (11 or later), put ZooKeeper's jars and their
		dependencies into one folder, and set ELECTOR_ZK_JARS to it. make test-all wants
		Chromium or Chrome in PATH as chromium, chromium-browser or google-chrome, in PATH also
		etcdctl, PostgreSQL's postgres and initdb, mariadbd, prometheus and promtool, MIT's
		krb5kdc, kdb5_util, kadmin.local and kinit, and a python3 with kazoo (pip install
		kazoo).
		EOT
		exit 1
	fi
	export DEBIAN_FRONTEND=noninteractive
	echo "setup: apt-get install$missing"
	watched '/^Get:/ { got++ } END { printf "%d lists of packages downloaded", got }' apt-get update

	# Debian's PostgreSQL would make a database of its own and start a server on it, which then stays.
	case " $missing " in *" postgresql "*)
		created=/etc/postgresql-common/createcluster.d/elector.conf
		mkdir -p "${created%/*}"
		echo 'create_main_cluster = false' >"$created"
		;;
	esac
	# Of Prometheus and Kerberos it would start servers, unless this file forbids that.
	case " $missing " in *" prometheus "* | *" krb5-kdc "*)
		if [ ! -e /usr/sbin/policy-rc.d ]; then
			created="$created /usr/sbin/policy-rc.d"
			printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
			chmod +x /usr/sbin/policy-rc.d
		fi
		;;
	esac
	# shellcheck disable=SC2086 # a list
	watched '
		/^Get:/        { got++ }
		/^Unpacking /  { unpacked++ }
		/^Setting up / { done++ }
		END { printf "%d packages downloaded, %d unpacked, %d installed", got, unpacked, done }
	' apt-get install -y --no-install-recommends $missing
}

# build builds a server, in steps that can be watched. The last one builds it as the tests
# do. "go tool" alone would say nothing for minutes, and "go build" of the server itself
# would link one that the tests do not use.
build() { # name, folder, package, module
	[ "$what" = "$2" ] || return 0
	go=$(find_go)
	! find_server "$2" "$3" >/dev/null || return 0
	begun=$(date +%s)
	echo "setup: building the $1 $(version_server "$2" "$4"): minutes the first time, then from Go's cache"
	downloads='/^go: downloading/ { got++ } END { printf "'"$2"': %d modules downloaded", got }'
	watched "$downloads" server_go "$2" list -deps -f '{{.ImportPath}}{{if not .DepOnly}} {{join .Imports " "}}{{end}}' "$3"
	all=$(grep -vc '^go: ' "$log")
	imports=$(sed -n "s|^$3 ||p" "$log")
	watched '!/^go: / { n++ } END { printf "'"$2"': %d of up to '"$all"' packages compiled", n }' server_go "$2" build -v $imports
	watched "END { print \"$2: linking\" }" server_go "$2" tool -n "$3"
	echo "setup: the $1 is built, $(($(date +%s) - begun)) s"
}

look() {
	missing=
	case $what in
	packages) needs add_missing ;;
	all) needs add_missing && needs_all add_missing ;;
	esac
}

case $what in
packages | all)
	look
	if [ -n "$missing" ]; then
		install
		look
	fi
	if [ -n "$missing" ]; then
		echo "setup: these are installed, and the tests would not find what they need of them:$missing"
		exit 1
	fi
	;;
*)
	if [ -z "$what" ] || [ ! -d "internal/servers/$what" ]; then
		echo "setup.sh: say what to get: packages, all, or one of" $(ls internal/servers)
		exit 2
	fi
	servers build
	servers_all build
	;;
esac
