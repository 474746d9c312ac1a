// Package elections has no code of its own: its tests try every strategy on every service, by the
// suite of package conformance.
package elections
