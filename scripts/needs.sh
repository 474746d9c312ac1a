# What the tests need beyond Go. setup.sh gets it and doctor.sh shows it: both read this file
# from the root of the repository. Nothing here changes anything or downloads anything.

# needs calls a command once for everything that make test needs of the system, with
#   a name, the suffix of its functions find_… and version_…, its Debian packages, what it is for
# find_… prints where it is, and fails if it is missing.
needs() {
	"$1" "C compiler" c_compiler "gcc libc6-dev" "the race detector"
	"$1" "Java" java openjdk-17-jre-headless "ZooKeeper; 11 or later"
	"$1" "ZooKeeper jars" zookeeper zookeeper "the ZooKeeper servers"
}

# needs_all does that for what only make test-all needs.
needs_all() {
	"$1" "Chromium" chromium chromium "the page of elector compare"
	"$1" "PostgreSQL" postgresql postgresql "package fence"
	"$1" "MariaDB" mariadb mariadb-server-core "package fence"
	"$1" "Prometheus" prometheus prometheus "the metrics' alerts and dashboard"
	"$1" "kazoo" kazoo python3-kazoo "others' candidates on ZooKeeper"
	"$1" "etcdctl" etcdctl etcd-client "others' candidates on etcd"
	"$1" "Kerberos" kerberos "krb5-kdc krb5-admin-server krb5-user" "Kerberized ZooKeeper"
	if own_networks; then
		"$1" "ip, tc, ss" network_tools iproute2 "cutting servers off from each other"
	fi
}

# servers calls a command once for every server that Go builds for make test, with
#   a name, its folder in internal/servers, its package, its module
servers() {
	"$1" "etcd server" etcd go.etcd.io/etcd/server/v3 go.etcd.io/etcd/server/v3
	"$1" "Consul server" consul github.com/hashicorp/consul github.com/hashicorp/consul
}

# servers_all does that for what only make test-all needs.
servers_all() {
	"$1" "kube-apiserver" kubernetes k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes
}

find_c_compiler() {
	# shellcheck disable=SC2086 # it may have flags
	set -- ${CC:-gcc}
	command -v "$1" && echo '#include <stdlib.h>' | "$@" -E - >/dev/null 2>&1
}
version_c_compiler() { ${CC:-gcc} -dumpfullversion -dumpversion; }

# As in internal/servertest/zookeeper_install.go.
find_java() {
	{ [ -n "${JAVA_HOME:-}" ] && command -v "$JAVA_HOME/bin/java"; } || command -v java
}
version_java() { "$(find_java)" -version 2>&1 | sed -n 's/.* version "\(.*\)".*/\1/p'; }

# Debian's folder has plain names, the lib folder of an Apache release has versions in them.
zookeeper_jars=${ELECTOR_ZK_JARS:-/usr/share/java}
find_zookeeper() {
	if [ -e "$zookeeper_jars/zookeeper.jar" ] && [ -e "$zookeeper_jars/zookeeper-jute.jar" ]; then
		echo "$zookeeper_jars"
	else
		version_zookeeper | grep -q . && echo "$zookeeper_jars"
	fi
}
version_zookeeper() {
	ls "$zookeeper_jars" 2>/dev/null | sed -n 's/^zookeeper-\([0-9].*\)\.jar$/\1/p'
}

# By any of the names that the tests try.
find_chromium() {
	command -v chromium || command -v chromium-browser || command -v google-chrome
}
version_chromium() { "$(find_chromium)" --version 2>/dev/null | grep -o '[0-9][0-9.]*' | head -n 1; }

# As in internal/fencetest/servers_test.go: the newest version of Debian, which keeps them out of PATH.
find_postgresql() {
	for postgres in $(ls -rd /usr/lib/postgresql/*/bin/postgres 2>/dev/null) postgres; do
		command -v "$postgres" && command -v "${postgres%postgres}initdb" >/dev/null && return
	done
	return 1
}
version_postgresql() { "$(find_postgresql | head -n 1)" --version | sed 's/[^0-9]*\([0-9.]*\).*/\1/'; }

find_mariadb() { command -v /usr/sbin/mariadbd || command -v mariadbd; }
version_mariadb() { "$(find_mariadb)" --version | sed -n 's/.*Ver \([0-9.]*\).*/\1/p'; }

# promtool comes with it.
find_prometheus() { command -v prometheus && command -v promtool >/dev/null; }
version_prometheus() { prometheus --version 2>&1 | sed -n 's/^prometheus, version \([^ ]*\).*/\1/p'; }

# As in internal/strangertest: a Python that has kazoo.
find_kazoo() {
	for python in python3 /usr/bin/python3; do
		"$python" -c 'import kazoo' 2>/dev/null && command -v "$python" && return
	done
	return 1
}
version_kazoo() { "$(find_kazoo)" -c 'import kazoo.version; print(kazoo.version.__version__)'; }

# As in internal/servertest/kdc.go.
find_kerberos() {
	for program in krb5kdc kdb5_util kadmin.local; do
		command -v "$program" >/dev/null || command -v "/usr/sbin/$program" >/dev/null || return
	done
	command -v kinit
}
version_kerberos() { klist -V 2>/dev/null | sed 's/.*version //'; }

find_etcdctl() { command -v etcdctl; }
version_etcdctl() { ETCDCTL_API=3 etcdctl version | sed -n 's/^etcdctl version: //p'; }

# own_networks tells whether tests may have networks of their own: root on Linux.
own_networks() { [ "$(uname -s)" = Linux ] && [ "$(id -u)" = 0 ]; }
find_network_tools() { command -v ip && command -v tc >/dev/null && command -v ss >/dev/null; }
version_network_tools() { ip -V | sed 's/.*iproute2-\([^,]*\).*/\1/'; }

# find_go prints the go command that the tests find first in their PATH: go test puts its own
# there. Another would not find in the cache what it has built.
find_go() {
	root=$("${GO:-go}" env GOROOT) && command -v "$root/bin/go"
}

# server_go runs go for the server in a folder, with the flags of internal/servertest/build.go,
# so that the tests find in the cache what was built here. The shell becomes go, so that a
# signal to the one ends the other: call it in a shell of its own.
server_go() {
	folder=$1
	shift
	exec env GOWORK=off GOFLAGS=-mod=readonly "$go" -C "internal/servers/$folder" "$@"
}

# find_server prints where in Go's cache the executable is. Go builds it if it is not
# there, and fails at that where it may not write a file.
find_server() { # folder, package
	(
		trap '' XFSZ
		ulimit -f 0
		export GOPROXY=off
		server_go "$1" tool -n "$2" 2>/dev/null
	)
}
version_server() { # folder, module
	awk -v module="$2" '$1 == module || $2 == module { version = $NF == "indirect" ? $(NF - 2) : $NF } END { print version }' \
		"internal/servers/$1/go.mod"
}
