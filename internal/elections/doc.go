// Package elections has no code: its tests run every strategy on every service with the suite of package
// conformance.
package elections
