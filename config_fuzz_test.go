package elector_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/catalog"
	"github.com/elector-go/elector/strategy/kafka"
)

// strategies are the strategies that the fuzz targets choose from.
var strategies = func() (all []strategy.Strategy) {
	for _, item := range catalog.All() {
		if item.Strategy == strategy.Strategy(kafka.Strategy{}) {
			item.Strategy = kafka.ForBroker(7) // it takes any ID
		}
		all = append(all, item.Strategy)
	}
	return all
}()

// unreadable returns why an error is unfit for a log, or "": its lines must be printable, and no longer
// than a limit, even if somebody else chose the text.
func unreadable(err error) string {
	text := err.Error()
	switch {
	case len(text) > 8<<10:
		return "too long"
	case !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && unicode.IsControl(r) }):
		return "no text"
	}
	return ""
}

// FuzzConfig checks that a candidate that New accepts can be elected, and that others see its fields byte
// for byte; and that a refusal is a readable ErrConfig.
func FuzzConfig(f *testing.F) {
	for i := range strategies {
		f.Add(uint8(i), "/jobs/reindex", "host-1", []byte("10.0.0.1:80"))
		f.Add(uint8(i), "/", "7", []byte(nil))
		f.Add(uint8(i), "jobs", "", []byte{0, 0xff})
		f.Add(uint8(i), "/"+strings.Repeat("x", elector.MaxElection-1), strings.Repeat("é", elector.MaxID/2), []byte("\u2028<>&\"\\"))
		f.Add(uint8(i), strings.Repeat("/x", elector.MaxElectionSegments), "a", []byte(nil))
		f.Add(uint8(i), "/a\n", "a\x00b", []byte("{}"))
		f.Add(uint8(i), "/controller", "\xff", bytes.Repeat([]byte{'"'}, 1000))
		f.Add(uint8(i), strings.Repeat("/..", 5000), strings.Repeat("\x7f", 50_000), make([]byte, elector.MaxValue+1))
	}
	f.Fuzz(func(t *testing.T, which uint8, election, id string, value []byte) {
		s := strategies[int(which)%len(strategies)]
		service := memory.New(memory.Options{})
		e, err := elector.New(elector.Config{Backend: service, Strategy: s, Election: election, ID: id, Value: value})
		if err != nil {
			assert.ErrorIs(t, err, elector.ErrConfig)
			assert.Empty(t, unreadable(err), "%.300q", err)
			if bad := backend.CheckKey(election); bad != nil && election != "/" && !strings.Contains(err.Error(), "Config.Election") {
				t.Errorf("election %q: %v, and no word of it in %v", election, bad, err)
			}
			return
		}
		term, err := e.Campaign(t.Context())
		require.NoError(t, err, "candidate %q of election %q", id, election)
		if s.Name() == "kafka" {
			id = "7"
		}
		leader, err := e.Leader(t.Context())
		if err != nil || leader.ID != id || !bytes.Equal(leader.Value, value) || leader.Token != term.Token() {
			t.Errorf("candidate %q, %q leads %q as %+v: %v", id, value, election, leader, err)
		}
		all := must.Get(e.Candidates(t.Context()))(t)
		require.Len(t, all, 1)
		assert.True(t, all[0].ID == id && bytes.Equal(all[0].Value, value) && all[0].Leads, "candidates of %q are %+v", election, all)
		assert.NoError(t, e.Close(context.Background()))
		if s := service.Stats(); s.Sessions != 0 || s.Watches != 0 {
			t.Errorf("%d sessions and %d watches are left", s.Sessions, s.Watches)
		}
	})
}

// FuzzCommit checks that a leader can write any key except the election's own, and that a write goes to
// that very key, or nothing was written.
func FuzzCommit(f *testing.F) {
	for i := range strategies {
		for _, key := range []string{
			"", "/", "/jobs", "/jobs/e", "/jobs/e/", "/jobs/e/x", "/jobs/e/DIR", "/jobs/e/DIR/x", "/jobs/e/DIRx", "/jobs/e/DIR/seat", "/jobs/e/DIR/seat/x",
			"/jobs/e/controller", "/jobs/e/controller_epoch", "/jobs/e/controller/x", "/jobs/e/controller_epoch/x", "/jobs/ee", "/x/y/z", "/x\x00", "x",
		} {
			for op := range uint8(4) {
				f.Add(uint8(i), key, op, []byte("v"), uint64(op))
			}
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, key string, op uint8, value []byte, version uint64) {
		const election = "/jobs/e"
		s := strategies[int(which)%len(strategies)]
		service := memory.New(memory.Options{})
		e := must.Get(elector.New(elector.Config{Backend: service, Strategy: s, Election: election, ID: "7"}))(t)
		defer func() {
			assert.NoError(t, e.Close(context.Background()))
		}()
		term := must.Get(e.Campaign(t.Context()))(t)
		require.NoError(t, term.Proclaim(t.Context(), []byte("mine"))) // the elector itself writes nothing after this
		seat := term.Guard().Conditions[len(term.Guard().Conditions)-1].Entry.Key
		key = strings.Replace(key, "DIR", strings.TrimPrefix(backend.Parent(seat), election+"/"), 1)
		own := append(service.Entries(backend.Parent(seat)), service.Entry(election))
		was := service.Dump()

		do := []elector.Write{elector.Create(key, value), elector.Put(key, value), elector.CompareAndSet(key, value, version), elector.Delete(key)}[op%4]
		made, err := term.Commit(t.Context(), do)
		if err != nil {
			assert.Equal(t, was, service.Dump(), err)
		}
		if err != nil && len(key) < 1000 && backend.CheckKey(key) == nil {
			assert.Empty(t, unreadable(err), "%q", err)
		}
		if now := service.Entry(key); err == nil && op%4 != 3 && (!bytes.Equal(now.Value, value) || now.Session != "" || !now.Same(made[0])) {
			t.Errorf("%+v was written, and %+v is there", made, now)
		}
		for _, e := range own {
			// What was put below the election is the user's own; its parent must not change.
			if now := service.Entry(e.Key); !now.Same(e) {
				t.Errorf("%s was the election's own, %+v, and is %+v", e.Key, e, now)
			}
		}
		leader, err := e.Leader(t.Context())
		assert.True(t, term.Valid() && err == nil && string(leader.Value) == "mine", "the leader is %+v, %v; valid: %t", leader, err, term.Valid())
	})
}
