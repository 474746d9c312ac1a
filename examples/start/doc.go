// Start is the program that docs/start.md builds step by step: a job that runs once in
// a fleet, its test on fake time, and a write that an old leader cannot make.
//
//	go run ./examples/start
package main
