package memory_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
)

// Listing is what a session's List returns, at every stage of a directory's life.
func TestListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc, ctx := memory.New(memory.Options{}), t.Context()
		s, err := svc.Open(ctx, backend.OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(context.Background())
		same := func(when string) {
			t.Helper()
			want, err := s.List(ctx, "/dir")
			if got := svc.Listing("/dir"); err != nil || got.Dir != want.Dir || got.Rev != want.Rev || !slices.Equal(got.Keys, want.Keys) {
				t.Errorf("%s: %+v, want %+v (%v)", when, got, want, err)
			}
		}
		commit := func(op backend.Op) backend.Entry {
			t.Helper()
			made, err := s.Commit(ctx, nil, op)
			if err != nil {
				t.Fatal(err)
			}
			return made[0]
		}
		same("none")
		commit(backend.CompareAndSet("/dir", nil, 0))
		same("empty")
		e := commit(backend.Enqueue("/dir", nil))
		commit(backend.Enqueue("/dir", nil))
		commit(backend.CreateEphemeral("/dir/seat", nil))
		same("two and a seat")
		commit(backend.Delete(e))
		same("one")
		svc.Delete("/dir")
		same("gone")
	})
}

// An entry is enqueued beside what somebody else has put under the name that it would have.
func TestEnqueueBesideATakenName(t *testing.T) {
	svc, ctx := memory.New(memory.Options{}), t.Context()
	s, err := svc.Open(ctx, backend.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first, err := s.Commit(ctx, nil, backend.CompareAndSet("/dir", nil, 0), backend.Enqueue("/dir", nil))
	if err != nil {
		t.Fatal(err)
	}
	taken := strings.TrimSuffix(first[1].Key, "1") + "2"
	if err := svc.Put(taken, []byte("theirs")); err != nil {
		t.Fatal(err)
	}
	second, err := s.Commit(ctx, nil, backend.Enqueue("/dir", nil))
	if err != nil || second[0].Key == taken {
		t.Errorf("enqueued %v (%v), beside a foreign %s", second, err, taken)
	}
	if got := svc.Entry(taken); string(got.Value) != "theirs" {
		t.Errorf("the foreign entry is %+v", got)
	}
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
	svc.Delete("/dir")
}
