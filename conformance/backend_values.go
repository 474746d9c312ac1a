package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/elector-go/elector/backend"
)

func valueRules() []rule {
	return []rule{
		{
			name: "write/values",
			text: "Values come back as they were written: empty, binary and large ones.",
			run:  writeValues,
		}, {
			name: "write/keys",
			text: "Keys that CheckKey refuses are ErrBadKey in every call, and those that it accepts work, as they are.",
			run:  writeKeys,
		},
	}
}

func writeValues(r *run) {
	s, other := r.session(), r.session()
	dir := s.dir("d")
	for _, value := range [][]byte{nil, {}, {0}, []byte("\x00\xff\n\r\"\\"), bytes.Repeat([]byte("0123456789abcdef"), 2000)} {
		for _, e := range s.commit(backend.Enqueue(dir, value), backend.Put(fmt.Sprintf("%s%d", r.key("v"), len(value)), value, 0)) {
			if !bytes.Equal(e.Value, value) {
				r.failf("commit of a value of %d bytes returned %d: %.40q", len(value), len(e.Value), e.Value)
			}
			other.sees(e)
			if got := other.get(e.Key); !bytes.Equal(got.Value, value) {
				r.failf("a value of %d bytes came back as %d: %.40q", len(value), len(got.Value), got.Value)
			}
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
		r.key("a\x00b"), r.key("a\tb"), r.key("\xff"), r.key("\ue000"), r.key("🦆"), r.key(strings.Repeat("x", backend.MaxKey))} {
		bad := backend.Entry{Key: key, Rev: e.Rev, Version: e.Version}
		calls := map[string]func() error{
			"get":         func() error { _, err := s.Get(r.ctx, key); return err },
			"list":        func() error { _, err := s.List(r.ctx, key); return err },
			"await":       func() error { _, err := s.Await(r.ctx, e, bad); return err },
			"await list":  func() error { _, err := s.AwaitList(r.ctx, backend.Listing{Dir: key}); return err },
			"predecessor": func() error { _, err := s.Predecessor(r.ctx, bad); return err },
			"drop":        func() error { return s.Drop(r.ctx, bad) },
			"guard": func() error {
				_, err := s.Commit(r.ctx, []backend.Guard{backend.Held(bad)}, backend.Enqueue(dir, nil))
				return err
			},
		}
		for _, op := range []backend.Op{backend.Create(key, nil), backend.Enqueue(key, nil), backend.Put(key, nil, 0),
			backend.Set(bad, nil), backend.Delete(bad)} {
			calls[op.Kind.String()] = func() error { _, err := s.Commit(r.ctx, nil, op); return err }
		}
		for name, call := range calls {
			r.refused(fmt.Sprintf("%s %.40q", name, key), call(), backend.ErrBadKey)
		}
	}
	s.lists(dir, e)

	for _, name := range []string{"ünï", "日本", "a b", "%2F", "a%", "~", "*", "?x=1&y#z", "-", "_c_", "...", "a\\b", `"`,
		"0000000001", strings.Repeat("k", 200)} {
		made := s.create(dir+"/"+name, name)
		if got := s.get(dir + "/" + name); !got.Same(made) || got.Key != dir+"/"+name {
			r.failf("create of %q made %+v", dir+"/"+name, got)
		}
		sub := s.put(r.key("sub-"+name), "", 0).Key
		queued := s.enqueue(sub, name)
		s.lists(sub, queued)
		if _, err := s.Get(r.ctx, sub+"/x"); !errors.Is(err, backend.ErrNoEntry) {
			r.failf("get of %s: %v", sub+"/x", err)
		}
	}
	s.lists(dir, e)
}
