package attempt

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A scribe is a testing.TB whose log can be read. It is the outer one of an attempt that
// stands for the test, so that Run may fail it.
type scribe struct {
	testing.TB
	said strings.Builder
}

func (s *scribe) Log(args ...any)                 { fmt.Fprintln(&s.said, args...) }
func (s *scribe) Logf(format string, args ...any) { fmt.Fprintf(&s.said, format+"\n", args...) }

// A verdict is what has become of a test that called Run.
type verdict struct {
	failed, skipped bool
	void            []string
	said            string
}

func judge(t *testing.T, env Observer, try func(t testing.TB)) (v verdict) {
	s := &scribe{TB: t}
	test := &attempt{TB: s, n: 1}
	test.run(func(t testing.TB) { v.void = Run(t, env, nil, try) })
	v.failed, v.skipped, v.said = test.Failed(), test.Skipped(), s.said.String()
	return v
}

// An observer is a function that tells what was wrong; the environment settles at once.
type observer func(from, to time.Time) string

func (o observer) Trouble(from, to time.Time) string  { return o(from, to) }
func (o observer) Latest(time.Time, time.Time) string { return "" }
func (o observer) Settle() string                     { return "" }

const still = "the server stood still"

var (
	well    observer = func(time.Time, time.Time) string { return "" }
	unwell  observer = func(time.Time, time.Time) string { return still }
	unasked observer = func(time.Time, time.Time) string { panic("the environment of an attempt that passed was asked for") }
)

// fails are all the ways for an attempt to fail.
var fails = map[string]func(t testing.TB){
	"Error":   func(t testing.TB) { t.Error("saw", "it") },
	"Errorf":  func(t testing.TB) { t.Errorf("saw %s", "it") },
	"Fatal":   func(t testing.TB) { t.Fatal("saw", "it") },
	"Fatalf":  func(t testing.TB) { t.Fatalf("saw %s", "it") },
	"Fail":    func(t testing.TB) { t.Log("saw it"); t.Fail() },
	"FailNow": func(t testing.TB) { t.Log("saw it"); t.FailNow() },
	"cleanup": func(t testing.TB) { t.Cleanup(func() { t.Fatal("saw it") }) },
	"Goexit":  func(t testing.TB) { t.Log("saw it"); runtime.Goexit() },
}

func TestBrokenAtOnce(t *testing.T) {
	for name, fail := range fails {
		t.Run(name, func(t *testing.T) {
			tries := 0
			v := judge(t, well, func(t testing.TB) { tries++; fail(t) })
			if !v.failed || tries != 1 || len(v.void) != 0 || !strings.Contains(v.said, "saw it") {
				t.Errorf("tried %d times; %+v", tries, v)
			}
		})
	}
}

func TestVoidIsTriedAgain(t *testing.T) {
	for name, fail := range fails {
		t.Run(name, func(t *testing.T) {
			tries := 0
			v := judge(t, unwell, func(t testing.TB) {
				if tries++; tries < Most {
					fail(t)
				}
			})
			if v.failed || tries != Most || !slices.Equal(v.void, []string{still, still}) {
				t.Errorf("tried %d times; %+v", tries, v)
			}
		})
	}
}

func TestVoidThreeTimes(t *testing.T) {
	tries := 0
	v := judge(t, unwell, func(t testing.TB) { tries++; t.Fatal("saw it") })
	if !v.failed || tries != Most || len(v.void) != Most || !strings.Contains(v.said, "void 3 times in a row") {
		t.Errorf("tried %d times; %+v", tries, v)
	}
}

// crowded settles only once the crowd has gone.
type crowded struct {
	observer
	gone *bool
}

func (c crowded) Settle() string {
	if *c.gone {
		return ""
	}
	return "the others take the processors"
}

// What does not settle beside others is tried alone at once.
func TestSettlesAlone(t *testing.T) {
	var did []string
	gone := false
	test := &attempt{TB: &scribe{TB: t}, n: 1}
	test.run(func(t testing.TB) {
		Run(t, crowded{unwell, &gone}, func() { gone = true; did = append(did, "alone") }, func(t testing.TB) {
			did = append(did, "try")
			if !gone {
				t.Fail()
			}
		})
	})
	if want := []string{"try", "alone", "try"}; !slices.Equal(did, want) || test.Failed() {
		t.Errorf("did %v, want %v; failed: %v", did, want, test.Failed())
	}
}

// Nothing else is beside the last attempt, and others are beside those before.
func TestLastAttemptIsAlone(t *testing.T) {
	var did []string
	test := &attempt{TB: &scribe{TB: t}, n: 1}
	test.run(func(t testing.TB) {
		Run(t, unwell, func() { did = append(did, "alone") }, func(t testing.TB) { did = append(did, "try"); t.Fail() })
	})
	if want := []string{"try", "try", "alone", "try"}; !slices.Equal(did, want) {
		t.Errorf("did %v, want %v", did, want)
	}
}

// A test that passes counts, and nobody asks what the environment was like.
func TestPassCounts(t *testing.T) {
	v := judge(t, unasked, func(testing.TB) {})
	if v.failed || v.void != nil {
		t.Errorf("%+v", v)
	}
}

func TestPanicIsBroken(t *testing.T) {
	tries, cleaned := 0, false
	v := judge(t, unwell, func(t testing.TB) {
		tries++
		t.Cleanup(func() { cleaned = true })
		panic("at the disco")
	})
	if !v.failed || tries != 1 || !cleaned || !strings.Contains(v.said, "panic: at the disco") || !strings.Contains(v.said, "TestPanicIsBroken") {
		t.Errorf("tried %d times, cleaned up: %v; %+v", tries, cleaned, v)
	}
}

func TestSkip(t *testing.T) {
	v := judge(t, unasked, func(t testing.TB) { t.Skipf("not %s", "here") })
	if v.failed || !v.skipped || !strings.Contains(v.said, "not here") {
		t.Errorf("%+v", v)
	}
}

// Each attempt has cleanups, a context and a name of its own, and is over before it is judged.
func TestAttemptsAreApart(t *testing.T) {
	var order, names []string
	var judged bool
	v := judge(t, observer(func(time.Time, time.Time) string {
		judged = true
		order = append(order, "judged")
		return "busy"
	}), func(t testing.TB) {
		names = append(names, t.Name())
		if t.Failed() {
			t.Log("the failure of one attempt is seen by the next")
		}
		ctx := t.Context()
		t.Cleanup(func() {
			if ctx.Err() == nil {
				t.Error("the context outlives the attempt")
			}
			order = append(order, "first")
		})
		t.Cleanup(func() {
			t.Cleanup(func() { order = append(order, "of a cleanup") })
			order = append(order, "second")
			if !judged {
				t.FailNow() // the cleanups that are left are done
			}
		})
	})
	once := []string{"second", "of a cleanup", "first"}
	want := slices.Concat(once, []string{"judged"}, once)
	if v.failed || !slices.Equal(order, want) || v.said == "" {
		t.Errorf("order is %q, want %q; %+v", order, want, v)
	}
	if want := []string{t.Name(), t.Name() + ", attempt 2"}; !slices.Equal(names, want) {
		t.Errorf("names are %q, want %q", names, want)
	}
	if strings.Contains(v.said, "is seen by the next") || strings.Contains(v.said, "outlives") {
		t.Error(v.said)
	}
}

// What fails after its attempt has passed fails the test.
func TestFailsLate(t *testing.T) {
	var late testing.TB
	s := &scribe{TB: t}
	test := &attempt{TB: s, n: 1}
	test.run(func(t testing.TB) {
		Run(t, well, nil, func(t testing.TB) { late = t })
		late.Error("too late")
	})
	if !test.Failed() {
		t.Error("nobody hears of it")
	}
}

// A goroutine of the attempt may fail it while it goes on, and read whether it has failed.
func TestFailsFromAnywhere(t *testing.T) {
	v := judge(t, well, func(t testing.TB) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			t.Error("saw it elsewhere")
		}()
		for !t.Failed() {
			runtime.Gosched()
		}
		<-done
	})
	if !v.failed {
		t.Errorf("%+v", v)
	}
}

// The environment is asked for until the first failure: what is wrong with it while the attempt
// cleans up is no excuse.
func TestStretch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var from, to time.Time
		judge(t, observer(func(f, e time.Time) string { from, to = f, e; return "" }), func(t testing.TB) {
			t.Cleanup(func() { time.Sleep(time.Second); t.Error("and this") })
			time.Sleep(time.Second)
			t.Fail()
		})
		if !from.Equal(began) || to.Sub(from) != time.Second {
			t.Errorf("from %v, for %v", from.Sub(began), to.Sub(from))
		}
	})
}

// One standstill makes one attempt void: the next one begins when it is over.
func TestOneStandstill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		e := Observe(t, timeout, s.control)
		time.Sleep(timeout)
		s.still <- 5 * timeout
		over := time.Now().Add(5 * timeout)
		tries := 0
		v := judge(t, e, func(t testing.TB) {
			tries++
			time.Sleep(timeout / 2)
			if time.Now().Before(over) {
				t.Error("nobody answers")
			}
		})
		if v.failed || tries != 2 || len(v.void) != 1 {
			t.Errorf("tried %d times; %+v", tries, v)
		}
	})
}

// An environment that does not become well again is said, and the test has failed.
func TestNeverSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		e := Observe(t, timeout, s.control)
		s.still <- time.Hour
		v := judge(t, e, func(t testing.TB) {
			time.Sleep(timeout)
			t.Error("nobody answers")
		})
		if !v.failed || len(v.void) != 1 || !strings.Contains(v.said, "does not become well") {
			t.Errorf("%+v", v)
		}
		time.Sleep(time.Hour) // the control has nothing on its way any more
	})
}
