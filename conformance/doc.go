// Package conformance holds the suites that test an implementation: the rules of a backend, and the rules
// of an election.
//
// A suite takes a function that makes a fresh [Service], and runs a table of named rules on it. A rule
// that fails prints its text and what the test saw. A rule that hangs is ended and named.
// A rule that cannot be tried on a service is reported with the reason, never skipped in silence. The
// suites avoid false alarms, so they may miss a fault: run them many times, and with the race detector.
//
// One rule, soak/links, measures the heap. No other rule of this process runs meanwhile.
// [TestBackendParallel] keeps other parallel tests away from it, too.
//
// With go test -short, on a service outside of the process, TestElection leaves out the rules that
// follow from the contract of package backend, and TestBackend leaves out soak/links. A rule with more
// than seven states is tried in every fifth. The report says so of each, with the reason.
//
// Rules mostly wait, so run many of them in parallel: go test -parallel 40 -timeout 60m.
//
// A rule that fails is not retried. On a real service rules check order, fencing, and what is written and
// read. They check when things happen only on a Virtual service, where time is fake.
package conformance
