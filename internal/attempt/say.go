package attempt

import "runtime"

// These do what those of testing.T do, with the attempt's own Fail and SkipNow.

func (a *attempt) FailNow() {
	a.Fail()
	runtime.Goexit()
}

func (a *attempt) SkipNow() {
	a.mu.Lock()
	a.skipped = true
	a.mu.Unlock()
	runtime.Goexit()
}

func (a *attempt) Error(args ...any) {
	a.Helper()
	a.Log(args...)
	a.Fail()
}

func (a *attempt) Errorf(format string, args ...any) {
	a.Helper()
	a.Logf(format, args...)
	a.Fail()
}

func (a *attempt) Fatal(args ...any) {
	a.Helper()
	a.Log(args...)
	a.FailNow()
}

func (a *attempt) Fatalf(format string, args ...any) {
	a.Helper()
	a.Logf(format, args...)
	a.FailNow()
}

func (a *attempt) Skip(args ...any) {
	a.Helper()
	a.Log(args...)
	a.SkipNow()
}

func (a *attempt) Skipf(format string, args ...any) {
	a.Helper()
	a.Logf(format, args...)
	a.SkipNow()
}
