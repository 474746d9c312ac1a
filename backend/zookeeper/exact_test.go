package zookeeper_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/must"
)

// IfUnchanged beside ops on the same entry has the outcome that it has on the memory service.
func TestExactLikeMemory(t *testing.T) {
	t.Parallel()
	f := setUp(t, pings)
	outcome := func(err error) string {
		for _, e := range []error{backend.ErrCondition, backend.ErrConflict, backend.ErrNoEntry, backend.ErrNoParent, backend.ErrExists, backend.ErrBadKey, backend.ErrIndeterminate} {
			if errors.Is(err, e) {
				return e.Error()
			}
		}
		return fmt.Sprint(err)
	}
	service := memory.New(memory.Options{})
	mem := must.Get(service.Open(f.Ctx, backend.OpenOptions{}))(t)
	memOther := must.Get(service.Open(f.Ctx, backend.OpenOptions{}))(t)
	zkOther := f.another(pings).S
	type world struct {
		s, other *backend.Session
		dir      string
	}
	must.Get(mem.Commit(f.Ctx, nil, backend.CompareAndSet("/x", nil, 0)))(t)
	worlds := []world{{mem, memOther, "/x"}, {f.S, zkOther, f.Dir}}
	stale := func(e backend.Entry, by int) backend.Entry { e.Version += uint64(by); return e }
	for how := range 4 { // who has made it, and written to it since
		for _, by := range []int{-1, 0, 1, 2} {
			for name, c := range map[string]func(e backend.Entry, dir string) ([]backend.Condition, []backend.Op){
				"update": func(e backend.Entry, _ string) ([]backend.Condition, []backend.Op) {
					return []backend.Condition{backend.IfUnchanged(stale(e, by))}, []backend.Op{backend.Update(e, []byte("v"))}
				},
				"delete": func(e backend.Entry, _ string) ([]backend.Condition, []backend.Op) {
					return []backend.Condition{backend.IfUnchanged(stale(e, by))}, []backend.Op{backend.Delete(e)}
				},
				"both conditions": func(e backend.Entry, _ string) ([]backend.Condition, []backend.Op) {
					return []backend.Condition{backend.IfExists(e), backend.IfUnchanged(stale(e, by))}, []backend.Op{backend.Update(e, []byte("v"))}
				},
				"two versions": func(e backend.Entry, _ string) ([]backend.Condition, []backend.Op) {
					return []backend.Condition{backend.IfUnchanged(e), backend.IfUnchanged(stale(e, by))}, []backend.Op{backend.Update(e, []byte("v"))}
				},
				"the same twice": func(e backend.Entry, _ string) ([]backend.Condition, []backend.Op) {
					g := backend.IfUnchanged(stale(e, by))
					return []backend.Condition{g, g}, []backend.Op{backend.Update(e, []byte("v"))}
				},
				"beside others": func(e backend.Entry, dir string) ([]backend.Condition, []backend.Op) {
					return []backend.Condition{backend.IfUnchanged(stale(e, by))}, []backend.Op{
						backend.CompareAndSet(fmt.Sprint(dir, "/o", e.Rev, "-", how, by), nil, 0), backend.Update(e, []byte("v")), backend.Enqueue(dir, nil)}
				},
			} {
				var got [2]string
				for i, w := range worlds {
					by := w.s
					if how == 1 {
						by = w.other // never read by w.s
					}
					e := must.Get(by.Commit(f.Ctx, nil, backend.Enqueue(w.dir, nil)))(t)[0]
					if how >= 2 { // written by the other, and own knowledge is outdated
						e = must.Get(w.other.Commit(f.Ctx, nil, backend.Update(e, []byte("other"))))(t)[0]
					}
					if how == 3 {
						e = must.Get(w.s.Commit(f.Ctx, nil, backend.Update(e, []byte("own"))))(t)[0]
					}
					guards, ops := c(e, w.dir)
					_, err := w.s.Commit(f.Ctx, guards, ops...)
					got[i] = outcome(err)
					now, err := w.other.Get(f.Ctx, e.Key)
					if err == nil {
						now = must.Get(w.s.Get(f.Ctx, e.Key))(t)
						got[i] += fmt.Sprintf(" %q v%d", now.Value, now.Version)
					} else {
						got[i] += " " + outcome(err)
					}
				}
				assert.Equal(t, got[0], got[1], "how %d, by %d: %s", how, by, name)
			}
		}
	}
}
