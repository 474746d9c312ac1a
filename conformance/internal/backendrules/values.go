package backendrules

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/elector-go/elector/backend"
)

var valueRules = []rule{
	promise("write/values", writeValues,
		"Values are read as they were written: empty, binary and large ones."),
	promise("write/keys", writeKeys,
		"Every call with a key that CheckKey refuses returns ErrBadKey. Keys that it accepts work, unchanged."),
	promise("write/key-limits", writeKeyLimits,
		"The longest and deepest keys that CheckKey accepts, and keys with any character that it accepts, work like others."),
}

func writeValues(r *run) {
	s, other, dir := r.pair()
	largest := cmp.Or(r.Service.MaxValue, 350_000) // bytes of a candidate's entry: its value is in base64 there
	for _, value := range [][]byte{nil, {}, {0}, []byte("\x00\xff\n\r\"\\"), bytes.Repeat([]byte("0123456789abcdef"), largest/16)} {
		for _, op := range []backend.Op{backend.Enqueue(dir, value), backend.CompareAndSet(fmt.Sprintf("%s%d", r.key("v"), len(value)), value, 0)} {
			e := s.commit(op)[0]
			r.FailIf(!bytes.Equal(e.Value, value), "%v of a value of %d bytes returned %d bytes: %.40q", op.Kind, len(value), len(e.Value), e.Value)
			other.sees(e)
			if e.Session == "" {
				s.delete(e)
			}
		}
	}
}

func writeKeys(r *run) {
	s := r.session()
	dir := s.dir("d")
	e := s.enqueue(dir, "x")
	for _, key := range []string{"", "/", "relative", r.key("a//b"), r.key("a/"), r.key("a/./b"), r.key(".."),
		r.key("a\x00b"), r.key("a\tb"), r.key("a\u00a0b"), r.key("a\u200bb"), r.key(strings.Repeat("d/", backend.MaxSegments) + "d"), "/zookeeper/x", "/.elector/x",
		r.key("\xff"), r.key("\ue000"), r.key("🦆"), r.key(strings.Repeat("x", backend.MaxKey))} {
		bad := backend.Entry{Key: key, Rev: e.Rev, Version: e.Version}
		guards := []backend.Condition{backend.IfExists(bad)}
		calls := map[string]func() error{
			"get":                        func() error { _, err := s.Get(r.ctx, key); return err },
			"list":                       func() error { _, err := s.List(r.ctx, key); return err },
			"await":                      func() error { _, err := s.Await(r.ctx, e, bad); return err },
			"await list":                 func() error { _, err := s.AwaitList(r.ctx, backend.Listing{Dir: key}); return err },
			"predecessor":                func() error { _, err := s.Predecessor(r.ctx, bad); return err },
			"discard":                    func() error { return s.Discard(r.ctx, bad) },
			"a commit under a condition": func() error { _, err := s.Commit(r.ctx, guards, backend.Enqueue(dir, nil)); return err },
		}
		for _, op := range []backend.Op{backend.CreateEphemeral(key, nil), backend.Enqueue(key, nil), backend.CompareAndSet(key, nil, 0),
			backend.Update(bad, nil), backend.Delete(bad)} {
			calls[op.Kind.String()] = func() error { _, err := s.Commit(r.ctx, nil, op); return err }
		}
		for name, call := range calls {
			r.Refused(fmt.Sprintf("%s %.40q", name, key), call(), backend.ErrBadKey)
		}
	}
	for _, long := range []string{r.key(strings.Repeat("x", backend.MaxDir)), strings.Repeat("/x", backend.MaxSegments)} {
		s.refused(fmt.Sprintf("enqueue in %.40q, which leaves no room for a key", long), backend.ErrBadKey, nil, backend.Enqueue(long, nil))
	}
	s.lists(dir, e)

	for _, name := range []string{"ünï", "日本", "a b", "%2F", "a%", "~", "*", "?x=1&y#z", "-", "_c_", "...", "a\\b", `"`,
		"0000000001", strings.Repeat("k", 200)} {
		made := s.create(dir+"/"+name, name)
		r.isNew("CreateEphemeral", made, dir+"/"+name, name, s.ID())
		s.has("after CreateEphemeral", made)
		sub := s.put(r.key("sub-"+name), "", 0).Key
		queued := s.enqueue(sub, name)
		s.lists(sub, queued)
		s.none("get of an entry that never existed", sub+"/x")
	}
	s.lists(dir, e)
}

func writeKeyLimits(r *run) {
	s, other := r.session(), r.session()
	root := strings.Count(r.Service.Root, "/")
	for name, key := range map[string]string{
		"longest": r.key(strings.Repeat("l", backend.MaxKey-len(r.key("")))),
		"deepest": r.key(strings.Repeat("d/", backend.MaxSegments-root-1) + "x"),
		"longest of the deepest": r.key(strings.Repeat("b/", backend.MaxSegments-root-1) +
			strings.Repeat("x", backend.MaxKey-len(r.key(""))-2*(backend.MaxSegments-root-1))),
	} {
		made := s.put(key, "x", 0) // makes all missing ancestors
		other.sees(made)
		waiting := other.await(made)
		changed := s.put(key, "y", made.Version)
		became(waiting, changed)
		s.delete(changed)
		held := s.create(key, "z")
		r.Must("discard of the "+name+" key", s.Discard(r.ctx, held))
	}
	for name, dir := range map[string]string{
		"longest": r.key("e/" + strings.Repeat("q", backend.MaxDir-len(r.key("e/")))),
		"deepest": r.key(strings.Repeat("q/", backend.MaxSegments-root-2) + "q"),
	} {
		s.commit(backend.CompareAndSet(backend.Parent(dir), nil, 0), backend.CompareAndSet(dir, nil, 0)) // as when an election is founded
		a := s.enqueue(dir, "a")
		b := other.enqueue(dir, "b")
		other.comesAfter(b, a)
		waiting := other.await(b, a)
		r.Must("discard in the "+name+" directory", s.Discard(r.ctx, a))
		now := waiting.value()
		r.FailIf(now[1].Exists(), "in the %s directory, await of a discarded entry returned %+v", name, now)
		other.lists(dir, b)
	}
	for _, key := range everyCharacter(r.key("")) {
		made := s.put(key, key, 0)
		r.isNew("CompareAndSet", made, key, key, "")
		s.has("after CompareAndSet", made)
		s.delete(made)
	}
}

// everyCharacter returns keys that together have all characters that CheckText accepts.
func everyCharacter(prefix string) []string {
	var all []string
	key := prefix
	for c := rune(0); c <= unicode.MaxRune; c++ {
		if _, ok := backend.CheckText(string(c)); !ok || c == '/' {
			continue
		}
		if len(key)+utf8.RuneLen(c) > backend.MaxKey {
			all, key = append(all, key), prefix
		}
		key += string(c)
	}
	return append(all, key)
}
