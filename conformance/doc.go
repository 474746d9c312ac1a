// Package conformance holds the suites that prove an implementation: the rules of
// a backend, and those of an election.
//
// A suite takes a function that makes a fresh [Service], and runs a table of named
// rules on it. A rule that fails prints itself, one sentence, and what was seen. A
// rule that hangs is ended and named. A rule that cannot be tried on a service is
// reported with the reason, never left out in silence. The suites are biased
// towards no false alarm: run them many times, and with the race detector.
//
// The fields of the types are documented in package kit.
//
// One rule, soak/links, measures the heap. No other rule of this process is tried meanwhile.
// [TestBackendParallel] keeps other parallel tests away from it, too.
//
// With go test -short, and a service outside of the process, TestElection leaves out the rules that
// follow from the contract of package backend, which TestBackend tries, and TestBackend leaves out
// soak/links, which takes long. Of a rule with more than seven states every fifth is tried. The report says so
// of each, with the reason. On a Virtual service nothing is left out.
//
// Rules mostly wait, so have many of them tried side by side: go test -parallel 40 -timeout 60m.
//
// Nothing is tried again. On a real service rules ask for order, fencing, what is written and what
// is read; when things happen they ask on a Virtual service, where time is fake.
package conformance
