// Start is the program that docs/start.md builds step by step: a job that runs once in a
// fleet, its test on fake time, and a write that fails for an old leader.
//
//	go run ./examples/start
package main
