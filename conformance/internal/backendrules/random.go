package backendrules

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/conformance/kit"
)

var randomRules = []rule{
	promise("write/random", writeRandom,
		"Random commits of two sessions, some with a lost reply or request, do what they do with package memory's backend: either each is done or each is refused, and the entries are the same afterwards.",
		"LoseReply", "LoseRequest"),
}

func writeRandom(r *run) {
	model := memory.New(memory.Options{})
	c := []*kit.Client{r.client(), r.client()}
	real := &world{sessions: []sess{r.open(c[0]), r.open(c[1])}}
	like := &world{sessions: []sess{r.open(&kit.Client{Backend: model.Client("0")}), r.open(&kit.Client{Backend: model.Client("1")})}}
	const steps = 40
	for round := range r.times(4, 12) { // one of each kind at least: see random
		rnd := rand.New(rand.NewPCG(1, uint64(round)))
		r.in(fmt.Sprint("round ", round), func() {
			for _, w := range []*world{real, like} {
				w.root, w.known = w.sessions[0].dir("d"), make(map[string][]backend.Entry)
				w.look(0)
			}
			armed := false
			for range steps {
				what := like.random(rnd, round)
				switch what.fault {
				case "reply":
					c[what.by].LoseReply(what.ops[0].kind)
				case "request":
					c[what.by].LoseRequest(what.ops[0].kind)
				}
				armed = armed || what.fault != "" // it may meet a later commit, if this one is not sent
				before := like.now
				got, want := real.commit(what), like.commit(what)
				if armed && errors.Is(got, backend.ErrIndeterminate) {
					return
				}
				r.FailIf((got == nil) != (want == nil), "%+v returned %v, want %v; before it there was\n%v", what, got, want, before)
				real.look(what.by)
				like.look(what.by)
				for i, e := range real.now {
					r.FailIf(!e.like(like.now[i]), "after %+v, which returned %v, there is %v, want %v; before it there was\n%v", what, got, e, like.now[i], before)
				}
			}
		})
	}
}

// A world is a service with two sessions, and what it has below root.
type world struct {
	sessions []sess
	root     string
	known    map[string][]backend.Entry // the incarnations of a key, oldest first; the last one may exist
	now      []seen                     // of each of randomKeys
}

// randomKeys are the keys of the ops. The first ones are directories, too.
var randomKeys = []string{"/a", "/a/b", "/x", "/a/b/c", "/a/s", "/a/b/s", "/x/y", "/x/s"}

const randomDirs = 3

// seen is an entry as all services must show it.
type seen struct {
	key, value string
	version    uint64 // in this world, 0 if it does not exist
	owner      int    // a session, -1 for none
	queue      []string
}

// like reports whether both are the same. A directory without a value may have one of the backend's.
func (e seen) like(want seen) bool {
	hidden := want.value == "" && slices.Index(randomKeys, e.key) < randomDirs
	return (e.version == 0) == (want.version == 0) && e.owner == want.owner && (hidden || e.value == want.value) && slices.Equal(e.queue, want.queue)
}

// look notes what one session sees once both have caught up.
func (w *world) look(by int) {
	for _, s := range w.sessions {
		s.r.Must("catch up", s.CatchUp(s.r.ctx, w.root))
	}
	w.now = nil
	for _, key := range randomKeys {
		e := w.sessions[by].peek(w.root + key)
		at := seen{key: key, value: string(e.Value), version: e.Version, owner: slices.IndexFunc(w.sessions, func(s sess) bool { return s.ID() == e.Session })}
		for _, child := range w.sessions[by].list(w.root + key).Keys {
			at.queue = append(at.queue, string(w.sessions[by].get(child).Value))
		}
		w.now = append(w.now, at)
		switch known := w.known[key]; {
		case !e.Exists():
		case len(known) > 0 && known[len(known)-1].Rev == e.Rev:
			known[len(known)-1] = e
		default:
			w.known[key] = append(known, e)
		}
	}
}

// A step is a commit of one session in any world, and its fault.
type step struct {
	by          int
	guards, ops []intent
	fault       string
}

// An intent is an op or a condition that is about another entry in each world.
type intent struct {
	kind       backend.OpKind
	key, value string
	age        int  // how many incarnations back
	exact      bool // IfUnchanged
	none       bool // CompareAndSet: there is no entry
}

// entry returns what an intent is about. IfUnchanged cannot tell an earlier persistent entry.
func (w *world) entry(in intent) backend.Entry {
	known := w.known[in.key]
	last := len(known) - 1
	if last < 0 {
		return backend.Entry{Key: w.root + in.key, Rev: 1 << 62, Version: 1} // never existed
	}
	if i := last - in.age; i >= 0 && !(in.exact && known[i].Session == "") {
		return known[i]
	}
	return known[last]
}

func (w *world) commit(what step) error {
	var guards []backend.Condition
	for _, in := range what.guards {
		guards = append(guards, backend.Condition{Entry: w.entry(in), Exact: in.exact})
	}
	var ops []backend.Op
	for _, in := range what.ops {
		op := backend.Op{Kind: in.kind, Key: w.root + in.key, Value: []byte(in.value)}
		switch {
		case in.kind == backend.OpUpdate, in.kind == backend.OpDelete:
			op.Rev = w.entry(in).Rev
		case in.kind == backend.OpCompareAndSet && !in.none:
			op.Version = w.now[slices.Index(randomKeys, in.key)].version
		}
		if in.kind == backend.OpDelete {
			op.Value = nil
		}
		ops = append(ops, op)
	}
	s := w.sessions[what.by]
	_, err := s.Commit(s.r.ctx, guards, ops...)
	return err
}

// random invents a commit, most often one that can be done here. Every other round has faults, and in two
// of four both sessions write. Then it leaves out what ZooKeeper cannot tell apart: its package says what.
// No directory is ephemeral, and none that the commit deletes is made again by it, which etcd cannot do.
func (w *world) random(rnd *rand.Rand, round int) (what step) {
	stood, stands, about, deleted := make(map[string]bool), make(map[string]bool), make(map[string]bool), false
	for _, e := range w.now {
		stood[e.key], stands[e.key] = e.version > 0, e.version > 0
	}
	pick := func(fits func(key string) bool) string {
		for {
			if key := randomKeys[rnd.IntN(len(randomKeys))]; fits(key) || rnd.IntN(150) == 0 {
				return key
			}
		}
	}
	there := func(key string) bool { return stood[key] && stands[key] }
	directory := func(key string) bool { return slices.Index(randomKeys, key) < randomDirs }
	both := round/2%2 == 1
	if both {
		what.by = rnd.IntN(2)
	}
	for range rnd.IntN(6) / 4 * 2 {
		what.guards = append(what.guards, intent{key: pick(there), exact: rnd.IntN(2) == 0, age: rnd.IntN(15) / 14})
	}
	for most := 1 + rnd.IntN(4); len(what.ops) < most; {
		in := intent{kind: backend.OpKind(1 + rnd.IntN(5)), value: fmt.Sprint("v", rnd.IntN(1000))}
		switch in.kind {
		case backend.OpCreateEphemeral:
			in.key = pick(func(key string) bool { return !stands[key] && stands[backend.Parent(key)] })
		case backend.OpCompareAndSet:
			if in.none = rnd.IntN(2) == 0; in.none {
				in.key = pick(func(key string) bool { return !stands[key] })
			} else {
				in.key = pick(there)
			}
		case backend.OpDelete:
			in.key, in.age = pick(func(key string) bool {
				return there(key) && !slices.ContainsFunc(randomKeys, func(below string) bool { return stands[below] && strings.HasPrefix(below, key+"/") })
			}), rnd.IntN(20)/19
		case backend.OpEnqueue:
			in.key = pick(func(key string) bool { return stands[key] && directory(key) })
		default:
			in.key, in.age = pick(there), rnd.IntN(20)/19
		}
		if both && in.none && strings.HasSuffix(in.key, "s") {
			in.kind = backend.OpCreateEphemeral
		}
		if both && directory(in.key) && in.kind != backend.OpEnqueue {
			in.value = ""
		}
		of := fmt.Sprint(in.key, in.kind == backend.OpEnqueue)
		if about[of] || directory(in.key) && in.kind == backend.OpCreateEphemeral || deleted && in.none {
			continue
		}
		about[of] = true
		switch in.kind {
		case backend.OpDelete:
			stands[in.key] = false
			deleted = deleted || directory(in.key)
		case backend.OpCompareAndSet:
			for key := in.key; key != "/" && rnd.IntN(30) > 0; key = backend.Parent(key) {
				stands[key] = true
			}
		case backend.OpCreateEphemeral:
			stands[in.key] = true
		}
		what.ops = append(what.ops, in)
	}
	if round%2 == 1 && rnd.IntN(3) == 0 {
		what.fault = []string{"reply", "request"}[rnd.IntN(2)]
	}
	return what
}
