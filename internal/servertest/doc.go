// Package servertest starts real coordination servers for tests, alone and as clusters, and other
// programs that are servers.
//
// Servers are child processes of the test binary. They listen on 127.0.0.1
// only, on ports chosen outside the kernel's ephemeral range, keep their data
// in a temporary folder, and are stopped by process id. On Linux the kernel
// kills them if the test binary dies first, however it dies.
//
// ZooKeeper must be installed. The go command builds etcd and Consul from their sources, at
// the versions in internal/servers/*/go.mod, and later finds them in its build cache: the first
// use on a machine takes minutes, which 'make setup' takes ahead of the tests, and the first use
// in a process seconds. Databases and Prometheus are started by the tests that need them, with
// [StartProgram].
//
// The members of a cluster can be put on a network of their own, which can then be broken
// between any two of them: see package networktest. What is between clients and a server is
// broken by a proxy of package proxytest.
//
// A server that cannot be had is an error wrapping [ErrNotInstalled]; the
// ...ForTest helpers turn it into a fatal test failure, never into a skip, so
// that a missing server cannot make a test run look green.
package servertest
