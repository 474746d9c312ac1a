// Package harness tries the rules of a suite, whichever it is: each in a subtest of its own,
// in attempts that the environment may make void, in a bubble where time is fake, and under a
// watch that ends what hangs. A suite brings its rules, and the place in which one of them is
// tried.
package harness
