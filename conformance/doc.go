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
// On a real service a rule may fail because the machine or the servers stood still. A control
// tells: see Controls of [Service]. An attempt that failed while the control did is void, and the
// rule is tried again. The third attempt has the process for itself. A rule that was void three
// times has failed. The report has the number of void attempts of each rule, and why they were.
package conformance
