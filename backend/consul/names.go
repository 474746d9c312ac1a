package consul

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// The name of an enqueued entry is
//
//	e-<session>-<nonce, 16 hex digits><number of the op in its commit, 2 hex digits>
//
// Session and nonce make it unique: it is never used twice, so that the key alone names an
// incarnation, and the session that holds the key proves that the entry exists. The order is
// that of the creation indexes, and within one commit that of the ops.
const (
	entryPrefix = "e-"
	idLength    = 36 // of a session's ID: a UUID
	nonceLength = 16 + 2
)

// nameOf returns the name of an enqueued entry.
func nameOf(session string, nonce uint64, op int) string {
	return fmt.Sprintf("%s%s-%016x%02x", entryPrefix, session, nonce, op)
}

// owner returns the session of an enqueued entry, by its key alone, and "" for all others.
func owner(key string) string {
	name := key[strings.LastIndexByte(key, '/')+1:]
	if len(name) != len(entryPrefix)+idLength+1+nonceLength || !strings.HasPrefix(name, entryPrefix) {
		return ""
	}
	id, nonce, _ := name[len(entryPrefix):][:idLength], name[len(name)-nonceLength:], 0
	if name[len(entryPrefix)+idLength] != '-' || !driver.IsHex(nonce) || !isID(id) {
		return ""
	}
	return id
}

func isEnqueued(key string) bool { return owner(key) != "" }

// isID reports whether s looks like a session's ID, such as 4ca8e74b-6350-7587-addf-a18084928f3c.
func isID(s string) bool {
	return len(s) == idLength && s[8] == '-' && s[13] == '-' && s[18] == '-' && s[23] == '-' && driver.IsHex(s[:8]) &&
		driver.IsHex(s[9:13]) && driver.IsHex(s[14:18]) && driver.IsHex(s[19:23]) && driver.IsHex(s[24:])
}

// path returns Consul's name of a key.
func path(key string) string { return key[1:] }

// entryOf converts a pair to an Entry. Consul's index of a write rises over all its data, so that the
// difference distinguishes the versions of an incarnation.
func entryOf(p *api.KVPair) backend.Entry {
	return backend.Entry{
		Key:     "/" + p.Key,
		Value:   p.Value,
		Rev:     p.CreateIndex,
		Version: p.ModifyIndex - p.CreateIndex + 1,
		Session: p.Session,
	}
}

// entryAt returns the entry under a key, which may have no pair. An enqueued entry that the session in
// its name no longer holds, as an operator has released it, counts as deleted: it would be in the way
// for ever.
func entryAt(key string, p *api.KVPair) backend.Entry {
	if p == nil || p.CreateIndex == 0 || isEnqueued(key) && p.Session != owner(key) {
		return backend.Entry{Key: key}
	}
	return entryOf(p)
}

// indexOf returns the index of the write that led to e, or 0 if there is no entry.
func indexOf(e backend.Entry) uint64 {
	if !e.Exists() {
		return 0
	}
	return e.Rev + e.Version - 1
}

// enqueued returns the entries enqueued directly in dir, oldest first. Any other key below dir is no
// candidate: it has another name, or the session in its name does not hold it.
func enqueued(dir string, pairs api.KVPairs) []backend.Entry {
	prefix := path(dir) + "/"
	var all []backend.Entry
	for _, p := range pairs {
		name, ok := strings.CutPrefix(p.Key, prefix)
		if id := owner(p.Key); ok && id != "" && id == p.Session && !strings.Contains(name, "/") {
			all = append(all, entryOf(p))
		}
	}
	slices.SortFunc(all, func(a, b backend.Entry) int {
		return cmp.Or(cmp.Compare(a.Rev, b.Rev), strings.Compare(a.Key, b.Key))
	})
	return all
}
