// Package kit holds what a user of the suites fills in, and what comes back: the service under
// test, with what it can be made to do, the election under test, and the report. Package
// conformance has all of it under the same names, so that it is the only import you need; here
// stand the fields.
package kit
