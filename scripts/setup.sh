#!/bin/sh
# Gets what the tests need beyond Go, and says what it does and how far it is. It installs
# what scripts/needs.sh lists, as Debian packages, if it is not there, and says what to
# install where it can't. It builds the etcd and Consul servers, if they are not in Go's
# build cache. "setup.sh memory" gets only what tests without a server need.
set -eu
cd "$(dirname "$0")/.."
exec >&2
. scripts/needs.sh

only=${1:-}
go=$(find_go)
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
		[ $((seconds % 10)) != 0 ] || echo "      $(awk "$tell" "$log"), $(($(date +%s) - begun)) s"
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

step=0
begin() {
	step=$((step + 1))
	begun=$(date +%s)
	echo "[$step/$steps] $*"
}

missing=
add_missing() {
	[ "$only" != memory ] || [ "$2" = c_compiler ] || return 0
	"find_$2" >/dev/null || missing="$missing $3"
}
needs add_missing

unbuilt=
add_unbuilt() {
	[ "$only" != memory ] || return 0
	find_server "$2" "$3" >/dev/null || unbuilt="$unbuilt $2"
}
servers add_unbuilt

if [ -z "$missing$unbuilt" ]; then
	echo "setup: all is there${only:+ for SERVICE=$only} ('make doctor' shows it)"
	exit
fi
# shellcheck disable=SC2086 # lists
steps=$({ [ -z "$missing" ] || printf '%s\n' update install; printf '%s\n' $unbuilt; } | grep -c .)

if [ -n "$missing" ]; then
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		cat <<-EOT
		The tests run on real servers of ZooKeeper, PostgreSQL, MariaDB and Prometheus,
		beside other systems' candidates, and look at a page in a real browser.
		Missing here:$missing
		(names of Debian packages). On Debian or Ubuntu:

		    sudo apt-get install --no-install-recommends$missing

		Elsewhere: install a Java runtime (11 or later), put ZooKeeper's jars and their
		dependencies into one folder, and set ELECTOR_ZK_JARS to it. Have Chromium or
		Chrome in PATH as chromium, chromium-browser or google-chrome, in PATH also
		etcdctl, dig, PostgreSQL's postgres and initdb, mariadbd, prometheus and promtool, and a
		python3 with kazoo (pip install kazoo).
		EOT
		exit 1
	fi
	export DEBIAN_FRONTEND=noninteractive
	begin "apt-get update"
	watched '/^Get:/ { got++ } END { printf "%d lists of packages downloaded", got }' apt-get update

	# Debian's PostgreSQL would make a database of its own and start a server on it, which then stays.
	case " $missing " in *" postgresql "*)
		created=/etc/postgresql-common/createcluster.d/elector.conf
		mkdir -p "${created%/*}"
		echo 'create_main_cluster = false' >"$created"
		;;
	esac
	# Of Prometheus it would start a server, unless this file forbids that.
	case " $missing " in *" prometheus "*)
		if [ ! -e /usr/sbin/policy-rc.d ]; then
			created="$created /usr/sbin/policy-rc.d"
			printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
			chmod +x /usr/sbin/policy-rc.d
		fi
		;;
	esac
	# shellcheck disable=SC2086 # a list
	apt-get install -y --print-uris --no-install-recommends $missing >"$log"
	size=$(awk '$3 ~ /^[0-9]+$/ { n++; bytes += $3 } END { printf "%d packages, %.0f MB to download", n, bytes / 1e6 }' "$log")
	begin "apt-get install$missing: $size"
	# shellcheck disable=SC2086 # a list
	watched '
		/^Get:/        { got++ }
		/^Unpacking /  { unpacked++ }
		/^Setting up / { done++ }
		END { printf "%d packages downloaded, %d unpacked, %d installed", got, unpacked, done }
	' apt-get install -y --no-install-recommends $missing
fi

# build builds a server, in steps that can be watched. The last one builds it as the tests
# do. "go tool" alone would say nothing for minutes, and "go build" of the server itself
# would link one that the tests do not use.
build() { # name, folder, package, module
	case " $unbuilt " in *" $2 "*) ;; *) return 0 ;; esac
	begin "building the $1 $(version_server "$2" "$4"): minutes the first time, then from Go's cache"
	downloads='/^go: downloading/ { got++ } END { printf "%d modules downloaded", got }'
	watched "$downloads" server_go "$2" list -deps -f '{{.ImportPath}}{{if not .DepOnly}} {{join .Imports " "}}{{end}}' "$3"
	all=$(grep -vc '^go: ' "$log")
	imports=$(sed -n "s|^$3 ||p" "$log")
	watched '!/^go: / { n++ } END { printf "'"$2"': %d of up to '"$all"' packages compiled", n }' server_go "$2" build -v $imports
	watched "END { print \"$2: linking\" }" server_go "$2" tool -n "$3"
	echo "      $2: built, $(($(date +%s) - begun)) s"
}
servers build
echo "setup: all is there ('make doctor' shows it)"
