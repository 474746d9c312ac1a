// Package servertest starts real coordination servers for tests, alone and as clusters, and other programs
// that are servers.
//
// Servers are child processes of the test binary. They listen only on 127.0.0.1, or with a Network on their
// site's address, on ports outside the kernel's ephemeral range, keep their data in a temporary folder, and
// are stopped by process ID. On Linux the kernel kills them if the test binary dies first in any way.
//
// ZooKeeper must be installed. The go command builds etcd, Consul and Kubernetes' API server from their
// sources, at the versions in internal/servers/*/go.mod, and later finds them in its build cache. The first
// use on a machine takes minutes, unless 'make setup' or, for the API server, 'make setup-all' ran before; the
// first use in a process takes seconds. Tests that need databases or Prometheus start them with
// [StartProgram].
//
// Package networktest connects the members of a cluster by a network that can be broken between any two of
// them. A proxy of package proxytest breaks the links between clients and a server.
//
// A server that is not available is an error wrapping [ErrNotInstalled]. The ...ForTest helpers turn it
// into a fatal test failure, never into a skip: a missing server cannot make a test run look green.
package servertest
