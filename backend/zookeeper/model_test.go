package zookeeper_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/internal/zktest"
)

// A world is one service with two sessions and their entries.
type world struct {
	root     string
	sessions []*backend.Session
	// Incarnations by key, oldest first: the last one may exist.
	known map[string][]backend.Entry
}

func newWorld(t *testing.T, ctx context.Context, b backend.Backend, root string) *world {
	t.Helper()
	w := &world{root: root, known: map[string][]backend.Entry{}}
	for range 2 {
		s := must.Get(b.Open(ctx, backend.OpenOptions{}))(t)
		t.Cleanup(func() { _ = s.Close(context.Background()) }) // its error does not matter
		w.sessions = append(w.sessions, s)
	}
	return w
}

// modelKeys are the keys of the random commits, below a world's root.
var modelKeys = []string{"/a", "/a/b", "/a/b/c", "/a/s", "/a/b/s", "/x", "/x/y", "/x/s"}

// An intent is an op, or a condition, before the revision is known that it is about.
type intent struct {
	kind  backend.OpKind // 0 for IfExists, -1 for IfUnchanged
	key   string
	value string
	age   int // how many incarnations back
	// OpCompareAndSet: the expected version, relative to the one before the commit; or no entry.
	plus int
	none bool
}

func (w *world) entry(in intent) backend.Entry {
	known := w.known[in.key]
	if i := len(known) - 1 - in.age; i >= 0 && (in.kind >= 0 || known[i].Session != "") {
		return known[i]
	}
	if i := len(known) - 1; i >= 0 {
		return known[i] // IfUnchanged cannot identify an earlier persistent one
	}
	return backend.Entry{Key: w.root + in.key, Rev: 1 << 62, Version: 1} // never existed
}

func (w *world) op(ctx context.Context, in intent) backend.Op {
	key, value := w.root+in.key, []byte(in.value)
	switch in.kind {
	case backend.OpCreateEphemeral:
		return backend.CreateEphemeral(key, value)
	case backend.OpEnqueue:
		return backend.Enqueue(key, value)
	case backend.OpCompareAndSet:
		now, _ := w.sessions[0].Get(ctx, key) // the zero Entry if there is none
		if in.none {
			return backend.CompareAndSet(key, value, 0)
		}
		return backend.CompareAndSet(key, value, now.Version+uint64(in.plus))
	case backend.OpUpdate:
		return backend.Update(w.entry(in), value)
	}
	return backend.Delete(w.entry(in))
}

func (w *world) commit(ctx context.Context, by int, guards, ops []intent) error {
	var g []backend.Condition
	for _, in := range guards {
		g = append(g, backend.Condition{Entry: w.entry(in), Exact: in.kind < 0})
	}
	var o []backend.Op
	for _, in := range ops {
		o = append(o, w.op(ctx, in))
	}
	_, err := w.sessions[by].Commit(ctx, g, o...)
	for _, key := range modelKeys {
		now, getErr := w.sessions[by].Get(ctx, w.root+key)
		switch known := w.known[key]; {
		case getErr != nil:
		case len(known) > 0 && known[len(known)-1].Rev == now.Rev:
			known[len(known)-1] = now
		default:
			w.known[key] = append(known, now)
		}
	}
	return err
}

// dump describes the state: owners, values, and versions where they count writes only.
func (w *world) dump(t *testing.T, ctx context.Context) string {
	var b strings.Builder
	for _, key := range modelKeys {
		e, err := w.sessions[0].Get(ctx, w.root+key)
		if err != nil {
			require.ErrorIs(t, err, backend.ErrNoEntry)
			continue
		}
		owner := ""
		for i, s := range w.sessions {
			if e.Session == s.ID() {
				owner = fmt.Sprint(i)
			}
		}
		value := string(e.Value)
		if strings.HasPrefix(value, "elector-create-") {
			value = ""
		}
		fmt.Fprintf(&b, "%s %q %s", key, value, owner)
		if strings.HasSuffix(key, "s") || strings.HasSuffix(key, "c") {
			fmt.Fprintf(&b, " version %d", e.Version)
		}
		l := must.Get(w.sessions[0].List(ctx, w.root+key))(t)
		for _, child := range l.Keys {
			e := must.Get(w.sessions[0].Get(ctx, child))(t)
			fmt.Fprintf(&b, " +%s", e.Value)
		}
		b.WriteString("\n")
	}
	return b.String()
}

var seed = flag.Uint64("seed", 1, "of the random commits")

// TestCommitsLikeMemory tries random commits, some with a lost reply or request, on a real server and
// on the memory backend: both do them or both do not, with the same state after.
func TestCommitsLikeMemory(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(*seed, 0))
	f := process(t, []string{servertest.SharedZooKeeper(t).Addr()}, nil)
	ctx := f.Ctx
	count := map[string]int{}
	rounds := 12
	if testing.Short() {
		rounds = 4 // one of each kind: see script
	}
	for round := range rounds {
		root := newRoot()
		real, model := newWorld(t, ctx, f.Backend, root), newWorld(t, ctx, memory.New(memory.Options{}), root)
		for i := range 60 {
			what := script(ctx, rnd, model, round, i)
			if !alike(t, ctx, f.Process, real, model, what, count) {
				break
			}
		}
	}
	t.Log(count)
}

// A step is one commit, and its fault.
type step struct {
	by          int
	guards, ops []intent
	fault       string
}

func (s step) String() string {
	return fmt.Sprintf("session %d, guards %+v, ops %+v, lost %q", s.by, s.guards, s.ops, s.fault)
}

// script invents a step, most often one that the model's state allows.
func script(ctx context.Context, rnd *rand.Rand, model *world, round, i int) step {
	stands, writes := map[string]bool{}, map[string]int{}
	for _, key := range modelKeys {
		_, err := model.sessions[0].Get(ctx, model.root+key)
		stands[key] = err == nil
	}
	pick := func(there bool) string {
		for {
			key := modelKeys[rnd.IntN(len(modelKeys))]
			if stands[key] == there || rnd.IntN(30) == 0 {
				return key
			}
		}
	}
	both := round/2%2 == 1
	out := step{}
	if both {
		out.by = rnd.IntN(2)
	}
	for range rnd.IntN(6) / 4 * 2 {
		out.guards = append(out.guards, intent{kind: backend.OpKind(-rnd.IntN(2)), key: pick(true), age: rnd.IntN(15) / 14})
	}
	for j := range 1 + rnd.IntN(4) {
		in := intent{value: fmt.Sprint("v", i, ".", j)}
		switch rnd.IntN(8) {
		case 0, 1:
			in.kind, in.key = backend.OpCreateEphemeral, pick(false)
			stands[in.key] = true
		case 2:
			in.kind, in.key = backend.OpEnqueue, pick(true)
		case 3:
			in.kind, in.key, in.none = backend.OpCompareAndSet, pick(false), true
			for key := in.key; key != "/" && rnd.IntN(30) > 0; key = backend.Parent(key) {
				stands[key] = true
			}
		case 4:
			in.kind, in.key = backend.OpCompareAndSet, pick(true)
			in.plus = writes[in.key]
			writes[in.key]++
		case 5, 6:
			in.kind, in.key, in.age = backend.OpUpdate, pick(true), rnd.IntN(20)/19
			writes[in.key]++
		case 7:
			in.kind, in.key = backend.OpDelete, pick(true)
			stands[in.key] = false
		}
		if both && in.none && strings.HasSuffix(in.key, "s") {
			in.kind = backend.OpCreateEphemeral // a persistent successor of an exclusive entry is indistinguishable, too
		}
		if both && slices.Contains([]string{"/a", "/a/b", "/x"}, in.key) && in.kind != backend.OpEnqueue {
			in.value = "" // a directory's value from another session may be lost, see the package comment
		}
		out.ops = append(out.ops, in)
	}
	if round%2 == 1 && rnd.IntN(3) == 0 {
		out.fault = []string{"reply", "request"}[rnd.IntN(2)]
	}
	return out
}

// alike commits a step in both worlds, and returns false if the outcome is unknown and both must be
// abandoned.
func alike(t *testing.T, ctx context.Context, p *zktest.Process, real, model *world, what step, count map[string]int) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, wait.Patience)
	defer cancel()
	p.ClearRules()
	for _, s := range real.sessions {
		_, _ = s.Get(ctx, real.root) // makes the others' writes visible: there is one server
	}
	commits := func(opcode int32, payload []byte) bool {
		return opcode == proxytest.OpMulti && !zktest.MatchVote(opcode, payload) || opcode == proxytest.OpSetData || opcode == proxytest.OpDelete
	}
	switch what.fault {
	case "reply":
		p.LoseReply(commits)
	case "request":
		p.LoseRequest(commits)
	}
	got, want := real.commit(ctx, what.by, what.guards, what.ops), model.commit(ctx, what.by, what.guards, what.ops)
	if errors.Is(got, backend.ErrIndeterminate) {
		count["unknown"]++
		require.NotEmpty(t, what.fault, "%v: %v", what, got)
		return false
	}
	if (got == nil) != (want == nil) {
		t.Fatalf("%v\nreal:  %v\nmodel: %v\nbefore:\n%s", what, got, want, model.dump(t, ctx))
	}
	count[map[bool]string{true: "done", false: "refused"}[got == nil]]++
	if a, b := real.dump(t, ctx), model.dump(t, ctx); a != b {
		t.Fatalf("%v\nerror %v\nreal:\n%smodel:\n%s", what, got, a, b)
	}
	return true
}
