package attempt

import (
	"slices"
	"strings"
	"testing"
)

// A test that says itself that it could not be tried is tried again, in an environment that is
// well by all that others see; and it is not green if it never could.
func TestSaysItIsVoid(t *testing.T) {
	for _, tries := range []int{1, Most - 1, Most} {
		n, went := 0, false
		v := judge(t, well, func(t testing.TB) {
			if n++; n <= tries {
				Void(t, "the link came back late")
				went = true
			}
		})
		if went {
			t.Error("the attempt goes on")
		}
		if want := slices.Repeat([]string{"the link came back late"}, tries); !slices.Equal(v.void, want) || n != min(tries+1, Most) {
			t.Errorf("tried %d times; %+v", n, v)
		}
		if v.failed != (tries == Most) {
			t.Errorf("%d void attempts: failed %v", tries, v.failed)
		}
	}
}

// What it says comes first, as it knows more than the environment.
func TestSaysWhy(t *testing.T) {
	v := judge(t, unwell, func(t testing.TB) { Void(t, "the link came back late") })
	if !v.failed || len(v.void) != Most || v.void[0] != "the link came back late" {
		t.Errorf("%+v", v)
	}
}

// What an excuse is for counts if it passes, and is void if it fails.
func TestExcuse(t *testing.T) {
	if v := judge(t, unasked, func(t testing.TB) { Excuse(t, "the link came back late") }); v.failed || v.void != nil {
		t.Errorf("it passed: %+v", v)
	}
	tries := 0
	v := judge(t, well, func(t testing.TB) {
		if tries++; tries == 1 {
			Excuse(t, "the link came back late")
			t.Error("the session is lost")
		}
	})
	if v.failed || tries != 2 || !slices.Equal(v.void, []string{"the link came back late"}) {
		t.Errorf("it failed once: tried %d times; %+v", tries, v)
	}
	Excuse(struct{ testing.TB }{t}, "no attempt")
}

// It is no excuse for a failure before it, nor for a panic after it.
func TestVoidIsNoExcuse(t *testing.T) {
	for name, try := range map[string]func(t testing.TB){
		"failed before": func(t testing.TB) {
			t.Error("saw it")
			Void(t, "the link came back late")
		},
		"failed before an excuse": func(t testing.TB) {
			t.Error("saw it")
			Excuse(t, "the link came back late")
		},
		"panics in a cleanup": func(t testing.TB) {
			t.Cleanup(func() { panic("saw it") })
			Void(t, "the link came back late")
		},
	} {
		tries := 0
		v := judge(t, well, func(t testing.TB) { tries++; try(t) })
		if !v.failed || tries != 1 || v.void != nil || !strings.Contains(v.said, "saw it") {
			t.Errorf("%s: tried %d times; %+v", name, tries, v)
		}
	}
}

// A testing.TB that is no attempt fails, and says why.
func TestVoidOutsideOfAttempts(t *testing.T) {
	s := &scribe{TB: t}
	test := &attempt{TB: s, n: 1}
	test.run(func(t testing.TB) { Void(struct{ testing.TB }{t}, "the link came back late") })
	if !test.Failed() || test.saidVoid() != "" || !strings.Contains(s.said.String(), "the link came back late") {
		t.Errorf("failed %v, void %q, said %q", test.Failed(), test.saidVoid(), &s.said)
	}
}
