package process

import "testing"

// ForTest starts a process, and kills it when the test ends. If the test has failed, the log gets the end of the
// process's output.
func ForTest(tb testing.TB, spec Spec) *Process {
	tb.Helper()
	p := New(spec)
	if err := p.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("%s says:\n%s", spec.Name, p.LogTail(4096))
		}
		if err := p.Kill(); err != nil {
			tb.Error(err)
		}
	})
	return p
}
